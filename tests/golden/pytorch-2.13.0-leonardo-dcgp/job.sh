#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=dcgp_usr_prod
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=56
# pytorch 2.13.0 at site leonardo-dcgp (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: https://wiki.u-gov.it/confluence/display/SCAIUS/LEONARDO+User+Guide
# not known: release of Red Hat after 8.6, and glibc (2.28 is remembered): no promise about host libraries in the image
# not known: NVIDIA driver: no promise that a CUDA release starts
# not known: container runtime: whether singularity stands in PATH or needs a module was not found
# not known: MPI from containers: the site's is Open MPI, a binding into containers was not found; the image brings its own, and no promise that it finds its ranks through srun or the fabric
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof that the image carries.
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-leonardo-dcgp.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
[ $# -gt 0 ] || set -- /opt/pytorch/bin/python /opt/dlcontainer/verify.py

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME LD_PRELOAD

# What each rank runs, and what starts the ranks.
set -- singularity exec --bind "${PWD}" "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# socket: One rank for each processor
dlc_ranks_per_node=2
set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" --cpus-per-task=56 "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
