#!/bin/bash
#BSUB -P ABC123
#BSUB -W 0:30
#BSUB -nnodes 2
#BSUB -q batch
#BSUB -J dlcontainer
#BSUB -o dlcontainer.%J
#BSUB -e dlcontainer.%J
#BSUB -alloc_flags "smt4 nvme"
# Collectives between nodes: dual-rail EDR InfiniBand, non-blocking fat tree, by NCCL's own transport
# horovod 0.22.1 at site summit-2021 (ppc64le)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bsub job.sh [COMMAND [WORD ...]]
# Edit the lines above, or render it with --account, --partition, --time, --nodes.
# The machine is decommissioned: rendered for the record.
# Ways to place ranks: node, gpu, gpu-aware. Another than node: DLCONTAINER_FORM=NAME bsub job.sh
# Without a copy of the image in /mnt/bb/$USER: DLCONTAINER_STAGE=0 bsub job.sh
# Without one mount for a node's ranks: DLCONTAINER_KEEP=0 bsub job.sh
set -eu

run() {
    dlc_enter  # the folder that it was submitted from
    dlc_image=${DLCONTAINER_IMAGE:-$PWD/horovod-0.22.1-summit-2021.sif}
    dlc_prepare "$@"  # the command, variables, folders, where ranks meet
    dlc_form=${DLCONTAINER_FORM:-node}
    case $dlc_form in
        node)  # one resource set a node, each of its six ranks sees all GPUs, as NCCL and Horovod want it
            dlc_ranks_per_node=6 dlc_ranks=$((dlc_nodes * 6)) dlc_gpus=6:6
            dlc_launcher=(jsrun -n "$dlc_nodes" -r1 -g6 -a6 -c42 -bpacked:7)
            ;;
        *) dlc_use_form ;;
    esac
    dlc_place
    set -- singularity exec --nv --bind "${MPI_ROOT}":"${MPI_ROOT}" \
        --bind /autofs/nccs-svm1_home1 --bind /autofs/nccs-svm1_home1:/ccs/home \
        ${dlc_shown[@]+"${dlc_shown[@]}"} "$dlc_image" "${dlc_command[@]}"
    dlc_tell "${dlc_launcher[@]}" "$@"
    dlc_code=0
    dlc_start "${dlc_launcher[@]}" "${dlc_rank[@]}" "$@" || dlc_code=$?
    [ -z "$dlc_staged" ] || dlc_on_node remove || :
    exit "$dlc_code"
}

dlc_use_form() {
    case $dlc_form in
        gpu)  # six resource sets a node, each rank sees its own GPU as device 0
            dlc_ranks_per_node=6 dlc_ranks=$((dlc_nodes * 6)) dlc_gpus=1:1
            dlc_launcher=(jsrun -n "$dlc_ranks" -r6 -a1 -c7 -g1 -bpacked:7)
            ;;
        gpu-aware)  # as node, with MPI that takes buffers on GPUs
            dlc_ranks_per_node=6 dlc_ranks=$((dlc_nodes * 6)) dlc_gpus=6:6
            dlc_launcher=(jsrun --smpiargs=-gpu -n "$dlc_nodes" -r1 -g6 -a6 -c42 -bpacked:7)
            ;;
        *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: node, gpu, gpu-aware" ;;
    esac
}

