#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J dlcontainer
#SBATCH -C cpu
#SBATCH -q regular
#SBATCH -t 00:30:00
#SBATCH -N 2
# horovod 0.28.1 at site perlmutter-cpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# compute nodes see migrated images: podman-hpc migrate IMAGE
# source: E3SM-Project/E3SM@75e17cc cime_config/machines (pm-gpu, pm-cpu)
# source: ECP-WarpX/WarpX@83a51f0 Tools/machines/perlmutter-nersc/perlmutter_cpu.sbatch
# source: NERSC/podman-hpc@f16c6fe README.md
# source: dingp/communication-libraries-image@1c80027 scripts/perlmutter-images/run-nccl-gpu.sbatch
# Not known, so not promised (why: dlcontainer site show perlmutter): service pack of SLES and
#   glibc; which Cray MPICH stands in /usr/lib/shifter/mpich-2.2; NCCL over Slingshot; driver
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
dlc_need() {
    for dlc_name; do
        [ -n "${!dlc_name-}" ] || dlc_fail "\$$dlc_name is empty or not set; the site config uses it" \
            "load the module that sets it, or export $dlc_name before you submit"
    done
}

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-horovod:0.28.1-perlmutter-cpu}
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
    set -- /opt/horovod/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
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

dlc_need PSCRATCH
dlc_here=$PWD
dlc_bind="${PSCRATCH}":"${PSCRATCH}"; [ "${dlc_bind#*:}" != "$PWD" ] || dlc_here=

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
# l3: One rank on each L3 region, 8 cores each
dlc_ranks_per_node=16 dlc_ranks=$((dlc_nodes * 16))
dlc_launcher=(srun -N"$dlc_nodes" -n"$dlc_ranks" -c16 --cpu-bind=cores)
# A rank gets one CPU (Slurm 22.05 and later) unless its launcher is told how many the job asked for.
[ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
# A rank that fails ends the others, which would wait for it. A proof tells of it instead.
[ -n "$dlc_proof" ] || export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}

# What each rank runs.
set -- podman-hpc run --rm --network=host --ipc=host --pid=host -v "${PSCRATCH}":"${PSCRATCH}" \
    ${dlc_here:+-v "$dlc_here:$dlc_here"} -w "$PWD" -e MASTER_ADDR -e MASTER_PORT -e RANK \
    -e WORLD_SIZE -e LOCAL_RANK -e LOCAL_WORLD_SIZE -e PET_NODE_RANK -e TF_CONFIG -e 'SLURM*' \
    "$dlc_image" "$@"
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
