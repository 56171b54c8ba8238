#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J dlcontainer
#SBATCH -C cpu
#SBATCH -q regular
#SBATCH -t 00:30:00
#SBATCH -N 2
# pytorch 2.13.0 at site perlmutter-cpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, partition, time and nodes above are yours to change, here or when it
# is rendered: --account, --partition, --time, --nodes.
# compute nodes see migrated images: podman-hpc migrate IMAGE
set -eu

run() {
    dlc_enter  # the folder that it was submitted from
    dlc_image=${DLCONTAINER_IMAGE:-pytorch:2.13.0-perlmutter-cpu}
    dlc_prepare "$@"  # the command, variables, folders, where ranks meet
    # l3: One rank on each L3 region, 8 cores each
    dlc_ranks_per_node=16 dlc_ranks=$((dlc_nodes * 16))
    dlc_launcher=(srun -N"$dlc_nodes" -n"$dlc_ranks" -c16 --cpu-bind=cores)
    dlc_place
    set -- podman-hpc run --rm --network=host --ipc=host --pid=host -v "${SCRATCH}":"${SCRATCH}" \
        ${dlc_systems[@]+"${dlc_systems[@]/#/--volume=}"} ${dlc_shown[@]+"${dlc_shown[@]}"} \
        "${dlc_names[@]}" "$dlc_image" "${dlc_command[@]}"
    dlc_tell "${dlc_launcher[@]}" "$@"
    dlc_start "${dlc_launcher[@]}" "${dlc_rank[@]}" "$@"
}

dlc_surround() {
    # The host's own Python and libraries are none of the image's.
    unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD
    dlc_safe_path
    dlc_use_models
    dlc_need SCRATCH
    dlc_systems=()
    # shellcheck disable=SC2043
    for dlc_folder in /global/cfs /pscratch; do
        [ ! -e "$dlc_folder" ] || dlc_systems+=("$dlc_folder:$dlc_folder")
    done
    dlc_show_here "${SCRATCH}":"${SCRATCH}" ${dlc_systems[@]+"${dlc_systems[@]}"}
}

dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# source: E3SM-Project/E3SM@75e17cc cime_config/machines (pm-gpu, pm-cpu)
# source: ECP-WarpX/WarpX@83a51f0 Tools/machines/perlmutter-nersc/perlmutter_cpu.sbatch
# source: NERSC/podman-hpc@823cb34 README.md
# source: dingp/communication-libraries-image@1c80027 scripts/perlmutter-images/run-nccl-gpu.sbatch
# source: NERSC/podman-hpc@4e038d1 etc/modules.d/scratch.yaml
# Not known, so not promised (why: dlcontainer site show perlmutter): service pack of SLES and
#   glibc; which Cray MPICH stands in /usr/lib/shifter/mpich-2.2; NCCL over Slingshot; driver

# The functions of run(): the same for every job of this image at this site.
dlc_need() {
    for dlc_name; do
        [ -n "${!dlc_name-}" ] || dlc_fail "\$$dlc_name is empty or not set; the site config uses it" \
            "load the module that sets it, or export $dlc_name before you submit"
    done
}
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
dlc_enter() {
    [ "$PWD" != /tmp ] || [ -d "${SLURM_SUBMIT_DIR:-/tmp}" ] || dlc_fail "this node can't enter the folder that the job was submitted from" \
        "submit it from a folder that all nodes have"
    dlc_find_here
}