dlc_surround() {
    # The host's own Python and libraries are none of the image's.
    unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE VIRTUAL_ENV LD_PRELOAD
    dlc_safe_path
    # In the image.
    # The runtime evaluates these as a shell does between double quotes.
    dlc_inside() { export "SINGULARITYENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
    dlc_inside PAMI_ENABLE_STRIPING 1
    dlc_inside PAMI_IBV_ADAPTER_AFFINITY 1
    dlc_inside PAMI_IBV_DEVICE_NAME mlx5_0:1,mlx5_3:1
    dlc_inside PAMI_IBV_DEVICE_NAME_1 mlx5_3:1,mlx5_0:1
    [ -z "${HOROVOD_CYCLE_TIME+x}" ] || dlc_inside HOROVOD_CYCLE_TIME "${HOROVOD_CYCLE_TIME}"
    [ -z "${HOROVOD_FUSION_THRESHOLD+x}" ] || dlc_inside HOROVOD_FUSION_THRESHOLD "${HOROVOD_FUSION_THRESHOLD}"
    [ -z "${HOROVOD_HIERARCHICAL_ALLREDUCE+x}" ] || dlc_inside HOROVOD_HIERARCHICAL_ALLREDUCE "${HOROVOD_HIERARCHICAL_ALLREDUCE}"
    dlc_need MPI_ROOT
    dlc_need USER
    dlc_show_here "${MPI_ROOT}":"${MPI_ROOT}" /autofs/nccs-svm1_home1 /autofs/nccs-svm1_home1:/ccs/home
}

dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# source: olcf/olcf-user-docs@109c9aa systems/summit_user_guide.rst (of 2024-10-04)
# source: olcf/olcf-user-docs@d900d52^ software/containers_on_summit.rst (of 2025-01-14)
# source: olcf/olcf-user-docs@d900d52^ software/analytics/ibm-wml-ce.rst (of 2025-01-14)
# source: E3SM-Project/E3SM@3ca7e8849f^ cime_config/machines/config_machines.xml (MACH="summit"; of 2026-06-11)
# source: olcf/olcf-user-docs@0b7ca5c software/containers_on_summit.rst (of 2022-03-03)
# source: olcf/olcf-user-docs@109c9aa software/software-news.rst (of 2024-10-04)
# source: public link and ldd logs of programs built on Summit
# Not known, so not promised (why: dlcontainer site show summit): NVIDIA driver version; the
#   kernel's patch level (RHEL 8.2's series is 4.18.0-193); the version of Singularity, later
#   Apptainer; what requiredmpilibs.source sets; whether the centre's base images at code.ornl.gov
#   can still be pulled

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
    dlc_find_here
}

