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
dlc_image=${DLCONTAINER_IMAGE:-horovod:0.28.1-perlmutter-cpu}
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
    dlc_proof=$PWD/proof-${dlc_job:-$$}
    mkdir -p "$dlc_proof"
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
dlc_prefix=/opt/horovod dlc_shown=()
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
        [ -n "$dlc_option" ] || continue
        case $dlc_at in *:*) dlc_lost "podman-hpc takes no name with a colon" "rename it" ;; esac
        dlc_shown+=(-v "$dlc_at:$dlc_at")
    done
    dlc_shown+=(-w "$dlc_pwd")
    set +f
}

dlc_need PSCRATCH
dlc_show_here "${PSCRATCH}":"${PSCRATCH}"

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
# A rank that fails ends the others, which would wait for it. A proof tells of it instead.
[ -n "$dlc_proof" ] || export SLURM_KILL_BAD_EXIT=${SLURM_KILL_BAD_EXIT:-1}

# What each rank runs.
set -- podman-hpc run --rm --network=host --ipc=host --pid=host -v "${PSCRATCH}":"${PSCRATCH}" \
    ${dlc_shown[@]+"${dlc_shown[@]}"} -e MASTER_ADDR -e MASTER_PORT -e RANK -e WORLD_SIZE \
    -e LOCAL_RANK -e LOCAL_WORLD_SIZE -e PET_NODE_RANK -e TF_CONFIG -e 'SLURM*' "$dlc_image" "$@"
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
