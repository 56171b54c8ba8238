#!/bin/bash
# horovod 0.28.1 at site local (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/horovod-0.28.1-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
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

# In the image.
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
[ -z "${OMPI_MCA_btl_vader_single_copy_mechanism+x}" ] || dlc_inside OMPI_MCA_btl_vader_single_copy_mechanism "${OMPI_MCA_btl_vader_single_copy_mechanism}"

dlc_number=$$
dlc_number=${dlc_number%%.*}
dlc_number=${dlc_number//[!0-9]/}
MASTER_PORT=${DLCONTAINER_MASTER_PORT:-$((10000 + 10#0$dlc_number % 10000))}
# Nothing starts ranks here: this is the only one.
RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1
export RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE
export MASTER_ADDR MASTER_PORT

# What each rank runs.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
# What stays outside of the image, which gets all else: `dlcontainer explain-env` tells why.
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
            XDG_DATA_DIRS | XDG_CONFIG_DIRS | XDG_RUNTIME_DIR | CUDA_HOME | CUDA_PATH | CUDA_ROOT | \
            CUDA_DIR | CUDATOOLKIT_HOME | CUDNN_ROOT | NVHPC* | ROCM_PATH | ROCM_HOME | HIP_PATH | \
            MKLROOT | TBBROOT | ONEAPI_ROOT | CMPLR_ROOT | NCCL_HOME | NCCL_ROOT | LANG | LANGUAGE | \
            LC_* | NLSPATH)
            case " ${DLCONTAINER_PASS-} " in *[\ ,]"$dlc_name"[\ ,]*) ;; *) unset "$dlc_name" || : ;; esac
            ;;
    esac
done
unset IFS
set +f
"$@"
