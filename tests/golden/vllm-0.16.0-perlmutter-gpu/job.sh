#!/bin/bash
#SBATCH -A ABC123_g
#SBATCH -J dlcontainer
#SBATCH -C gpu
#SBATCH -q regular
#SBATCH -t 00:30:00
#SBATCH -N 2
#SBATCH --exclusive
# Collectives between nodes: 4 x Slingshot-11 (cxi), by the plug-in that the runtime brings
# vllm 0.16.0 at site perlmutter-gpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Edit the lines above, or render it with --account, --partition, --time, --nodes.
# Ways to place ranks: ray, gpu, torchrun. Another than ray: DLCONTAINER_FORM=NAME sbatch job.sh
# compute nodes see migrated images: podman-hpc migrate IMAGE
set -eu

run() {
    dlc_enter  # the folder that it was submitted from
    dlc_image=${DLCONTAINER_IMAGE:-vllm:0.16.0-perlmutter-gpu}
    dlc_prepare "$@"  # the command, variables, folders, where ranks meet
    dlc_form=${DLCONTAINER_FORM:-ray}
    case $dlc_form in
        ray)  # Ray's head on the first node, a worker on each other, the command on the head
            dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1)) dlc_gpus=4:1 dlc_starter=ray
            dlc_launcher=(srun -N"$dlc_nodes" -n"$dlc_nodes" --ntasks-per-node=1 -c128 \
                --gpus-per-node=4)
            dlc_command=(/opt/pytorch/bin/python -I -c "$dlc_node" "$dlc_wait" \
                "${dlc_command[@]}")
            ;;
        *) dlc_use_form ;;
    esac
    dlc_place
    set -- podman-hpc run --rm --gpu --network=host --ipc=host --pid=host --nccl \
        --volume=/dev/cxi0:/dev/cxi0 --volume=/dev/cxi1:/dev/cxi1 --volume=/dev/cxi2:/dev/cxi2 \
        --volume=/dev/cxi3:/dev/cxi3 -v "${SCRATCH}":"${SCRATCH}" \
        ${dlc_systems[@]+"${dlc_systems[@]/#/--volume=}"} ${dlc_shown[@]+"${dlc_shown[@]}"} \
        "${dlc_names[@]}" -e NCCL_SOCKET_IFNAME=hsn "$dlc_image" "${dlc_command[@]}"
    dlc_tell "${dlc_launcher[@]}" "$@"
    dlc_start "${dlc_launcher[@]}" "${dlc_rank[@]}" "$@"
}

dlc_use_form() {
    case $dlc_form in
        gpu)  # One rank beside each GPU, 16 cores each; each rank sees all GPUs of its node
            dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4)) dlc_gpus=4:4
            dlc_launcher=(srun -N"$dlc_nodes" -n"$dlc_ranks" \
                --ntasks-per-node="$dlc_ranks_per_node" -c32 --gpus-per-node=4 \
                '--cpu-bind=map_ldom:3,2,1,0')
            ;;
        torchrun)  # One torchrun a node, which starts a rank for each GPU
            dlc_ranks_per_node=1 dlc_ranks=$((dlc_nodes * 1)) dlc_gpus=4:4 dlc_starter=torchrun
            dlc_launcher=(srun -N"$dlc_nodes" -n"$dlc_nodes" --ntasks-per-node=1 -c128 \
                --gpus-per-node=4)
            dlc_command=(/opt/pytorch/bin/python -m torch.distributed.run --no_python \
                --nnodes="$dlc_nodes" --nproc_per_node=4 --master_addr="$MASTER_ADDR" \
                --master_port="$MASTER_PORT" "${dlc_command[@]}")
            ;;
        *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: ray, gpu, torchrun" ;;
    esac
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

