#!/bin/bash
# mxnet 1.9.1 at site local (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

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
dlc_image=${DLCONTAINER_IMAGE:-$PWD/mxnet-1.9.1-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
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
    dlc_again=0
    case $dlc_again in '' | *[!0-9]*) dlc_again=0 ;; esac
    while :; do
        dlc_proof=$PWD/proof-${dlc_job:-$$}
        [ "$dlc_again" -eq 0 ] || dlc_proof=$dlc_proof-restart-$dlc_again
        ! dlc_said=$(mkdir "$dlc_proof" 2>&1) || break
        [ -e "$dlc_proof" ] || [ -L "$dlc_proof" ] ||
            dlc_fail "$dlc_said" "submit this from a folder that you can write to"
        dlc_again=$((dlc_again + 1))
    done
    set -- /opt/mxnet/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
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
dlc_prefix=/opt/mxnet dlc_shown=()
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

dlc_show_here

dlc_number=$$
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Nothing starts ranks here: this is the only one.
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
export MASTER_ADDR MASTER_PORT

# What each rank runs.
set -- apptainer exec ${dlc_shown[@]+"${dlc_shown[@]}"} "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
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
