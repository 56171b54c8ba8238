#!/bin/bash
#SBATCH --account=ABC123-delta-gpu
#SBATCH --job-name=dlcontainer
#SBATCH --partition=gpuA100x4
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=16
#SBATCH --gpus-per-node=4
#SBATCH --mem=0
# pytorch 2.13.0 at site delta-a100x4 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: ncsa/Delta_doc@0acc04b docs/source/user_guide/running_jobs.rst
# source: ncsa/Delta_doc@1314d79 docs/source/user_guide/containers.rst
# source: https://docs.ncsa.illinois.edu/systems/delta/en/latest/user_guide/data_mgmt.html
# not known: minor release of Red Hat 9, and glibc (2.34 is remembered): no promise about host libraries in the image
# not known: NVIDIA driver: no promise that a CUDA release starts
# not known: MPI from containers: neither the site's versions nor a binding into containers was found; the image brings its own, and no promise that it finds its ranks through srun
# not known: Slingshot from containers: no binding of cxi or of an NCCL plug-in was found; NCCL and MPI are promised over TCP only
# not known: version of Apptainer: no promise of options that the page does not show
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-delta-a100x4-wheels.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module reset || dlc_stop
set -eu

# What each rank runs, and what starts the ranks.
set -- apptainer exec --nv --bind /projects --bind /work/hdd "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# gpu: One rank for each GPU, 16 cores each
dlc_ranks_per_node=4
set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" --cpus-per-task=16 \
    --gpus-per-task=1 --gpu-bind=verbose,per_task:1 "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