dlc_prepare() {
    dlc_command=("$@") dlc_proof=
    [ $# -gt 0 ] || dlc_prove
    dlc_surround
    dlc_nodes=${SLURM_NNODES-}
    case $dlc_nodes in
        '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
    esac
    dlc_find_meeting
    dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
        dlc_gpus=''
}

# Without a command: the proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_prove() {
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
    dlc_command=(/opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof")
}

dlc_safe_path() {
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
}

dlc_use_models() {
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
}

# Folders of the host in the image, under the names that they have outside. dlc_roots has a line for
# each that shows there; a name with a line break is not noted.
dlc_newline='
'
dlc_under() {  # is $1 in one of them? dlc_root is that one
    for dlc_root in $dlc_roots; do
        case $1/ in "$dlc_root"/*) return 0 ;; esac
    done
    return 1
}
dlc_last=
dlc_show() {  # the engine's two words that bind $1, in dlc_option and dlc_value
    dlc_option=--bind dlc_value=$1 dlc_last=$1
    case $1 in
        *[\"\\:,]* | *[[:space:]] | *"$dlc_newline"*)
            # A line of CSV: quotes are doubled.
            dlc_value='' dlc_rest=$1
            while :; do
                case $dlc_rest in *\"*) ;; *) break ;; esac
                dlc_value=$dlc_value${dlc_rest%%\"*}\"\"
                dlc_rest=${dlc_rest#*\"}
            done
            dlc_value=$dlc_value$dlc_rest
            dlc_option=--mount dlc_value="type=bind,\"source=$dlc_value\",\"destination=$dlc_value\""
            ;;
    esac
    case $1 in *"$dlc_newline"*) ;; *) dlc_roots="$dlc_roots$dlc_newline$1" ;; esac
}
# A link that shows is followed in the image as on the host, whether its target shows or not. So the
# first name on the way that does not show is bound; dlc_option is empty where there is none.
dlc_reach() {  # fails where the image would find another folder by the name $1
    dlc_option='' dlc_at='' dlc_rest=$1/ dlc_left=40
    while [ -n "$dlc_rest" ]; do
        dlc_next=${dlc_rest%%/*}
        dlc_rest=${dlc_rest#*/}
        case $dlc_next in
            '' | .) continue ;;
            ..) dlc_at=${dlc_at%/*}; continue ;;
        esac
        dlc_next=$dlc_at/$dlc_next
        # What does not show is no link in the image, and neither is a place where a bind begins.
        if dlc_under "$dlc_next" && [ "$dlc_next" != "$dlc_root" ] && [ -L "$dlc_next" ]; then
            dlc_left=$((dlc_left - 1))
            [ "$dlc_left" -gt 0 ] && dlc_link=$(readlink -- "$dlc_next" && printf .) || return 1
            dlc_link=${dlc_link%??}
            dlc_link=${dlc_link%/}
            case $dlc_link in '' | /*) dlc_at= ;; esac
            dlc_rest=$dlc_link/$dlc_rest
            continue
        fi
        dlc_at=$dlc_next
    done
    dlc_at=${dlc_at:-/}
    # shellcheck disable=SC3013
    [ "$dlc_at" -ef "$1" ] || return 1
    [ "$dlc_at" = "$1" ] || ! dlc_hides "$dlc_at" || return 1
    dlc_under "$dlc_at" || [ "$dlc_at" = "$dlc_last" ] || dlc_show "$dlc_at"
}
dlc_hides() {  # would a bind at $1 hide what the image has there?
    dlc_under "$1" && return 1
    case $1 in
        /bin | /sbin | /lib | /lib32 | /lib64 | /etc | /opt | /usr | /var) ;;
        /usr/bin | /usr/sbin | /usr/lib | /usr/lib32 | /usr/lib64 | /usr/libexec | /usr/share) ;;
        /lib/* | /lib64/* | /usr/lib/* | /usr/lib64/* | /usr/share/* | /usr/local) ;;
        "$dlc_prefix" | "$dlc_prefix"/bin | "$dlc_prefix"/lib | "$dlc_prefix"/lib/*) ;;
        /opt/dlcontainer | /opt/dlcontainer/*) ;;
        *) return 1 ;;
    esac
}
dlc_require_here() {  # once dlc_roots is known
    ! dlc_hides "$dlc_here" || dlc_lost "the image has its own, which a bind would hide" \
        "cd to another folder, of your own; DLCONTAINER_BIND=/a/folder shows a further one"
    ! dlc_hides "$dlc_pwd" || dlc_pwd=$dlc_here
}
# The folder that the job starts in, for the image: dlc_shown has the words for the runtime. What is
# bound in any case is given, as the runtime takes it.
dlc_prefix=/opt/pytorch dlc_shown=()
dlc_is_near() {  # does the first link on the way of $1 lead to dlc_here itself?
    dlc_way='' dlc_rest=${1#/}/
    while [ -n "$dlc_rest" ]; do
        dlc_way=$dlc_way/${dlc_rest%%/*} dlc_rest=${dlc_rest#*/}
        [ -L "$dlc_way" ] || continue
        dlc_link=$(readlink -- "$dlc_way" && printf .) || return 1
        dlc_link=${dlc_link%??} dlc_rest=${dlc_rest%/}
        [ "${dlc_link%/}${dlc_rest:+/$dlc_rest}" = "$dlc_here" ]
        return
    done
}
dlc_show_here() {
    local IFS=$'\n' dlc_bind dlc_name
    set -f
    dlc_roots=
    for dlc_bind; do
        dlc_name=${dlc_bind#*:}
        [ "${dlc_bind%%:*}" != "${dlc_name%%:*}" ] || dlc_roots=$dlc_roots$'\n'${dlc_bind%%:*}
    done
    dlc_require_here
    for dlc_name in "$dlc_pwd" "$dlc_here"; do
        [ "$dlc_name" != / ] || continue
        # A name that the image would follow elsewhere is none.
        dlc_reach "$dlc_name" || { dlc_pwd=$dlc_here; continue; }
        # Nor is one that leads through several links, where the engine shows only the first.
        [ "$dlc_at" != "$dlc_name" ] || dlc_is_near "$dlc_name" || { dlc_pwd=$dlc_here; continue; }
        [ -n "$dlc_option" ] || continue
        case $dlc_at in *:*) dlc_lost "podman-hpc takes no name with a colon" "rename it" ;; esac
        dlc_shown+=(-v "$dlc_at:$dlc_at")
    done
    dlc_shown+=(-w "$dlc_pwd")
    set +f
}

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
dlc_find_meeting() {
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
        if [ "${SLURM_NODEID-}" = 0 ]; then
            dlc_first=$(uname -n)
        fi
        [ -z "$dlc_first" ] || [ -n "$MASTER_ADDR" ] || dlc_meet "$dlc_first"
        [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
            "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
    fi
    export MASTER_ADDR MASTER_PORT
}

dlc_place() {
    # A rank gets one CPU (Slurm 22.05 and later) unless its launcher is told how many the job asked for.
    [ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
    # A rank that fails ends the others, which would wait for it. A proof tells of it instead.
    [ -n "$dlc_proof" ] || export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}
    # What goes in of this environment, by name: the runtime takes nothing of it by itself, and no value
    # stands on a command line. `dlcontainer site environment` tells why a variable stays outside.
    dlc_names=() dlc_exported=$(compgen -e) ||
        dlc_fail "this bash can't list its variables" "ask your site for a bash that has compgen"
    for dlc_name in $dlc_exported; do
        case $dlc_name in
            APPTAINER* | SINGULARITY* | DLCONTAINER_* | PATH | HOME | PWD | OLDPWD | SHLVL | _ | IFS | \
            SHELL | ENV | BASH* | SHELLOPTS | CDPATH | GLOBIGNORE | PROMPT_COMMAND | PS1 | PS2 | PS3 | \
            PS4 | OPTIND | OPTARG | OPTERR | UID | EUID | GID | PPID | FPATH | dlc_*) continue ;;
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
            XDG_DATA_DIRS | XDG_CONFIG_DIRS | XDG_RUNTIME_DIR | CUDA_HOME | CUDA_PATH | CUDA_ROOT | \
            CUDA_DIR | CUDATOOLKIT_HOME | CUDNN_ROOT | NVHPC* | ROCM_PATH | ROCM_HOME | HIP_PATH | \
            MKLROOT | TBBROOT | ONEAPI_ROOT | CMPLR_ROOT | NCCL_HOME | NCCL_ROOT | LANG | LANGUAGE | \
            LC_* | NLSPATH | TMPDIR | TMP | TEMP | SSL_CERT_FILE | SSL_CERT_DIR | REQUESTS_CA_BUNDLE | \
            CURL_CA_BUNDLE | PIP_CERT | AWS_CA_BUNDLE | GIT_SSL_CAINFO | NODE_EXTRA_CA_CERTS)
                case " ${DLCONTAINER_PASS-} " in *[\ ,]"$dlc_name"[\ ,]*) ;; *) continue ;; esac
                ;;
        esac
        dlc_names+=(-e "$dlc_name")
    done
    # The ranks' own, as each of them has it.
    dlc_names+=(-e CUDA_VISIBLE_DEVICES -e ROCR_VISIBLE_DEVICES -e GPU_DEVICE_ORDINAL \
        -e ZE_AFFINITY_MASK -e 'OMPI_*' -e 'PMI_*' -e 'PMIX_*' -e 'PALS_*' -e 'MPI_LOCAL*' \
        -e MASTER_ADDR -e MASTER_PORT -e RANK -e WORLD_SIZE -e LOCAL_RANK -e LOCAL_WORLD_SIZE \
        -e PET_NODE_RANK -e TF_CONFIG -e 'SLURM*')
}

