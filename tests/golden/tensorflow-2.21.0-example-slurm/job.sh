#!/bin/bash
#SBATCH --partition=batch
#SBATCH --time=00:30:00
# tensorflow 2.21.0 at site example-slurm (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: an example; every fact here is invented
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/tensorflow-2.21.0-example-slurm.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/tensorflow/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
set -- srun "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