# source: E3SM-Project/E3SM@75e17cc cime_config/machines (pm-gpu, pm-cpu; of 2026-08-21)
# source: ECP-WarpX/WarpX@1f30168 Tools/machines/perlmutter-nersc/perlmutter_gpu.sbatch (of 2024-05-03)
# source: https://docs.nersc.gov/machinelearning/launchers
# source: https://github.com/BLAST-WarpX/warpx/pull/5683 (cores beside each GPU)
# source: srun(1): --cpu-bind=map_ldom
# source: NERSC/podman-hpc@823cb34 README.md (of 2025-12-10, the same on 2026-04-24)
# source: NERSC/podman-hpc@5a15724 etc/modules.d/gpu.yaml (of 2023-06-15, the same on 2026-04-24)
# source: NERSC/podman-hpc@6d64dfb etc/modules.d/nccl.yaml (of 2025-05-30, the same on 2026-04-24)
# source: dingp/communication-libraries-image@1c80027 scripts/perlmutter-images/run-nccl-gpu.sbatch
# source: dingp/communication-libraries-image@871cfe2 user-docs/nccl.md
# source: NERSC/podman-hpc@4e038d1 etc/modules.d/scratch.yaml (of 2024-11-11, the same on 2026-04-24)
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
    dlc_read_node_program
    dlc_launcher=() dlc_ranks='' dlc_ranks_per_node='' dlc_workers='' dlc_starter='' \
        dlc_gpus=1:0
}

# dlc_job: a name for files that this job alone has, of the ids that are given; empty for none. Ids
# that are no names of files, or long ones, become their SHA-256; for others no process starts.
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
# Without a command: the proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_prove() {
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
    dlc_command=(/opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof")
    DLCONTAINER_FORM=${DLCONTAINER_FORM:-gpu}  # a proof is of ranks
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
        "cd to another folder, of your own''"
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
    # Where the ranks meet: the job's first node, at the site's port, or at one that follows from the
    # job's number, so that two jobs on one node have two.
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

dlc_read_node_program() {
    # Ray on the nodes of this job: who has no token can neither join it nor use it (Ray 2.52 and later).
    RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
    [ -n "$RAY_AUTH_TOKEN" ] || dlc_fail "can't make a token of /dev/urandom" "look at this node's /dev"
    export RAY_AUTH_TOKEN
    # Seconds until all nodes must be in.
    dlc_wait=${DLCONTAINER_RAY_WAIT:-300}
    case $dlc_wait in
        *[!0-9]* | 0*) dlc_fail "DLCONTAINER_RAY_WAIT is '$dlc_wait'" "give seconds" ;;
    esac
    read -r -d '' dlc_node <<'END_OF_NODE_PROGRAM' || :
# One node of a job's Ray, in the image: the first starts the head, waits for the others, and runs
# the command; each other starts a worker, and ends with the head. Standard library alone.
import ctypes, hashlib, hmac, os, secrets, select, shutil, signal, socket, subprocess, sys, tempfile
import threading, time

RANKS = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
NODE = os.uname().nodename
# A socket's name has at most 107 bytes; Ray adds 65 to its folder, and we 15 to ours.
LONGEST = 26
LIBC = ctypes.CDLL(None)
DEATH_SIGNAL, ADOPT = 1, 36  # prctl(2): PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
GRACE_S = 20
OVER = "-"  # in an address's place: the job ends before it began
# Asks Ray itself, on the head, until it counts so many nodes.
COUNT = """
import sys, time
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
while True:
    count = sum(node["Alive"] for node in ray.nodes())
    with open(sys.argv[3], "w") as file: file.write(str(count))
    if count >= int(sys.argv[2]): break
    time.sleep(0.5)
has = ray.cluster_resources()
text = "job: Ray has %d nodes, %g CPUs, %g GPUs"
print(text % (count, has.get("CPU", 0), has.get("GPU", 0)), file=sys.stderr)
"""


class Failure(Exception):
    """What ends the job, and what to do about it."""


class Stop(Exception):
    """A signal that ends this node."""


def say(text, *more):
    os.write(2, ("\n  ".join(["job: %s: %s" % (NODE, text), *more]) + "\n").encode())


def on_ends(handler):
    """Say what becomes of the signals that end a job."""
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, handler)


def on_warnings(handler):
    """Say what becomes of the signals before a job's end, which are the command's."""
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, handler)


def on_signal(number, frame):
    on_ends(signal.SIG_IGN)
    raise Stop(number)


def own_folder():
    """Make this node's private folder: Ray's files, and its home."""
    for place in (os.environ.get("TMPDIR", ""), "/tmp"):
        fits = place.startswith("/") and len(os.fsencode(place)) <= LONGEST
        if fits and os.access(place, os.W_OK | os.X_OK):
            folder = tempfile.mkdtemp(prefix="ray-", dir=place)
            os.mkdir(folder + "/home")
            return folder
    raise Failure(
        "neither $TMPDIR nor /tmp takes Ray's files",
        "next: TMPDIR: a folder whose name has at most %d characters" % LONGEST,
    )


