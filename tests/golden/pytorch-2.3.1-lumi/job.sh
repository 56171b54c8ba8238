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
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    dlc_proof=$PWD/proof-${dlc_job:-$$}
    mkdir -p "$dlc_proof"
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
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
    dlc_gpus=1:0
dlc_form=${DLCONTAINER_FORM:-gcd}
case $dlc_form in
    gcd)  # One rank beside each GCD (it takes the one of its local number), 6 cores each
        dlc_ranks_per_node=8 dlc_ranks=$((dlc_nodes * 8))
        dlc_gpus=8:8
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 \
            '--cpu-bind=mask_cpu:7e000000000000,7e00000000000000,7e0000,7e000000,7e,7e00,7e00000000,7e0000000000')
        ;;
    pmi2)  # The image's own MPI in place of the host's; works, slowly
        dlc_ranks_per_node=8 dlc_ranks=$((dlc_nodes * 8))
        dlc_gpus=8:8
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 --mpi=pmi2)
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: gcd, pmi2" ;;
esac
# SEEN:SHARING, the GPUs that each rank shall see, and the ranks that share them. Each rank looks
# before it starts. A proof only notes it: it says itself what it found.
case ${DLCONTAINER_GPUS:-1} in
    0) dlc_gpus= ;;
    1) [ -z "$dlc_proof" ] || dlc_gpus=$dlc_gpus:note ;;
    *) dlc_fail "DLCONTAINER_GPUS is '$DLCONTAINER_GPUS'" "give 1, or 0: ranks don't look at GPUs" ;;
esac
# A rank that fails ends the others, which would wait for it. A proof tells of it instead.
[ -n "$dlc_proof" ] || export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}

# What each rank runs.
set -- singularity exec --rocm "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "${dlc_launcher[@]}" "$@"; echo; } >&2
read -r -d '' dlc_rank <<'END_OF_RANK' || :
# A rank, before its engine: it takes its numbers from what its launcher tells, for env://.
MASTER_ADDR=$1 MASTER_PORT=$2 dlc_ranks=$3 dlc_per_node=$4 dlc_workers=$5 dlc_starter=$6
dlc_gpus=$7
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
# What this rank can use of its node's accelerators, by the host's own tool where there is one.
dlc_short() {  # one rank says it for its node
    [ "${LOCAL_RANK:-0}" != 0 ] ||
        printf 'job: %s: %s\n  next: %s; DLCONTAINER_GPUS=0 starts without this check\n' "$(uname -n)" "$1" "$2" >&2
    case $dlc_gpus in *:note) ;; *) exit 3 ;; esac
}
dlc_look() {
    dlc_wanted=${dlc_gpus%%:*} dlc_sharing=${dlc_gpus#*:} dlc_count='' dlc_by=''
    dlc_sharing=${dlc_sharing%%:*}
    dlc_modes=''
    if ! [ -e /dev/kfd ]; then
        dlc_count=0 dlc_by="there is no /dev/kfd"
    elif dlc_modes=$(rocm-smi --showid 2>/dev/null); then
        dlc_count=$(printf '%s\n' "$dlc_modes" | grep -o '^GPU\[[0-9]*\]' | sort -u | grep -c .)
        # Words of another release are no answer.
        [ "$dlc_count" != 0 ] || dlc_count=
        dlc_by="rocm-smi" dlc_modes=
    fi
    # shellcheck disable=SC2043
    for dlc_name in ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES; do
        dlc_shown=''
        eval "dlc_shown=\${$dlc_name-unset}"
        case $dlc_shown in
            unset) continue ;;
            '') continue ;;
            *) dlc_left=$(printf '%s\n' "$dlc_shown" | tr , '\n' | grep -c .) ;;
        esac
        [ "$dlc_left" -lt "${dlc_count:-9999}" ] && dlc_count=$dlc_left dlc_by="$dlc_name=$dlc_shown"
    done
    [ -n "$dlc_count" ] || return 0
    # Who submits with fewer than the lines above ask for was promised these.
    case ${SLURM_GPUS_ON_NODE-} in
        '' | 0* | *[!0-9]*) ;;
        *) [ "$SLURM_GPUS_ON_NODE" -ge "$dlc_wanted" ] || dlc_wanted=$SLURM_GPUS_ON_NODE ;;
    esac
    if [ "$dlc_count" -lt "$dlc_wanted" ]; then
        dlc_short "a rank here can use $dlc_count GPUs of the $dlc_wanted that this form of job gives it ($dlc_by)" \
            "ask for them in the lines above, or take this node out"
        return 0
    fi
}
[ -z "$dlc_gpus" ] || dlc_look
exec "$@"
END_OF_RANK
set -- "${dlc_launcher[@]}" /bin/sh -c "$dlc_rank" dlc-rank "$MASTER_ADDR" "$MASTER_PORT" \
    "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus" \
    "$@"
"$@"
