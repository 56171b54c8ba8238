#!/bin/bash
#PBS -N dlcontainer
#PBS -l select=2:system=polaris
#PBS -l place=scatter
#PBS -l walltime=0:30:00
#PBS -l filesystems=home:eagle
#PBS -q debug
#PBS -A ABC123
# mxnet 1.9.1 at site polaris-2024-04 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: qsub job.sh
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: gpu, node. Another than gpu: qsub -v DLCONTAINER_FORM=NAME job.sh
# source: argonne-lcf/user-guides@7d04a3f docs/polaris/index.md
# source: argonne-lcf/user-guides@11dbfa6 docs/polaris/running-jobs/index.md
# source: argonne-lcf/user-guides@0dc8699 docs/polaris/running-jobs/using-gpus.md
# source: argonne-lcf/user-guides@0037d9f docs/aurora/running-jobs-aurora.md (PALS on Aurora, ranges of --cpu-bind)
# source: argonne-lcf/user-guides@7d04a3f docs/polaris/containers/containers.md
# source: argonne-lcf/user-guides@05ff974 docs/polaris/containers/containers.md
# source: argonne-lcf/user-guides@002a929 docs/polaris/applications-and-libraries/libraries/nccl.md
# Not known, so not promised (why: dlcontainer site show polaris): the variable that the module of
#   the host's MPI sets to its version; glibc; PALS; further folders of the host's /opt; GPU-aware
#   MPI from containers; NCCL over Slingshot; which GPU a rank takes; modules of apptainer in the
#   epochs before 2026-08
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "${PBS_O_WORKDIR:-$PWD}"

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/mxnet-1.9.1-polaris-2024-04.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    dlc_proof=$PWD/proof-${dlc_job:-$$}
    mkdir -p "$dlc_proof"
    set -- /opt/mxnet/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module use /soft/modulefiles || dlc_stop
module load spack-pe-base/0.6.2 || dlc_stop
module load apptainer || dlc_stop
set -eu

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD

# On the host.
export HTTP_PROXY=http://proxy.alcf.anl.gov:3128
export HTTPS_PROXY=http://proxy.alcf.anl.gov:3128
export http_proxy=http://proxy.alcf.anl.gov:3128
export https_proxy=http://proxy.alcf.anl.gov:3128

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
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside NCCL_NET_GDR_LEVEL PHB
dlc_inside NCCL_CROSS_NIC 1
dlc_inside NCCL_COLLNET_ENABLE 1
dlc_inside FI_CXI_DISABLE_HOST_REGISTER 1
dlc_inside FI_MR_CACHE_MONITOR userfaultfd
dlc_inside FI_CXI_DEFAULT_CQ_SIZE 131072

dlc_nodes=$(awk 'NF && !seen[$1]++ { n++ } END { print n + 0 }' "${PBS_NODEFILE-/dev/null}" || :)
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: qsub job.sh' ;;
esac