dlc_prepare() {
    [ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
    dlc_command=("$@") dlc_proof=
    [ $# -gt 0 ] || dlc_prove
    dlc_surround
    dlc_nodes=$(awk 'NF && !/^(batch|launch|login)/ && !seen[$1]++ { n++ } END { print n + 0 }' "${LSB_DJOB_HOSTFILE-/dev/null}" || :)
    case $dlc_nodes in
        '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: bsub job.sh [COMMAND [WORD ...]]' ;;
    esac
    dlc_find_meeting
    dlc_read_mount
    dlc_stage
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
    dlc_again=${LSB_RESTART:+1}
    case $dlc_again in '' | *[!0-9]*) dlc_again=0 ;; esac
    while :; do
        dlc_proof=$PWD/proof-${dlc_job:-$$}
        [ "$dlc_again" -eq 0 ] || dlc_proof=$dlc_proof-restart-$dlc_again
        ! dlc_said=$(mkdir "$dlc_proof" 2>&1) || break
        [ -e "$dlc_proof" ] || [ -L "$dlc_proof" ] ||
            dlc_fail "$dlc_said" "submit this from a folder that you can write to"
        dlc_again=$((dlc_again + 1))
    done
    dlc_command=(/opt/horovod/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof")
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
dlc_prefix=/opt/horovod dlc_shown=()
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
    dlc_roots=$'/dev\n/proc\n/sys\n/tmp\n/var/tmp'
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
        [ -z "$dlc_option" ] || dlc_shown+=("$dlc_option" "$dlc_value")
    done
    dlc_shown+=(--pwd "$dlc_pwd")
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
        "DLCONTAINER_MASTER_ADDR=ADDRESS bsub job.sh (${dlc_list:+$(uname -n) has ${dlc_list%, }; }for all jobs: jobs.rendezvous of the site config)"
}
dlc_find_meeting() {
    dlc_number=${LSB_JOBID-}${LSB_JOBINDEX-}
    dlc_number=${dlc_number%%.*}
    dlc_number=${dlc_number//[!0-9]/}
    MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
    # Where the ranks meet: the job's first node, at the site's port, or at one that follows from the
    # job's number, so that two jobs on one node have two.
    # DLCONTAINER_MASTER_ADDR and DLCONTAINER_MASTER_PORT come first.
    MASTER_ADDR=${DLCONTAINER_MASTER_ADDR-}
    dlc_hosts=$(awk 'NF && !/^(batch|launch|login)/ && !seen[$1]++ { print $1 }' "${LSB_DJOB_HOSTFILE-/dev/null}" 2>/dev/null) || dlc_hosts=
    if [ -z "$MASTER_ADDR" ]; then
        dlc_first=${dlc_hosts%%$'\n'*}
        [ -z "$dlc_first" ] || [ -n "$MASTER_ADDR" ] || dlc_meet "$dlc_first"
        [ -n "$MASTER_ADDR" ] || dlc_fail "can't tell where the ranks of this job meet" \
            "run this in a job, or name its first node: DLCONTAINER_MASTER_ADDR=HOST"
    fi
    export MASTER_ADDR MASTER_PORT
}

# Where the file system begins in the image, for the one mount that a node's ranks share.
# DLCONTAINER_KEEP=0 gives each its own, DLCONTAINER_KEEP=SECONDS keeps it so long after its last use.
dlc_read_mount() {
    dlc_offset=$(singularity sif list "$dlc_image" |
        awk -F'|' '/Squashfs.*System/ { split($4, at, "-"); print at[1] + 0; exit }') || dlc_offset=
    dlc_key=$(stat -Lc %d-%i-%s-%Y-%Z "$dlc_image")
    # Where the engine has a setuid starter, or root starts it, ranks have no user namespaces: as it is.
    case ${SINGULARITY_USERNS-} in
        1 | [tT]*) ;;
        *)
            dlc_lib=$(singularity buildcfg LIBEXECDIR) || dlc_offset=
            if [ "$(id -u)" = 0 ] || [ -u "$dlc_lib/singularity/bin/starter-suid" ]; then dlc_offset=; fi
            ;;
    esac
}

# The image is copied to /mnt/bb/$USER first. DLCONTAINER_STAGE=0 leaves it where it is.
dlc_on_node() {
    jsrun -n "$dlc_nodes" -r1 -a1 -c1 /bin/sh -c "$dlc_stager" dlc-node "$1" "$dlc_folder" "$dlc_image" \
        "$dlc_staged" "$dlc_sha256" "$dlc_by"
}
dlc_stage() {
    dlc_staged=
    read -r -d '' dlc_stager <<'END_OF_NODE' || :
# What a node does for the copy of an image, word by word. What others can make a name in is nothing
# that a copy may lie in, or be found in: it lies in a folder of this user's own, and is read again.
# shellcheck disable=SC2015  # dlc_wrong ends
dlc_words=$1 dlc_folder=$2 dlc_image=$3 dlc_staged=$4 dlc_sha256=$5 dlc_by=$6
set -f
umask 077
dlc_wrong() { printf 'job: %s: %s\n' "$(uname -n)" "$1" >&2; exit 1; }
dlc_uid=$(id -u)
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
# What stands where everybody may make a name is this user's, or root's.
dlc_look() {
    # shellcheck disable=SC2046
    set -- "$1" $(stat -c '%u %A' -- "$1" 2>/dev/null)
    [ $# = 3 ] || dlc_wrong "there is no folder $1"
    case $dlc_open$2 in
        -*) [ "$2" = 0 ] || [ "$2" = "$dlc_uid" ] ||
            dlc_wrong "$1 is of another user (uid $2), made where everybody may make a name" ;;
    esac
    case $3 in
        l*) ;;
        d????????[-T]*) dlc_shut=yes dlc_open= ;;  # nobody else comes in
        d???????wt*) dlc_open=- ;;
        d???????w*) [ -n "$dlc_shut" ] ||
            dlc_wrong "$1: everybody may rename what lies in it (mode $3, not sticky)" ;;
        *) dlc_open= ;;
    esac
}
dlc_walk() {
    dlc_rest=${1#/}/ dlc_at='' dlc_open='' dlc_shut=''
    dlc_look /
    while [ -n "$dlc_rest" ]; do
        dlc_at=$dlc_at/${dlc_rest%%/*} dlc_rest=${dlc_rest#*/}
        dlc_look "$dlc_at"
    done
}
# shellcheck disable=SC3067
dlc_is_own() {  # and no link to what is one's own
    [ ! -L "$1" ] && [ -O "$1" ]
}
dlc_make() {
    dlc_to=${dlc_folder%/*}
    case $dlc_to in
        /*) ;;
        *) dlc_wrong "'$dlc_to' is no absolute path" ;;
    esac
    dlc_walk "$dlc_to"
    dlc_real=$(cd -P -- "$dlc_to" 2>/dev/null && printf '%s.' "$PWD") || dlc_wrong "can't enter $dlc_to"
    dlc_walk "${dlc_real%.}"
    dlc_said=$(mkdir -m 700 -- "$dlc_folder" 2>&1) || [ -d "$dlc_folder" ] || dlc_wrong "$dlc_said"
    [ -d "$dlc_folder" ] && dlc_is_own "$dlc_folder" || dlc_wrong "$dlc_folder is of another user, or a link"
    case $(stat -c %A -- "$dlc_folder") in
        d???--[-S]---*) ;;
        *) dlc_wrong "$dlc_folder: others may come in; remove it" ;;
    esac
}
dlc_is_it() {
    [ -f "$1" ] && dlc_is_own "$1" || { dlc_said="$1 is not a file of this user's"; return 1; }
    dlc_line=$(sha256sum < "$1") || { dlc_said="can't read $1"; return 1; }
    dlc_said="$1 has the SHA-256 ${dlc_line%% *}; $dlc_by: $dlc_sha256"
    [ "${dlc_line%% *}" = "$dlc_sha256" ]
}
dlc_copy() {
    # Under a name of its own until it is whole: what is in place was read to its end.
    dlc_part=$(mktemp -- "$dlc_folder/part-XXXXXXXX") && cp -T -- "$dlc_image" "$dlc_part" &&
        mv -fT -- "$dlc_part" "$dlc_staged" || dlc_wrong "can't write $dlc_staged"
}
dlc_remove() {
    ! dlc_is_own "$dlc_folder" || rm -rf -- "$dlc_folder"
}
for dlc_word in $dlc_words; do
    case $dlc_word in
        make) dlc_make ;;
        copy) dlc_copy ;;
        check) dlc_is_it "$dlc_staged" || dlc_wrong "$dlc_said" ;;
        remove) dlc_remove ;;
    esac
done
END_OF_NODE
    case ${DLCONTAINER_STAGE:-1} in
        0) ;;
        1) dlc_copy_image ;;
        *) dlc_fail "DLCONTAINER_STAGE is '$DLCONTAINER_STAGE'" "give 1 or 0" ;;
    esac
}
dlc_copy_image() {
    [ -f "$dlc_image" ] || dlc_fail "$dlc_image is no file: it can't be copied" \
        "DLCONTAINER_STAGE=0 leaves it where it is"
    # The bytes that a copy must have: those of the record beside the image, else its own now.
    dlc_line=$(readlink -f -- "$dlc_image") dlc_sha256=
    dlc_by=${dlc_line##*/} dlc_by=${dlc_line%/*}/${dlc_by%.*}.json
    [ ! -f "$dlc_by" ] || dlc_sha256=$(head -c 65536 -- "$dlc_by" | sed -n \
        '/^ "image": {$/,/^ }/s/^  "sha256": "\([0-9a-f]\{64\}\)",\{0,1\}$/\1/p')
    case $dlc_sha256 in
        '' | *[!0-9a-f]*)
            dlc_by=$dlc_image dlc_sha256=$(sha256sum < "$dlc_image")
            dlc_sha256=${dlc_sha256%% *}
            ;;
    esac
    dlc_line=$(od -An -N8 -tx8 /dev/urandom)
    dlc_folder=/mnt/bb/"${USER}"/"dlcontainer-$dlc_number-${dlc_line# }"
    dlc_staged=$dlc_folder/${dlc_image##*/}
    dlc_on_node "make copy check" || {
        dlc_on_node remove || :
        dlc_fail "can't copy $dlc_image to $dlc_staged" "DLCONTAINER_STAGE=0 leaves it where it is"
    }
    dlc_image=$dlc_staged
}

dlc_place() {
    # SEEN:SHARING, the GPUs that each rank shall see, and the ranks that share them. Each rank looks
    # before it starts. A proof only notes it: it says itself what it found.
    case ${DLCONTAINER_GPUS:-1} in
        0) dlc_gpus= ;;
        1) [ -z "$dlc_proof" ] || dlc_gpus=$dlc_gpus:note ;;
        *) dlc_fail "DLCONTAINER_GPUS is '$DLCONTAINER_GPUS'" "give 1, or 0: ranks don't look at GPUs" ;;
    esac
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
        "$dlc_ranks" "$dlc_ranks_per_node" "$dlc_workers" "$dlc_starter" "$dlc_gpus" \
        "$dlc_image" "$dlc_offset" "$dlc_key")
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
dlc_image=$1 dlc_offset=$2 dlc_key=$3
shift 3
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
    dlc_take "${JSM_NAMESPACE_RANK-}" "${JSM_NAMESPACE_SIZE-}" "${JSM_NAMESPACE_LOCAL_RANK-}" "${JSM_NAMESPACE_LOCAL_SIZE-}" ||
    dlc_take "${MV2_COMM_WORLD_RANK-}" "${MV2_COMM_WORLD_SIZE-}" "${MV2_COMM_WORLD_LOCAL_RANK-}" "${MV2_COMM_WORLD_LOCAL_SIZE-}" ||
    dlc_take "${PALS_RANKID-}" "${PALS_SIZE-}" "${PALS_LOCAL_RANKID-}" "${PALS_LOCAL_SIZE-}" ||
    dlc_take "${PMI_RANK-}" "${PMI_SIZE-}" "${MPI_LOCALRANKID-}" "${MPI_LOCALNRANKS-}" ||
    dlc_take "${SLURM_PROCID-}" "${SLURM_NTASKS-}" "${SLURM_LOCALID-}" "${SLURM_TASKS_PER_NODE-}" ||
    dlc_take "${PMIX_RANK-}" "${PMIX_SIZE-}" "${PMIX_LOCAL_RANK-}" "${PMIX_LOCAL_SIZE-}" ||
    { echo "job: jsrun does not say which rank this is" >&2; exit 3; }
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
# The site's file systems, as wrappers of published modules show them: those that this node has, and
# the real folder behind a link.
dlc_roots='/dev
/proc
/sys
/tmp
/var/tmp
/autofs/nccs-svm1_home1
/ccs/home'
dlc_bound=${SINGULARITY_BIND:-${SINGULARITY_BINDPATH-}}
dlc_show() {
    case $1 in *[,:]*) echo "job: $1 is not shown: no bind can name it" >&2; return ;; esac
    for dlc_root in $dlc_roots; do
        case $1/ in "$dlc_root"/*) return ;; esac
    done
    dlc_roots="$dlc_roots
$1" dlc_bound=${dlc_bound:+$dlc_bound,}$1
}
set -f
IFS='
'
# shellcheck disable=SC2043
for dlc_folder in /ccs/proj /gpfs/alpine /mnt/bb; do
    [ -e "$dlc_folder" ] || continue
    dlc_show "$dlc_folder"
    dlc_folder=$(cd -P -- "$dlc_folder" 2>/dev/null && pwd -P) && dlc_show "$dlc_folder" || :
done
unset IFS
set +f
[ -z "$dlc_bound" ] || export SINGULARITY_BIND="$dlc_bound"
# One mount for the ranks of a node, in a namespace of its own that they enter: it ends with their
# processes, however these end, and this node's list of mounts never has it. Where something is
# missing for it, each rank mounts the image itself; who set DLCONTAINER_KEEP is told why.
dlc_say() { printf 'job: %s\n' "$1" >&2; shift; [ $# -eq 0 ] || printf '  %s\n' "$@" >&2; }
dlc_die() { dlc_code=$1; shift; dlc_say "$@"; exit "$dlc_code"; }
dlc_keep=${DLCONTAINER_KEEP:-60}
case $dlc_keep in
    0) dlc_offset= ;;
    *[!0-9]* | [0-9] | 0*) dlc_die 2 "DLCONTAINER_KEEP is '$dlc_keep'" \
        "next: give seconds, at least 10; 0: each rank mounts the image itself" ;;
esac
case $dlc_starter-${LOCAL_WORLD_SIZE:-${dlc_per_node:-1}} in
    torchrun-* | *-1) dlc_offset= ;;
esac
dlc_engine=$(command -v singularity) dlc_pid='' dlc_given=$dlc_image
dlc_no() {
    [ -z "${DLCONTAINER_KEEP-}" ] || dlc_say "the image's mount can't be shared: $1"
    return 1
}
dlc_find_user() {
    while IFS='	 ' read -r dlc_name dlc_uid dlc_line; do
        [ "$dlc_name" != Uid: ] || break
    done < /proc/self/status
}
# shellcheck disable=SC3067
dlc_own_folder() {  # another user may have been first with the name, or have put a link there
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]
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
# Whose mount it is: a scheduler ends a job's processes with the job, and Slurm and jsrun a step's
# with the step. So no step hangs on a process of another.
dlc_find_point() {
    dlc_find_user
    dlc_base=/tmp/dlcontainer-$dlc_uid
    dlc_name_job \
        "${FLUX_ENCLOSING_ID-}" "${FLUX_JOB_ID-}" \
        "${SLURM_JOB_ID-}" "${SLURM_JOB_ID:+${SLURM_STEP_ID-}}" \
        "${LSB_JOBID-}" "${LSB_JOBID:+${LSB_JOBINDEX-}}" "${LSB_JOBID:+${PMIX_NAMESPACE-}}" \
        "${PBS_JOBID-}" \
        "${COBALT_JOBID-}" \
        "${SGE_TASK_ID:+${JOB_ID-}}" "${SGE_TASK_ID-}" \
        || dlc_no "the job's id has characters of its own, and there is no sha256sum" || return 1
    dlc_job="$dlc_key"${dlc_job:+-$dlc_job}
    dlc_point=$dlc_base/$dlc_job
    [ -d "$dlc_base" ] || mkdir -m 700 -- "$dlc_base" 2>/dev/null || :
    # Another user's folder of this name would show another user's image.
    dlc_own_folder "$dlc_base" ||
        dlc_no "$dlc_base is not your own folder"
}
# Seen in a process's own namespace, so the number of a process that ended is told apart.
dlc_shown() {
    read -r dlc_line < "/proc/$1/root$2/.singularity.d/actions/exec"
} 2>/dev/null
# shellcheck disable=SC2016
dlc_there='cd -- "$1" && shift && exec "$@"'
dlc_enter() {
    nsenter --preserve-credentials -U -m -t "$dlc_pid" /bin/sh -c "$dlc_there" dlc-enter "$PWD" "$@"
}
# The lock of a mount, once it is of the file that has its name: whoever removes what a mount left
# removes that file too.
dlc_lock() {
    while exec 8> "$1.lock" && flock -w "$2" 8; do
        [ ! /proc/self/fd/8 -ef "$1.lock" ] || return 0
    done
    return 1
}
# What a job before this one left: a folder and two small files. Under its lock alone, since it may
# be mounting again; and never beneath a mount that is seen: rmdir would take it from its namespace.
dlc_remove_old() (
    dlc_lock "$dlc_old" 0 && read -r dlc_pid < "$dlc_old.pid" || exit 0
    ! dlc_shown "$dlc_pid" "$dlc_old" || exit 0
    { rmdir -- "$dlc_old" || [ ! -e "$dlc_old" ]; } && rm -f -- "$dlc_old.pid" "$dlc_old.lock"
)
dlc_share() (  # ranks come at once: one mounts, the others wait
    for dlc_line in bash flock unshare nsenter; do
        command -v "$dlc_line" >/dev/null || dlc_no "no $dlc_line on PATH" || exit 1
    done
    for dlc_server in "$(command -v squashfuse_ll)" "${dlc_engine%/*}/../libexec/apptainer/bin/squashfuse_ll" \
        /usr/libexec/apptainer/bin/squashfuse_ll ; do
        [ ! -x "$dlc_server" ] || break
    done
    [ -x "$dlc_server" ] || dlc_no "no squashfuse_ll on PATH, nor beside the engine" || exit 1
    dlc_lock "$dlc_point" 120 || dlc_no "$dlc_point.lock is held" || exit 1
    if read -r dlc_pid < "$dlc_point.pid"; then
        [ "$dlc_pid" != - ] || exit 1
        ! dlc_shown "$dlc_pid" "$dlc_point" || exit 0
    fi 2>/dev/null
    set +f
    for dlc_old in "$dlc_base"/*.pid; do
        dlc_old=${dlc_old%.pid}
        [ "$dlc_old" = "$dlc_point" ] || dlc_remove_old
    done 2>/dev/null
    set -f
    mkdir -p -- "$dlc_point" || exit 1
    set -- "$dlc_server" -f -o "ro,nosuid,nodev,offset=$dlc_offset,timeout=$dlc_keep" \
        "$dlc_image" "$dlc_point"
    # It ends itself by this signal, which a launcher in the background has its ranks ignore.
    ! env --default-signal=INT true 2>/dev/null || set -- env --default-signal=INT "$@"
    # Of what a rank has open (a socket of its launcher, the lock) it keeps nothing, and a job's
    # first signals, at which ranks may still write a checkpoint, are none of its own.
    dlc_pid=$(bash -c 'set -m
        for f in /proc/self/fd/*; do f=${f##*/}; [ "$f" -lt 3 ] || eval "exec $f>&-"; done
        unshare --user --map-current-user --keep-caps --mount --propagation slave \
            /bin/sh -c "trap \"\" HUP TERM USR1 USR2; exec \"\$@\"" dlc-mount "$@" </dev/null >/dev/null 2>&1 &
        echo "$!"' bash "$@")
    dlc_left=200
    until dlc_shown "$dlc_pid" "$dlc_point"; do
        dlc_left=$((dlc_left - 1))
        [ -e "/proc/$dlc_pid" ] && [ "$dlc_left" -gt 0 ] || break
        sleep 0.1
    done
    dlc_said=$(dlc_enter "$dlc_engine" --nocolor exec --userns --cleanenv "$dlc_point" /bin/sh -c : \
        2>&1 </dev/null 8>&-) || {
        kill -9 "$dlc_pid" 2>/dev/null
        dlc_no "${dlc_said##*
}" || :
        dlc_pid=-  # not tried again by the others
    }
    printf '%s\n' "$dlc_pid" > "$dlc_point.pid"
)
if [ -n "$dlc_offset" ] && dlc_find_point && dlc_share && read -r dlc_pid < "$dlc_point.pid" &&
    dlc_shown "$dlc_pid" "$dlc_point"; then
    dlc_image=$dlc_point dlc_flags=--userns
