#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -o dlcontainer.o%j
#SBATCH -p gg
#SBATCH -N 2
#SBATCH -n 2
#SBATCH -t 00:30:00
#SBATCH -A ABC123
# pytorch 2.6.0 at site vista-gg (aarch64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: TACC/TACC-Docs@1343375 docs/hpc/vista/running.md
# source: TACC/TACC-Docs@ffbc667 docs/hpc/vista/launching.md
# source: TACC/TACC-Docs@1d94ecf docs/hpc/vista/ (modules, MPI, ibrun, containers)
# source: TACC/TACC-Docs@7d81a41 docs/hpc/vista/system.md
# not known: NVIDIA driver version: no promise that a CUDA release starts
# not known: whether the GPU calls itself H100 or H200: TACC's pages say both, with 96 GB of HBM3
# not known: the kernel: no promise for what needs a newer one
# not known: the version of Apptainer: no promise that an option of a newer one is known there
# not known: the paths behind $HOME, $WORK and $SCRATCH: those written are remembered
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.6.0-vista-gg.sif}
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
module load tacc-apptainer || dlc_stop
set -eu

# On the host.
export OMP_NUM_THREADS=144

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# node: one rank a node, which has its GPU or all its cores
set -- ibrun "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
