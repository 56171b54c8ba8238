#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -A ABC123
#SBATCH -p cpu
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH -t 00:30:00
#SBATCH -o dlcontainer.o%j
# pytorch 2.13.0 at site generic-slurm-cpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: pmix, pmi2. Another than pmix: DLCONTAINER_FORM=NAME sbatch job.sh
# Not known, so not promised (why: dlcontainer site show generic-slurm): your NVIDIA driver; your
#   glibc and kernel; your fabric; which PMI your Slurm offers
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-generic-slurm-cpu.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    # A job that begins again keeps its number: each time has a folder of its own.
    dlc_again=${SLURM_RESTART_COUNT:-0}
    case $dlc_again in '' | *[!0-9]*) dlc_again=0 ;; esac
    while :; do
        dlc_proof=$PWD/proof-${dlc_job:-$$}
        [ "$dlc_again" -eq 0 ] || dlc_proof=$dlc_proof-restart-$dlc_again
        ! dlc_said=$(mkdir "$dlc_proof" 2>&1) || break
        [ -e "$dlc_proof" ] || [ -L "$dlc_proof" ] ||
            dlc_fail "$dlc_said" "submit this from a folder that you can write to"
        dlc_again=$((dlc_again + 1))
    done
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
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

dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac

dlc_number=${SLURM_JOB_ID-}
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Where the ranks meet: the job's first node. The port follows from the job's number, so that two
# jobs on one node have two, unless the site's own documentation gives one.
# DLCONTAINER_MASTER_ADDR and DLCONTAINER_MASTER_PORT come first.
MASTER_ADDR=${DLCONTAINER_MASTER_ADDR-}
dlc_hosts=$(scontrol show hostnames "${SLURM_JOB_NODELIST-}" 2>/dev/null) || dlc_hosts=
if [ -z "$MASTER_ADDR" ]; then
    dlc_first=${dlc_hosts%%$'\n'*}
    if [ "${SLURM_NODEID-}" = 0 ]; then dlc_first=$(uname -n); fi
    MASTER_ADDR=$dlc_first
    [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
        "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
fi
export MASTER_ADDR MASTER_PORT

# What starts the ranks.
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
    dlc_gpus=''
dlc_form=${DLCONTAINER_FORM:-pmix}
case $dlc_form in
    pmix)  # Open MPI in the image
        dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1))
        dlc_launcher=(srun --mpi=pmix)
        ;;
    pmi2)  # MPICH in the image
        dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1))
        dlc_launcher=(srun --mpi=pmi2)
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: pmix, pmi2" ;;
esac
# A rank gets one CPU (Slurm 22.05 and later) unless its launcher is told how many the job asked for.
[ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
# A rank that fails ends the others, which would wait for it. A proof tells of it instead.
[ -n "$dlc_proof" ] || export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}

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
dlc_take "${SLURM_PROCID-}" "${SLURM_NTASKS-}" "${SLURM_LOCALID-}" "${SLURM_TASKS_PER_NODE-}" ||
    { echo "job: srun does not say which rank this is" >&2; exit 3; }
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
