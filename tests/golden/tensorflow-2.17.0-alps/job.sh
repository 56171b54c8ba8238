#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=normal
#SBATCH --time=00:30:00
#SBATCH --nodes=2
# Collectives between nodes: 4 x Slingshot-11 (cxi), by the plug-in that the runtime brings
# tensorflow 2.17.0 at site alps (aarch64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# Ways to place ranks: pmi2, pmix, own-gpu. Another than pmi2: DLCONTAINER_FORM=NAME sbatch job.sh
# the EDF is written beside this script: dlcontainer render --format job -o FOLDER/
# source: eth-cscs/cscs-docs@e1fb7d1 docs/running/slurm.md (of 2026-06-24)
# source: eth-cscs/cscs-docs@02a7acc docs/clusters/daint.md (its newest entry is of 2026-09-16)
# source: eth-cscs/cscs-docs@a186743 docs/software/communication/mpich.md (of 2025-12-17, the same on 2026-08-20)
# source: eth-cscs/cscs-docs@8cea92b docs/tutorials/ml/llm-nanotron-training.md (of 2025-08-22, the same on 2026-08-20)
# source: eth-cscs/cscs-reframe-tests@2f81355 config/systems (of 2026-08-21)
# source: eth-cscs/cscs-docs@7caf8c1 docs/software/container-engine/resource-hook.md (of 2026-08-17)
# source: eth-cscs/cscs-docs@cf47e98 docs/software/container-engine/edf.md (of 2025-09-24, the same on 2026-08-20)
# source: eth-cscs/cscs-docs@88df2a2 docs/software/communication/nccl.md (of 2026-06-16, the same on 2026-08-20)
# source: eth-cscs/cscs-docs@23a4e3a docs/software/container-engine/run.md (of 2026-03-18, the same on 2026-08-20)
# source: eth-cscs/cscs-docs@980f1ab docs/build-install/containers.md (of 2026-08-03)
# Not known, so not promised (why: dlcontainer site show alps): service pack of SLES, kernel and
#   glibc; NVIDIA driver and newest CUDA of the site; network stack of the hooks; Sarus Suite
#   (srun --edf=); which clusters see which scratch beside their own
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
    # A name of this job's alone, in dlc_job, from the words that tell it apart, whatever stands in
    # them; empty for none. Where they are plain no process starts.
    dlc_name_job() {
        dlc_job=
        for dlc_line; do
            [ -z "$dlc_line" ] || dlc_job=$dlc_job${dlc_job:++}$dlc_line
            # A / marks what is no name of a file.
            case $dlc_line in *[!][A-Za-z0-9._@-]*) dlc_job=$dlc_job/ ;; esac
        done
        [ "${#dlc_job}" -gt 64 ] || case $dlc_job in */*) ;; *) return 0 ;; esac
        dlc_job=$(printf '%s\0' "$@" | sha256sum 2>/dev/null) && [ -n "$dlc_job" ] || return 1
        dlc_job=sha256-${dlc_job%% *}
    }
    for dlc_line in "${FLUX_JOB_ID:-${FLUX_ENCLOSING_ID-}}" "${SLURM_JOB_ID-}" "${LSB_JOBID-}" \
        "${PBS_JOBID-}" "${COBALT_JOBID-}" "${SGE_TASK_ID:+${JOB_ID-}}"; do
        [ -z "$dlc_line" ] || break
    done
    dlc_name_job "$dlc_line" || dlc_job=
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

# Models and data that frameworks fetch are large, and kept from job to job: so they lie in a folder
# of this user's own off the home, unless the user, the site or the image names another place. Where
# that folder is not on this node, or is not this user's, the frameworks' own places hold.
dlc_models=
[ -z "${SCRATCH-}" ] || dlc_models="${SCRATCH}"
# shellcheck disable=SC3067
case $dlc_models in
    /*) [ -d "$dlc_models" ] && [ -O "$dlc_models" ] && [ -w "$dlc_models" ] || dlc_models= ;;
    *) dlc_models= ;;
esac
dlc_default() {
    [ -z "${!1-}" ] || return 0
    export "$1=$2"
    # The token of a login stays at home: others may read a scratch folder.
    [ "$1" != HF_HOME ] || [ -z "${HOME-}" ] ||
        dlc_default HF_TOKEN_PATH "$HOME/.cache/huggingface/token"
}
[ -z "$dlc_models" ] || for dlc_name in HF_HOME=huggingface \
    TORCH_HOME=torch \
    VLLM_CACHE_ROOT=vllm \
    MXNET_HOME=mxnet \
    TFDS_DATA_DIR=tensorflow_datasets; do
    case $dlc_name in
        # By themselves these follow XDG_CACHE_HOME.
        HF_HOME=* | TORCH_HOME=* | VLLM_CACHE_ROOT=*) [ -z "${XDG_CACHE_HOME-}" ] || continue ;;
    esac
    dlc_default "${dlc_name%%=*}" "$dlc_models/.cache/${dlc_name#*=}"
done

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
# What other nodes can't reach: the loopback, and addresses that hold on one link. Of lines that
# begin with an address: the first that is none of these, and 1 where one of them is.
dlc_away() {
    awk -v first=4 '
        { a = tolower($1); sub(/%.*/, "", a); sub(/^::ffff:/, "", a); v = a ~ /:/ ? 6 : 4 }
        a == "" { next }
        a ~ /^(127|0|169\.254)\./ || a ~ /^::1?$/ || a ~ /^fe[89ab]/ { near = 1; next }
        !(v in found) { found[v] = a }
        END { print (first in found) ? found[first] : found[10 - first]; exit near + 0 }'
}
dlc_addresses() {  # the addresses of this host
    PATH=$PATH:/usr/sbin:/sbin ip -o addr show 2>/dev/null | awk '{ sub("/.*", "", $4); print $4, "at", $2 }'
}
dlc_meet() {  # $1, a name of the job's first node, as all nodes reach it: MASTER_ADDR
    # A resolver that does not answer says nothing of the loopback.
    dlc_found=$(timeout 4 getent ahosts "$1" 2>/dev/null) || dlc_found=
    if dlc_address=$(printf '%s\n' "$dlc_found" | dlc_away); then dlc_near=; else dlc_near=yes; fi
    case $dlc_hosts in
        *$'\n'*) ;;
        *)  # one node: its own loopback serves
            MASTER_ADDR=$1
            return ;;
    esac
    if [ -n "$dlc_near" ] && [ -z "$dlc_address" ]; then
        # Its own /etc/hosts says so; what others are told may be more.
        dlc_address=$(timeout 1 getent -s dns ahosts "$1" 2>/dev/null | dlc_away) || :
        [ -n "$dlc_address" ] || dlc_unreachable "$1"
    fi
    MASTER_ADDR=$dlc_address
    [ -n "$dlc_near" ] || MASTER_ADDR=$1
}
dlc_unreachable() {
    dlc_list=$(dlc_addresses | while read -r dlc_line; do
        [ -z "$(printf '%s\n' "$dlc_line" | dlc_away)" ] || printf '%s, ' "$dlc_line"
    done) || :
    dlc_fail "the other nodes can't reach $1: to $(uname -n) it is $(printf '%s' "$dlc_found" |
        awk '{ print $1 }' | sort -u | tr '\n' ' ')" \
        "DLCONTAINER_MASTER_ADDR=ADDRESS sbatch job.sh (${dlc_list:+$(uname -n) has ${dlc_list%, }; }for all jobs: jobs.rendezvous of the site config)"
}
if [ -z "$MASTER_ADDR" ]; then
    dlc_first=${dlc_hosts%%$'\n'*}
    if [ "${SLURM_NODEID-}" = 0 ]; then
        dlc_first=$(uname -n)
    fi
    [ -z "$dlc_first" ] || [ -n "$MASTER_ADDR" ] || dlc_meet "$dlc_first"
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
            --cpus-per-task=72 --mpi=pmi2 --environment="$dlc_image")
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
            --cpus-per-task=72 --mpi=pmix --environment="$dlc_image")
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
            --cpus-per-task=72 --gpus-per-task=1 --mpi=pmi2 --environment="$dlc_image")
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
# A rank gets one CPU (Slurm 22.05 and later) unless its launcher is told how many the job asked for.
[ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
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
# What stays outside of the image, which gets all else: `dlcontainer site environment` tells why.
dlc_exported=$(compgen -e) || dlc_exported=
set -f
IFS='
'
for dlc_name in $dlc_exported; do
    case $dlc_name in
        '' | [0-9]* | *[!A-Za-z0-9_]*) ;;
        APPTAINER* | SINGULARITY* | DLCONTAINER_* | PATH | HOME | PWD | OLDPWD | SHLVL | _ | IFS | \
            SHELL | ENV | BASH* | SHELLOPTS | CDPATH | GLOBIGNORE | PROMPT_COMMAND | PS1 | PS2 | PS3 | \
            PS4 | OPTIND | OPTARG | OPTERR | UID | EUID | GID | PPID | FPATH | dlc_* | LD_LIBRARY_PATH | \
            XDG_RUNTIME_DIR) ;;
        PMIX_MCA_psec) ;;
        PYTHONPATH | PYTHONHOME | PYTHONSTARTUP | PYTHONUSERBASE | PYTHONPLATLIBDIR | \
            PYTHONEXECUTABLE | PYTHONNOUSERSITE | PYTHONPYCACHEPREFIX | __PYVENV_LAUNCHER__ | CONDA_* | \
            _CONDA_* | _CE_* | MAMBA_* | VIRTUAL_ENV* | PYENV* | PIPENV_* | PIXI_* | _OLD_VIRTUAL_* | \
            LD_* | *_PRELOAD | GCONV_PATH | LOCPATH | GLIBC_TUNABLES | LMOD_* | __LMOD_* | \
            _ModuleTable* | _LMFILES_* | LOADEDMODULES | MODULE* | __MODULES_* | EBROOT* | EBVERSION* | \
            EBDEVEL* | CC | CXX | FC | F77 | F90 | CPP | CFLAGS | CXXFLAGS | CPPFLAGS | FFLAGS | \
            FCFLAGS | LDFLAGS | NVCC_PREPEND_FLAGS | NVCC_APPEND_FLAGS | CPATH | *INCLUDE_PATH | \
            *LIBRARY_PATH | COMPILER_PATH | GCC_EXEC_PREFIX | CRAYPE* | PKG_CONFIG* | CMAKE_* | \
            ACLOCAL_PATH | PERL5* | PERLLIB | PERL_* | RUBYLIB | RUBYOPT | GEM_* | LUA_* | TCLLIBPATH | \
            R_HOME | R_LIBS* | NODE_PATH | JAVA_HOME | CLASSPATH | MANPATH | INFOPATH | TERMINFO* | \
            XDG_DATA_DIRS | XDG_CONFIG_DIRS | CUDA_HOME | CUDA_PATH | CUDA_ROOT | CUDA_DIR | \
            CUDATOOLKIT_HOME | CUDNN_ROOT | NVHPC* | ROCM_PATH | ROCM_HOME | HIP_PATH | MKLROOT | \
            TBBROOT | ONEAPI_ROOT | CMPLR_ROOT | NCCL_HOME | NCCL_ROOT | LANG | LANGUAGE | LC_* | \
            NLSPATH)
            case " ${DLCONTAINER_PASS-} " in *[\ ,]"$dlc_name"[\ ,]*) ;; *) unset "$dlc_name" || : ;; esac
            ;;
    esac
done
unset IFS
set +f
"$@"
