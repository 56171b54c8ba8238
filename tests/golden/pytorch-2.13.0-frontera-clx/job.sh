#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -o dlcontainer.o%j
#SBATCH -p small
#SBATCH -N 2
#SBATCH -n 2
#SBATCH -t 00:30:00
#SBATCH -A ABC123
# pytorch 2.13.0 at site frontera-clx (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: TACC/TACC-Docs@1343375 docs/hpc/frontera/running.md
# source: TACC/containers_at_tacc@1bcadbd docs/singularity/02.singularity_batch.rst (Apptainer on Frontera)
# source: TACC/containers_at_tacc@02f8f1d docs/singularity/03.mpi_and_gpus.rst
# source: TACC/TACC-Docs@1343375 docs/hpc/frontera.md (system, files, modules)
# not known: NVIDIA driver version on the RTX nodes: no promise that a CUDA release starts
# not known: the kernel: no promise for what needs a newer one than CentOS 7's
# not known: the version of Apptainer: no promise that an option of a newer one is known there
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof that the image carries.
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-frontera-clx.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
[ $# -gt 0 ] || set -- /opt/pytorch/bin/python /opt/dlcontainer/verify.py

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module load tacc-apptainer || dlc_stop
set -eu

# The host's own Python and libraries are none of the image's.
unset PYTHONPATH PYTHONHOME LD_PRELOAD

# What each rank runs, and what starts the ranks.
set -- apptainer exec "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# node: one rank a node, which has all its cores
set -- ibrun "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
