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
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/mxnet/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