# The last that is settled before ranks start, and a line of what starts.
dlc_tell() {
    { printf 'job:'; printf ' %q' "$@"; echo; } >&2
    dlc_write_rank
    # shellcheck disable=SC2016  # each rank's own shell expands it
    dlc_rank=(/bin/sh -c 'dlc_text=$(PATH=/usr/bin:/bin; exec cat "$1") ||
{ echo "job: $(uname -n) cannot read $1" >&2
echo "  next: submit it from a folder that all nodes have" >&2; exit 3; }
dlc_sum=$(PATH=/usr/bin:/bin; printf "%s\n" "$dlc_text" | sha256sum)
[ "${dlc_sum%% *}" = "$2" ] || { echo "job: $1 was changed: it does not run" >&2; exit 3; }
shift 2; eval "$dlc_text"' \
        dlc-rank "$dlc_rank_file" "$dlc_rank_sha256" "$MASTER_ADDR" "$MASTER_PORT" \
        "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus")
}
# The ranks' script is a file that all nodes read, as its SHA-256 says: where others may write to the
# folder, they may exchange it. Removed are our names alone, and not what lies there by then.
dlc_write_rank() {
    local dlc_text
    read -r -d '' dlc_text <<'END_OF_RANK' || :
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
    dlc_rank_folder=
    trap dlc_remove_rank EXIT
    dlc_rank_folder=$(mktemp -d -- "${PWD%/}/dlcontainer-job-XXXXXXXX" 2>/dev/null) ||
        dlc_rank_folder=$(mktemp -d -- "${HOME-}/dlcontainer-job-XXXXXXXX" 2>/dev/null) ||
        dlc_fail "can't make a folder for the ranks' script in $PWD" \
            "submit this from a folder that you can write to"
    dlc_rank_file=$dlc_rank_folder/rank.sh
    (umask 077 && set -C && printf '%s\n' "$dlc_text" > "$dlc_rank_file") ||
        dlc_fail "can't write $dlc_rank_file" "look at your quota: df -h ."
    dlc_rank_sha256=$(printf '%s\n' "$dlc_text" | sha256sum)
    dlc_rank_sha256=${dlc_rank_sha256%% *}
}
# shellcheck disable=SC2329  # the trap's
dlc_remove_rank() {
    [ -z "$dlc_rank_folder" ] || { rm -f -- "$dlc_rank_folder/rank.sh" && rmdir -- "$dlc_rank_folder"; } || :
}
dlc_start() { "$@"; }

run "$@"
