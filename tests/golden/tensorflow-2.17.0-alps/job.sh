#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=normal
#SBATCH --time=00:30:00
#SBATCH --nodes=2
# tensorflow 2.17.0 at site alps (aarch64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: pmi2, pmix, own-gpu. Another than pmi2: DLCONTAINER_FORM=NAME sbatch job.sh
# the EDF is written beside this script: dlcontainer render --format job -o FOLDER/
# source: eth-cscs/cscs-docs@02609e6 docs/running/slurm.md
# source: eth-cscs/cscs-docs@02a7acc docs/clusters/daint.md
# source: eth-cscs/cscs-docs@77c5f2f docs/software/container-engine/examples/image-mpich.md
# source: eth-cscs/cscs-docs@8cea92b docs/tutorials/ml/llm-nanotron-training.md
# source: eth-cscs/cscs-reframe-tests@2f81355 config/systems
# source: eth-cscs/cscs-docs@03b4ca9 docs/software/container-engine/resource-hook.md
# source: eth-cscs/cscs-docs@0bb69f3 docs/software/container-engine/edf.md
# source: eth-cscs/cscs-docs@0051198 docs/software/container-engine/run.md
# source: eth-cscs/cscs-docs@030c07b docs/build-install/containers.md
# Not known, so not promised (why: dlcontainer site show alps): service pack of SLES, kernel and
#   glibc; NVIDIA driver and newest CUDA of the site; network stack of the hooks; which clusters
#   see which scratch
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
dlc_need() {
    for dlc_name; do
        [ -n "${!dlc_name-}" ] || dlc_fail "\$$dlc_name is empty or not set; the site config uses it" \
            "load the module that sets it, or export $dlc_name before you submit"
    done
}
[ "$PWD" != /tmp ] || [ -d "${SLURM_SUBMIT_DIR:-/tmp}" ] || dlc_fail "this node can't enter the folder that the job was submitted from" \
    "submit it from a folder that all nodes have"

# The current folder: dlc_pwd is its name for the user, dlc_here the one without links. Where the
# engine can't show it, the engine says nothing and starts in the home or in an empty folder.
dlc_real() {  # the folder $1 without links, in dlc_folder
    dlc_folder=$(cd -P -- "$1" 2>/dev/null && printf '%s.' "$PWD") || return 1
    dlc_folder=${dlc_folder%.}
}
dlc_is_text() {  # the engine takes names of UTF-8 only
    case $1 in *[!A-Za-z0-9/._@%+=:,\ -]*) ;; *) return 0 ;; esac
    command -v iconv >/dev/null || return 0
    printf %s "$1" | iconv -f UTF-8 -t UTF-8 >/dev/null 2>&1
}
dlc_find_here() {
    dlc_pwd=${PWD-}
    # shellcheck disable=SC3013
    dlc_real . && [ "$dlc_folder" -ef . ] ||
        dlc_lost "its path does not lead there: it was removed or renamed, or a folder on the way is closed to you" \
            "cd to a folder that is there"
    dlc_here=$dlc_folder
    dlc_is_text "$dlc_here" || dlc_lost "its name is not UTF-8, and the engine takes no other" \
        "rename it, or cd to another folder"
    # A variable may say anything.
    # shellcheck disable=SC3013
    case $dlc_pwd/ in
        [!/]* | *//* | */./* | */../*) dlc_pwd=$dlc_here ;;
        *) [ "$dlc_pwd" -ef . ] && dlc_is_text "$dlc_pwd" || dlc_pwd=$dlc_here ;;
    esac
    # The engine looks at the variable.
    cd -P -- "$dlc_here" || exit 3
    export PWD
}
dlc_lost() { dlc_fail "the image can't show the job's folder: ${dlc_pwd:-its name is not known}
  why: $1" "$2"; }
dlc_find_here

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/tensorflow-2.17.0-alps.toml}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'the EDF is written beside this script: dlcontainer render --format job -o FOLDER/'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    dlc_proof=$PWD/proof-${dlc_job:-$$}
    mkdir -p "$dlc_proof"
    set -- /usr/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD

# On the host.
export PMIX_MCA_psec='^munge'

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

dlc_need SCRATCH

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
dlc_form=${DLCONTAINER_FORM:-pmi2}
case $dlc_form in
    pmi2)  # One rank for each GPU; images without MPI and with MPICH
        dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))
        dlc_gpus=4:4
        dlc_port=$((20000 + 10#0$dlc_number % (10000 / 4) * 4)) dlc_workers=
        for dlc_host in $dlc_hosts; do
            for ((dlc_local = 0; dlc_local < 4; dlc_local++)); do
                dlc_workers+=${dlc_workers:+, }\"$dlc_host:$((dlc_port + dlc_local))\"
            done
        done
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --mpi=pmi2 --environment="$dlc_image")
        ;;
    pmix)  # One rank for each GPU; images with Open MPI
        dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))
        dlc_gpus=4:4
        dlc_port=$((20000 + 10#0$dlc_number % (10000 / 4) * 4)) dlc_workers=
        for dlc_host in $dlc_hosts; do
            for ((dlc_local = 0; dlc_local < 4; dlc_local++)); do
                dlc_workers+=${dlc_workers:+, }\"$dlc_host:$((dlc_port + dlc_local))\"
            done
        done
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --mpi=pmix --environment="$dlc_image")
        ;;
    own-gpu)  # As pmi2, and each rank sees its own GPU alone, as device 0
        dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))
        dlc_gpus=1:1
        dlc_port=$((20000 + 10#0$dlc_number % (10000 / 4) * 4)) dlc_workers=
        for dlc_host in $dlc_hosts; do
            for ((dlc_local = 0; dlc_local < 4; dlc_local++)); do
                dlc_workers+=${dlc_workers:+, }\"$dlc_host:$((dlc_port + dlc_local))\"
            done
        done
        dlc_launcher=(srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-task=1 --mpi=pmi2 --environment="$dlc_image")
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: pmi2, pmix, own-gpu" ;;
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