dlc_number=${PBS_JOBID-}
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Where the ranks meet: the job's first node. The port follows from the job's number, so that two
# jobs on one node have two, unless the site's own documentation gives one.
# DLCONTAINER_MASTER_ADDR and DLCONTAINER_MASTER_PORT come first.
MASTER_ADDR=${DLCONTAINER_MASTER_ADDR-}
dlc_hosts=$(awk 'NF && !seen[$1]++ { print $1 }' "${PBS_NODEFILE-/dev/null}" 2>/dev/null) || dlc_hosts=
if [ -z "$MASTER_ADDR" ]; then
    dlc_first=${dlc_hosts%%$'\n'*}
    if [ -n "${PBS_JOBID-}" ]; then dlc_first=$(uname -n); fi
    MASTER_ADDR=${dlc_first%%.*}.hsn.cm.polaris.alcf.anl.gov
    [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
        "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
fi
export MASTER_ADDR MASTER_PORT

# What starts the ranks.
dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
    dlc_gpus=1:0
dlc_form=${DLCONTAINER_FORM:-gpu}
case $dlc_form in
    gpu)  # As many ranks as GPUs, each on the 8 cores beside the GPU of its local number
        dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))
        dlc_gpus=4:4
        dlc_launcher=(mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" --cpu-bind \
            list:24-31:16-23:8-15:0-7)
        ;;
    node)  # 16 ranks a node, as the page on containers shows for MPI without GPUs
        dlc_ranks_per_node=16 dlc_ranks=$((dlc_nodes * 16))
        dlc_gpus=4:16
        dlc_launcher=(mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node")
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: gpu, node" ;;
esac
# SEEN:SHARING, the GPUs that each rank shall see, and the ranks that share them. Each rank looks
# before it starts. A proof only notes it: it says itself what it found.
case ${DLCONTAINER_GPUS:-1} in
    0) dlc_gpus= ;;
    1) [ -z "$dlc_proof" ] || dlc_gpus=$dlc_gpus:note ;;
    *) dlc_fail "DLCONTAINER_GPUS is '$DLCONTAINER_GPUS'" "give 1, or 0: ranks don't look at GPUs" ;;
esac

# What each rank runs.
set -- apptainer exec --nv "$dlc_image" "$@"
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
dlc_take "${OMPI_COMM_WORLD_RANK-}" "${OMPI_COMM_WORLD_SIZE-}" "${OMPI_COMM_WORLD_LOCAL_RANK-}" "${OMPI_COMM_WORLD_LOCAL_SIZE-}" ||
    dlc_take "${PALS_RANKID-}" "${PALS_SIZE-}" "${PALS_LOCAL_RANKID-}" "${PALS_LOCAL_SIZE-}" ||
    dlc_take "${PMI_RANK-}" "${PMI_SIZE-}" "${MPI_LOCALRANKID-}" "${MPI_LOCALNRANKS-}" ||
    dlc_take "${PMIX_RANK-}" "${PMIX_SIZE-}" "${PMIX_LOCAL_RANK-}" "${PMIX_LOCAL_SIZE-}" ||
    { echo "job: mpiexec does not say which rank this is" >&2; exit 3; }
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
    if ! [ -e /dev/nvidiactl ]; then
        dlc_count=0 dlc_by="there is no /dev/nvidiactl"
    elif dlc_modes=$(nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null); then
        dlc_count=$(printf '%s\n' "$dlc_modes" | grep -vc '^Prohibited') dlc_by="nvidia-smi: $(printf '%s' "$dlc_modes" | tr '\n' ' ')"
    elif [ $? -eq 6 ]; then  # nvidia-smi(1): a query found nothing
        dlc_count=0 dlc_by="nvidia-smi: none" dlc_modes=
    else
        dlc_modes=
    fi
    # shellcheck disable=SC2043
    for dlc_name in CUDA_VISIBLE_DEVICES; do
        dlc_shown=''
        eval "dlc_shown=\${$dlc_name-unset}"
        case $dlc_shown in
            unset) continue ;;
            '' | -1* | NoDevFiles) dlc_left=0 ;;
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
    # Where MPS runs, it is the one process that a device takes.
    [ -z "${CUDA_MPS_PIPE_DIRECTORY-}" ] && ! [ -e /tmp/nvidia-mps/control ] || return 0
    case $dlc_modes in
        *Exclusive*) [ "$dlc_sharing" -le "$dlc_count" ] ||
            dlc_short "$dlc_sharing ranks share $dlc_count GPUs, which take one process each (compute mode Exclusive_Process)" \
                "a form with a rank for each GPU, or the site's way to MPS" ;;
    esac
}
[ -z "$dlc_gpus" ] || dlc_look
exec "$@"
END_OF_RANK
set -- "${dlc_launcher[@]}" /bin/sh -c "$dlc_rank" dlc-rank "$MASTER_ADDR" "$MASTER_PORT" \
    "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus" \
    "$@"
"$@"