def of_ray(folder):
    """Return the environment of Ray's own programs, and so of its tasks."""
    none = (*RANKS, "RAY_ADDRESS", "RAY_TMPDIR")
    given = {name: value for name, value in os.environ.items() if name not in none}
    # What users keep in their cache (models) is found there; all else of a home is this job's own.
    if given.get("HOME"):
        given.setdefault("XDG_CACHE_HOME", given["HOME"] + "/.cache")
    given.update(HOME=folder + "/home", RAY_AUTH_MODE="token", RAY_USAGE_STATS_ENABLED="0")
    # Ray counts in HIP's numbers, which begin at 0 among those that ROCR shows.
    shown = given.get("ROCR_VISIBLE_DEVICES")
    if shown and "HIP_VISIBLE_DEVICES" not in given:
        given["HIP_VISIBLE_DEVICES"] = ",".join(map(str, range(len(shown.split(",")))))
    return given


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def prepare():
    """Before Ray's program: it ends if this one does, and not at signals for the command."""
    LIBC.prctl(DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    for each in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(each, signal.SIG_IGN)


def start_ray(folder, address, *words):
    """Start Ray's part of this node; its ports are free ones, so that jobs don't collide."""
    argv = [os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--block", *words]
    if not address.startswith("127.") and address != "::1":
        argv.append("--node-ip-address=" + address)
    argv += [
        "--temp-dir=" + folder + "/ray",
        "--num-cpus=%d" % len(os.sched_getaffinity(0)),
        "--min-worker-port=0",
        "--max-worker-port=0",
        "--dashboard-agent-listen-port=%d" % free_port(),
        "--disable-usage-stats",
    ]
    with open(folder + "/log", "wb") as log:
        return subprocess.Popen(
            argv,
            env=of_ray(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=prepare,
        )


def told(folder):
    """Return the last words of Ray's program."""
    with open(folder + "/log", errors="replace") as log:
        return [line.rstrip() for line in log if line.strip()][-12:]


def cluster_address(folder):
    """Return the address that Ray wrote down once this node runs; None before."""
    try:
        with open(folder + "/ray/ray_current_cluster") as file:
            return file.read().strip() or None
    except OSError:
        return None


def lines(connection):
    return connection.makefile("rw", encoding="ascii", newline="\n")


def sign(token, *words):
    return hmac.new(token, " ".join(words).encode(), hashlib.sha256).hexdigest()


class Meeting:
    """The head's side of the meeting point: each node proves that it is of this job, and waits."""

    def __init__(self, token, nodes, port, family):
        self.token, self.nodes, self.address, self.over = token, nodes, OVER, False
        self.ready, self.lock = threading.Event(), threading.Lock()
        self.there, self.gone, self.came = {}, [], set()
        self.listener = socket.socket(family)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.listener.bind(("", port))
        except OSError as error:
            raise Failure(
                "port %d, where the nodes of this job meet: %s" % (port, error.strerror),
                "next: submit it again, or with another: DLCONTAINER_MASTER_PORT=PORT",
            )
        self.listener.listen(4096)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.greet, args=(connection,), daemon=True).start()

    def greet(self, connection):
        try:
            self.hear(connection)
        except (OSError, ValueError):
            connection.close()

    def hear(self, connection):
        connection.settimeout(30)
        stream, nonce = lines(connection), secrets.token_hex(16)
        stream.write(nonce + "\n")
        stream.flush()
        rank, name, theirs, proof = stream.readline(512).split()
        if not hmac.compare_digest(proof, sign(self.token, "node", nonce, rank, name, theirs)):
            raise ValueError("not of this job")
        connection.settimeout(None)
        with self.lock:
            self.there[rank] = connection
            self.came.add(rank)
        self.ready.wait()
        stream.write("%s %s\n" % (self.address, sign(self.token, "head", theirs, self.address)))
        stream.flush()
        try:
            last = "".join(line for line in stream).strip()
        except OSError as error:
            last = error.strerror
        with self.lock:
            self.there.pop(rank, None)
        if not self.over:
            self.gone.append(name)
            say("%s has left Ray's cluster%s" % (name, last and ": " + last))

    def open(self, address):
        self.address = address
        self.ready.set()

    def close(self):
        """Tell the nodes that it is over, and give them time to end by themselves.

        A node that was slow to start hears it too: else it looked for a head that is gone.
        """
        self.over = True
        self.ready.set()
        with self.lock:
            left = list(self.there.values())
        for connection in left:
            try:
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass
        until = time.monotonic() + 2 * GRACE_S
        late = self.nodes - 1 if self.address == OVER else 0
        while (self.there or len(self.came) < late) and time.monotonic() < until:
            time.sleep(0.1)


def head(folder, wait, command, token):
    nodes, port = int(os.environ["WORLD_SIZE"]), int(os.environ["MASTER_PORT"])
    found = socket.getaddrinfo(os.environ["MASTER_ADDR"], port, type=socket.SOCK_STREAM)
    family, _, _, _, place = found[0]
    until = time.monotonic() + wait
    meeting = Meeting(token, nodes, port, family)
    ray = start_ray(
        folder,
        place[0],
        "--head",
        "--port=%d" % free_port(),
        "--ray-client-server-port=%d" % free_port(),
        "--dashboard-port=%d" % free_port(),
        "--include-dashboard=false",
    )
    try:
        address = joined(folder, ray, meeting, until, wait)
        return run(folder, ray, command, address)
    finally:
        on_ends(signal.SIG_IGN)
        # The others first: they take leave of the head, and wait for it where it is gone.
        meeting.close()
        end(ray)
        if meeting.nodes > 1:
            time.sleep(0.5)  # from a node's last word to its end


def joined(folder, ray, meeting, until, wait):
    """Wait until Ray counts all nodes of the job; return its address."""
    count, counter, seen = folder + "/count", None, "0"
    while True:
        address = cluster_address(folder)
        if address and counter is None:
            meeting.open(address)
            if meeting.nodes == 1:
                return address
            argv = [sys.executable, "-I", "-c", COUNT, address, str(meeting.nodes), count]
            counter = subprocess.Popen(argv, env=of_ray(folder), stdin=subprocess.DEVNULL)
        if os.path.exists(count):
            with open(count) as file:
                seen = file.read() or seen
        if counter and counter.poll() == 0:
            return address
        if counter and counter.poll():
            raise Failure("Ray's nodes can't be counted, see above")
        if ray.poll() is not None:
            what = "Ray's head ended while it started (exit code %d)" % ray.returncode
            raise Failure(what, *told(folder))
        if meeting.gone:
            raise Failure("Ray did not start on %s" % ", ".join(meeting.gone))
        if time.monotonic() > until:
            raise Failure(
                "%s of %d nodes are in Ray's cluster after %d s" % (seen, meeting.nodes, wait),
                "next: look for what the others say; more time: DLCONTAINER_RAY_WAIT=SECONDS",
            )
        time.sleep(0.2)


def run(folder, ray, command, address):
    """Run the user's command beside the head; return its exit code."""
    given = {name: value for name, value in os.environ.items() if name not in RANKS}
    given.update(RAY_ADDRESS=address, RAY_AUTH_MODE="token")
    given.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ran = subprocess.Popen(command, env=given)
    except OSError as error:
        say("%s: %s" % (command[0], error.strerror))
        return 126 if isinstance(error, PermissionError) else 127
    on_warnings(lambda number, frame: ran.send_signal(number))
    try:
        while ran.poll() is None:
            if ray.poll() is not None:
                raise Failure("Ray's head ended (exit code %d)" % ray.returncode, *told(folder))
            time.sleep(0.2)
    finally:
        stop(ran)
    return ran.returncode if ran.returncode >= 0 else 128 - ran.returncode


def worker(folder, wait, token):
    rank, until = os.environ["RANK"], time.monotonic() + wait
    connection, stream, address = meet(rank, until, wait, token)
    if address == OVER:
        return 0
    ray = start_ray(folder, connection.getsockname()[0], "--address=" + address)
    try:
        while not select.select([connection], [], [], 0.5)[0]:
            if ray.poll() is not None:
                last = "exit code %d: %s" % (ray.returncode, " | ".join(told(folder)))
                stream.write(last.encode("ascii", "replace").decode() + "\n")
                stream.flush()
                break
    finally:
        on_ends(signal.SIG_IGN)
        end(ray)
    return 0


def meet(rank, until, wait, token):
    """Find the head, and prove to each other that both are of this job."""
    place, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    while True:
        try:
            connection = socket.create_connection((place, port), timeout=5)
            connection.settimeout(wait)
            stream, own = lines(connection), secrets.token_hex(16)
            nonce = stream.readline(512).strip()
            if nonce:
                proof = sign(token, "node", nonce, rank, NODE, own)
                stream.write(" ".join([rank, NODE, own, proof]) + "\n")
                stream.flush()
                words = stream.readline(512).split()
                if len(words) == 2:
                    break
            error = "it closed the connection"
        except (OSError, ValueError) as caught:
            error = caught
        if time.monotonic() > until:
            raise Failure("no head of Ray at %s, port %d, in %d s: %s" % (place, port, wait, error))
        time.sleep(1)
    if not hmac.compare_digest(words[1], sign(token, "head", own, words[0])):
        raise Failure("at %s, port %d, listens something that is not of this job" % (place, port))
    connection.settimeout(None)
    # A node that is gone says nothing.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    often = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
    for option, value in often:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection, stream, words[0]


def stop(process):
    """End a process of ours: by SIGTERM, later by SIGKILL."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def below():
    """Number all processes that descend from this one; orphans among them come to it."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % name) as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            parents[int(name)] = int(parent)
    found, grown = {os.getpid()}, True
    while grown:
        more = {number for number, parent in parents.items() if parent in found} - found
        grown, found = bool(more), found | more
    return found - {os.getpid()}


def reap():
    """Take the exit codes of processes that came to this one: none stays as a zombie."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def end(ray):
    """End Ray on this node, and all that the command or Ray left."""
    stop(ray)
    until = time.monotonic() + GRACE_S / 4
    asked = set()
    while True:
        left = below()
        reap()
        if not left:
            return
        late = time.monotonic() > until
        for number in left if late else left - asked:
            try:
                os.kill(number, signal.SIGKILL if late else signal.SIGTERM)
            except ProcessLookupError:
                pass
        asked |= left
        time.sleep(0.1)


def main():
    wait, command = int(sys.argv[1]), sys.argv[2:]
    token = os.environ.get("RAY_AUTH_TOKEN", "").encode()
    LIBC.prctl(ADOPT, 1, 0, 0, 0)
    on_ends(on_signal)
    on_warnings(lambda number, frame: None)
    first, folder = os.environ["RANK"] == "0", None
    try:
        if not token:
            raise Failure(
                "RAY_AUTH_TOKEN did not reach this node",
                "next: a launcher that hands the job's environment to all nodes",
            )
        folder = own_folder()
        return head(folder, wait, command, token) if first else worker(folder, wait, token)
    except Failure as failure:
        say(*failure.args)
        return 3
    except Stop as stopped:
        return 128 + stopped.args[0] if first else 0
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


sys.exit(main())
END_OF_NODE_PROGRAM
}

dlc_place() {
    case ${dlc_proof:+$dlc_starter} in ray) dlc_fail "a proof is of ranks, which this form has not" DLCONTAINER_FORM=gpu ;; esac
    # SEEN:SHARING, the GPUs that each rank shall see, and the ranks that share them. Each rank looks
    # before it starts. A proof only notes it: it says itself what it found.
    case ${DLCONTAINER_GPUS:-1} in
        0) dlc_gpus= ;;
        1) [ -z "$dlc_proof" ] || dlc_gpus=$dlc_gpus:note ;;
        *) dlc_fail "DLCONTAINER_GPUS is '$DLCONTAINER_GPUS'" "give 1, or 0: ranks don't look at GPUs" ;;
    esac
    # A rank gets one CPU (Slurm 22.05 and later) unless its launcher is told how many the job asked for.
    [ "$dlc_starter" = ray ] || [ -z "${SLURM_CPUS_PER_TASK-}" ] || export SRUN_CPUS_PER_TASK="$SLURM_CPUS_PER_TASK"
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
    { printf 'job:'; printf ' %q' "${@/#"$dlc_node"/...}"; echo; } >&2
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
    dlc_rank_folder=
    trap dlc_end EXIT
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
dlc_end() {
    [ -z "$dlc_rank_folder" ] || { rm -f -- "$dlc_rank_folder/rank.sh" && rmdir -- "$dlc_rank_folder"; } || :
}
dlc_start() { "$@"; }

run "$@"
