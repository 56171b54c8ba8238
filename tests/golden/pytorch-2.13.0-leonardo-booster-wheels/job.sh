#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=boost_usr_prod
#SBATCH --qos=boost_qos_dbg
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --gres=gpu:4
#SBATCH --mem=494000
# pytorch 2.13.0 at site leonardo-booster (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: ECP-WarpX/WarpX@7a894c3 Tools/machines/leonardo-cineca/job.sh
# source: HicrestLaboratory/Blink-GPU sbatch/leonardo/run-leonardo-nbpp.sh
# not known: release of Red Hat after 8.6, and glibc (2.28 is remembered): no promise about host libraries in the image
# not known: NVIDIA driver: no promise that a CUDA release starts
# not known: container runtime: whether singularity stands in PATH or needs a module was not found
# not known: MPI from containers: the site's is Open MPI, a binding into containers was not found; the image brings its own, and no promise that it finds its ranks through srun or the fabric
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-leonardo-booster-wheels.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
set -- singularity exec --nv --bind "${PWD}" "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# gpu: One rank for each GPU, 8 cores each
dlc_ranks_per_node=4
set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" --cpus-per-task=8 \
    --gpus-per-task=1 "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
