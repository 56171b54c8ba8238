#!/bin/bash
#SBATCH --account=project_465000000
#SBATCH --job-name=dlcontainer
#SBATCH --partition=standard-g
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# pytorch 2.3.1 at site lumi (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: gcd, pmi2. Another than gcd: DLCONTAINER_FORM=NAME sbatch job.sh
# source: Lumi-supercomputer/lumi-userguide@bad69ac docs/runjobs/scheduled-jobs/lumig-job.md
# source: Lumi-supercomputer/lumi-userguide@0ff8fc9 docs/runjobs/scheduled-jobs/container-jobs.md
# source: interTwin-eu/itwinai lumi_pre_exec.sh
# source: https://arxiv.org/abs/2407.19928
# source: Lumi-supercomputer/lumi-userguide@03bbfc0 docs/software/containers/singularity.md
# Not known, so not promised (why: dlcontainer site show lumi): the variable that the module of
#   the host's MPI sets to its version; service pack and glibc; amdgpu driver; stacks after
#   LUMI/24.03 (25.03 and later are in use); GPU-aware MPI from containers; RCCL over Slingshot
#   needs the aws-ofi plug-in in the image, or module singularity-AI-bindings
#   (/appl/local/containers/ai-modules) for the centre's own images; project folders
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
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.3.1-lumi.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD

# In the image.
dlc_need USER
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "SINGULARITYENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside NCCL_SOCKET_IFNAME hsn0,hsn1,hsn2,hsn3
dlc_inside NCCL_NET_GDR_LEVEL 3
dlc_inside MIOPEN_USER_DB_PATH /tmp/miopen-"${USER}"
dlc_inside MIOPEN_CUSTOM_CACHE_DIR /tmp/miopen-"${USER}"

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
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter=''
dlc_form=${DLCONTAINER_FORM:-gcd}
case $dlc_form in
    gcd)  # One rank beside each GCD (it takes the one of its local number), 6 cores each
        dlc_ranks_per_node=8 dlc_ranks=$((dlc_nodes * 8))
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 \
            '--cpu-bind=mask_cpu:7e000000000000,7e00000000000000,7e0000,7e000000,7e,7e00,7e00000000,7e0000000000')
        ;;
    pmi2)  # The image's own MPI in place of the host's; works, slowly
        dlc_ranks_per_node=8 dlc_ranks=$((dlc_nodes * 8))
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 --mpi=pmi2)
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: gcd, pmi2" ;;
esac

# What each rank runs.
set -- singularity exec --rocm "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "${dlc_launcher[@]}" "$@"; echo; } >&2
read -r -d '' dlc_rank <<'END_OF_RANK' || :
# A rank, before its engine: it takes its numbers from what its launcher tells, for env://.
MASTER_ADDR=$1 MASTER_PORT=$2 dlc_ranks=$3 dlc_per_node=$4 dlc_workers=$5 dlc_starter=$6
shift 6
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
[ -e /dev/kfd ] || [ "${LOCAL_RANK:-0}" != 0 ] ||
    echo "job: $(uname -n) shows no /dev/kfd: ranks there find no accelerator; did the job ask for any?" >&2
exec "$@"
END_OF_RANK
set -- "${dlc_launcher[@]}" /bin/sh -c "$dlc_rank" dlc-rank "$MASTER_ADDR" "$MASTER_PORT" \
    "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" \
    "$@"
"$@"
