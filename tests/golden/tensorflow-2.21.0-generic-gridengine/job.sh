#!/bin/bash
#$ -S /bin/bash
#$ -N dlcontainer
#$ -A ABC123
#$ -j y
#$ -l h_rt=00:30:00
#$ -pe mpi-64 128
# tensorflow 2.21.0 at site generic-gridengine (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: qsub job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Not known, so not promised (why: dlcontainer site show generic-gridengine): your parallel
#   environments and what each gives on a node; whether the host's mpirun was built for Grid
#   Engine; your glibc and kernel; your fabric
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "${SGE_O_WORKDIR:-$PWD}"

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/tensorflow-2.21.0-generic-gridengine.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    # A job that begins again keeps its number: each time has a folder of its own.
    dlc_again=${RESTARTED:-0}
    case $dlc_again in '' | *[!0-9]*) dlc_again=0 ;; esac
    while :; do
        dlc_proof=$PWD/proof-${dlc_job:-$$}
        [ "$dlc_again" -eq 0 ] || dlc_proof=$dlc_proof-restart-$dlc_again
        ! dlc_said=$(mkdir "$dlc_proof" 2>&1) || break
        [ -e "$dlc_proof" ] || [ -L "$dlc_proof" ] ||
            dlc_fail "$dlc_said" "submit this from a folder that you can write to"
        dlc_again=$((dlc_again + 1))
    done
    set -- /opt/tensorflow/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD

# A relative or empty entry of PATH is the current folder or one below it, where anybody's files may
# lie: the engine and its helpers are not taken from there.
case ":${PATH-}:" in
    *:[!/]*)
        dlc_rest=${PATH-}: dlc_path=
        while [ -n "$dlc_rest" ]; do
            dlc_one=${dlc_rest%%:*} dlc_rest=${dlc_rest#*:}
            case $dlc_one in /*) dlc_path=${dlc_path:+$dlc_path:}$dlc_one ;; esac
        done
        PATH=${dlc_path:-/usr/bin:/bin}
        export PATH
        ;;
esac

dlc_nodes=${NHOSTS-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: qsub job.sh [COMMAND [WORD ...]]' ;;
esac

dlc_number=${JOB_ID-}${SGE_TASK_ID-}
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Where the ranks meet: the job's first node. The port follows from the job's number, so that two
# jobs on one node have two, unless the site's own documentation gives one.
# DLCONTAINER_MASTER_ADDR and DLCONTAINER_MASTER_PORT come first.
MASTER_ADDR=${DLCONTAINER_MASTER_ADDR-}
dlc_hosts=$(awk 'NF && !seen[$1]++ { print $1 }' "${PE_HOSTFILE-/dev/null}" 2>/dev/null) || dlc_hosts=
if [ -z "$MASTER_ADDR" ]; then
    dlc_first=${dlc_hosts%%$'\n'*}
    if [ -n "${JOB_ID-}" ]; then dlc_first=$(uname -n); fi
    MASTER_ADDR=$dlc_first
    [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
        "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
fi
export MASTER_ADDR MASTER_PORT

# What starts the ranks.
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
    dlc_gpus=''
# node: one rank a node, which has all its cores
dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1))
dlc_port=$((20000 + 10#0$dlc_number % (10000 / 1) * 1)) dlc_workers=
for dlc_host in $dlc_hosts; do
    for ((dlc_local = 0; dlc_local < 1; dlc_local++)); do
        dlc_workers+=${dlc_workers:+, }\"$dlc_host:$((dlc_port + dlc_local))\"
    done
done
dlc_launcher=(mpirun -n "$dlc_ranks" --map-by ppr:"$dlc_ranks_per_node":node --bind-to none)

# What each rank runs.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "${dlc_launcher[@]}" "$@"; echo; } >&2
read -r -d '' dlc_rank <<'END_OF_RANK' || :
# A rank, before its engine: it takes its numbers from what its launcher tells, for env://.
MASTER_ADDR=$1 MASTER_PORT=$2 dlc_ranks=$3 dlc_per_node=$4 dlc_workers=$5 dlc_starter=$6
shift 7
dlc_take() {  # rank, ranks, rank on this node, ranks there as "4", "4(x2)" or "4,2"
    [ -n "$1" ] || return 1
    RANK=$1 WORLD_SIZE=${2:-$dlc_ranks} LOCAL_RANK=$3
    case $4 in
        *,* | '') LOCAL_WORLD_SIZE=$dlc_per_node ;;
        *) LOCAL_WORLD_SIZE=${4%%"("*} ;;
    esac
    # Where a launcher says no more than a rank, ranks lie node by node.
    [ -n "$LOCAL_RANK$dlc_per_node" ] && LOCAL_RANK=${LOCAL_RANK:-$((RANK % dlc_per_node))}
    [ -n "$WORLD_SIZE" ]
}
dlc_take "${OMPI_COMM_WORLD_RANK-}" "${OMPI_COMM_WORLD_SIZE-}" "${OMPI_COMM_WORLD_LOCAL_RANK-}" "${OMPI_COMM_WORLD_LOCAL_SIZE-}" ||
    dlc_take "${PALS_RANKID-}" "${PALS_SIZE-}" "${PALS_LOCAL_RANKID-}" "${PALS_LOCAL_SIZE-}" ||
    dlc_take "${PMI_RANK-}" "${PMI_SIZE-}" "${MPI_LOCALRANKID-}" "${MPI_LOCALNRANKS-}" ||
    dlc_take "${PMIX_RANK-}" "${PMIX_SIZE-}" "${PMIX_LOCAL_RANK-}" "${PMIX_LOCAL_SIZE-}" ||
    { echo "job: mpirun does not say which rank this is" >&2; exit 3; }
if [ "$dlc_starter" = torchrun ]; then
    # One a node: torchrun numbers the ranks itself, and reads its node's number here.
    PET_NODE_RANK=$RANK
    export PET_NODE_RANK
else
    export RANK WORLD_SIZE
    [ -z "$LOCAL_RANK" ] || export LOCAL_RANK
    [ -z "$LOCAL_WORLD_SIZE" ] || export LOCAL_WORLD_SIZE
    [ -z "$dlc_workers" ] || export TF_CONFIG="{\"cluster\": {\"worker\": [$dlc_workers]}, \
\"task\": {\"type\": \"worker\", \"index\": $RANK}}"
fi
export MASTER_ADDR MASTER_PORT
# A relative or empty entry of PATH is the current folder or one below it, where anybody's files may
# lie: the engine and its helpers are not taken from there.
case ":${PATH-}:" in
    *:[!/]*)
        dlc_rest=${PATH-}: dlc_path=
        while [ -n "$dlc_rest" ]; do
            dlc_one=${dlc_rest%%:*} dlc_rest=${dlc_rest#*:}
            case $dlc_one in /*) dlc_path=${dlc_path:+$dlc_path:}$dlc_one ;; esac
        done
        PATH=${dlc_path:-/usr/bin:/bin}
        export PATH
        ;;
esac
exec "$@"
END_OF_RANK
set -- "${dlc_launcher[@]}" /bin/sh -c "$dlc_rank" dlc-rank "$MASTER_ADDR" "$MASTER_PORT" \
    "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus" \
    "$@"
"$@"
