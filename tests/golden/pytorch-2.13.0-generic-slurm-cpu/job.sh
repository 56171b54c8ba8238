#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -A ABC123
#SBATCH -p cpu
#SBATCH -N 2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=64
#SBATCH -t 00:30:00
#SBATCH -o dlcontainer.o%j
# pytorch 2.13.0 at site generic-slurm-cpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# Ways to place ranks: pmix, pmi2. Another than pmix: DLCONTAINER_FORM=NAME sbatch job.sh
# not known: your NVIDIA driver: no promise that a CUDA release starts; nvidia-smi says it
# not known: your glibc and kernel: no promise about host libraries in the image; ldd --version and uname -r say them
# not known: your fabric: no promise that the image's MPI knows it
# not known: which PMI your Slurm offers: srun --mpi=list says it
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-generic-slurm-cpu.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
dlc_form=${DLCONTAINER_FORM:-pmix}
case $dlc_form in
    pmix)  # Open MPI in the image
        set -- srun --mpi=pmix "$@"
        ;;
    pmi2)  # MPICH in the image
        set -- srun --mpi=pmi2 "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: pmix, pmi2" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
