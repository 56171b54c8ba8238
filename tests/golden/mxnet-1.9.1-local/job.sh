#!/bin/bash
# mxnet 1.9.1 at site local (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: bash job.sh [COMMAND [WORD ...]]
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/mxnet-1.9.1-local.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
dlc_proof=
if [ $# -eq 0 ]; then
    dlc_job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-${SGE_TASK_ID:+${JOB_ID-}}}}}}
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
"$@"
