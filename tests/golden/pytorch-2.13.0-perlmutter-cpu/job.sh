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

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-pytorch:2.13.0-perlmutter-cpu}
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

dlc_need PSCRATCH
dlc_here=$PWD
dlc_bind="${PSCRATCH}":"${PSCRATCH}"; [ "${dlc_bind#*:}" != "$PWD" ] || dlc_here=

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

# What goes in of this environment, by name: the runtime takes nothing of it by itself, and no value
# stands on a command line. `dlcontainer explain-env` tells why a variable stays outside.
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

# What each rank runs.
set -- podman-hpc run --rm --network=host --ipc=host --pid=host -v "${PSCRATCH}":"${PSCRATCH}" \
    ${dlc_here:+-v "$dlc_here:$dlc_here"} -w "$PWD" ${dlc_names[@]+"${dlc_names[@]}"} \
    -e CUDA_VISIBLE_DEVICES -e ROCR_VISIBLE_DEVICES -e GPU_DEVICE_ORDINAL -e ZE_AFFINITY_MASK \
    -e 'OMPI_*' -e 'PMI_*' -e 'PMIX_*' -e 'PALS_*' -e 'MPI_LOCAL*' -e MASTER_ADDR -e MASTER_PORT \
    -e RANK -e WORLD_SIZE -e LOCAL_RANK -e LOCAL_WORLD_SIZE -e PET_NODE_RANK -e TF_CONFIG \
    -e 'SLURM*' "$dlc_image" "$@"
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
