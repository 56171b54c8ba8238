#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=booster
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --gres=gpu:4
# pytorch 2.6.0 at site jupiter (aarch64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: https://apps.fz-juelich.de/jsc/hps/jupiter/batchsystem.html
# not known: operating system and glibc: no promise about host libraries in the image
# not known: NVIDIA driver and CUDA of the site: no promise that a CUDA release starts
# not known: container runtime, its module and who may use it (JUWELS asks for membership of a group in JuDoor): no promise that apptainer starts; if it does, --nv is Apptainer's own
# not known: which MPI from containers: JSC has ParaStation MPI and Open MPI, a binding into containers was not found; the image brings its own, and no promise that it finds its ranks or the fabric
# not known: which interface NCCL and Gloo shall take (ib0 on JUWELS Booster): left to their own choice
# not known: limits, partitions and file systems beside $HOME, $PROJECT and $SCRATCH: nothing but the working folder is bound
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.6.0-jupiter-debian.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
set -- apptainer exec --nv --bind "${PWD}" "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# gpu: One rank for each GPU
dlc_ranks_per_node=4
set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" --cpus-per-task=72 "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