fi
# The mount takes the image's place among the words.
if [ "$dlc_image" != "$dlc_given" ]; then
    dlc_left=$#
    while [ "$dlc_left" -gt 0 ]; do
        dlc_word=$1
        shift
        dlc_left=$((dlc_left - 1))
        if [ -n "$dlc_given" ] && [ "$dlc_word" = "$dlc_given" ]; then
            set -- "$@" "$dlc_flags" "$dlc_image"
            dlc_given=
        else
            set -- "$@" "$dlc_word"
        fi
    done
fi
[ -n "$dlc_given" ] || set -- \
    nsenter --preserve-credentials -U -m -t "$dlc_pid" /bin/sh -c "$dlc_there" dlc-enter "$PWD" "$@"
# What stays outside of the image, which gets all else: `dlcontainer site environment` tells why.
dlc_exported=$(export -p)
set -f
IFS='
'
for dlc_name in $dlc_exported; do
    dlc_name=${dlc_name#export }
    dlc_name=${dlc_name%%=*}
    case $dlc_name in
        '' | [0-9]* | *[!A-Za-z0-9_]*) ;;
        APPTAINER* | SINGULARITY* | DLCONTAINER_* | PATH | HOME | PWD | OLDPWD | SHLVL | _ | IFS | \
            SHELL | ENV | BASH* | SHELLOPTS | CDPATH | GLOBIGNORE | PROMPT_COMMAND | PS1 | PS2 | PS3 | \
            PS4 | OPTIND | OPTARG | OPTERR | UID | EUID | GID | PPID | FPATH | dlc_* | LD_LIBRARY_PATH | \
            XDG_RUNTIME_DIR) ;;
        PAMI_*) ;;
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

# Not in a function, where what these files declare would end with it.
# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module purge || dlc_stop
module load DefApps || dlc_stop
module load gcc/9.1.0 || dlc_stop
module load cuda/11.0.3 || dlc_stop
module unload spectrum-mpi || dlc_stop
module load spectrum-mpi/10.4.0.3-20210112 || dlc_stop
[ -r /gpfs/alpine/stf007/world-shared/containers/utils/requiredmpilibs.source ] || dlc_fail "can't read a script of the site: "/gpfs/alpine/stf007/world-shared/containers/utils/requiredmpilibs.source "ask the site where it is now"
. /gpfs/alpine/stf007/world-shared/containers/utils/requiredmpilibs.source
set -eu

run "$@"
