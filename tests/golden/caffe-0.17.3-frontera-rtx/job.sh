#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -o dlcontainer.o%j
#SBATCH -p rtx
#SBATCH -N 2
#SBATCH -n 8
#SBATCH -t 00:30:00
#SBATCH -A ABC123
# caffe 0.17.3 at site frontera-rtx (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: TACC/TACC-Docs@1343375 docs/hpc/frontera/running.md
# source: TACC/TACC-Docs@1d94ecf docs/archives/softwaretutorials/tensorflow.md
# source: TACC/containers_at_tacc@1bcadbd docs/singularity/02.singularity_batch.rst (Apptainer on Frontera)
# source: TACC/containers_at_tacc@02f8f1d docs/singularity/03.mpi_and_gpus.rst
# source: TACC/TACC-Docs@1343375 docs/hpc/frontera.md (system, files, modules)
# not known: NVIDIA driver version on the RTX nodes: no promise that a CUDA release starts
# not known: the kernel: no promise for what needs a newer one than CentOS 7's
# not known: the version of Apptainer: no promise that an option of a newer one is known there
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/caffe-0.17.3-frontera-rtx.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /usr/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module load tacc-apptainer || dlc_stop
set -eu

# What each rank runs, and what starts the ranks.
set -- apptainer exec --nv "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# gpu: four ranks a node, one for each GPU
set -- ibrun "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
