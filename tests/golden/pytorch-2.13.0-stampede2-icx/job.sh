#!/bin/bash
#SBATCH -J dlcontainer
#SBATCH -o dlcontainer.o%j
#SBATCH -p icx-normal
#SBATCH -N 2
#SBATCH -n 2
#SBATCH -t 00:30:00
#SBATCH -A ABC123
# pytorch 2.13.0 at site stampede2-icx (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# The machine is decommissioned: rendered for the record.
# source: TACC/TACC-Docs@1d94ecf docs/archives/hpc/stampede2/ (intro, using, building, running, programming, scripts)
# source: TACC/containers_at_tacc@02f8f1d docs/singularity/03.mpi_and_gpus.rst
# source: TACC/tacc-containers@1ee8698 README.md and containers/
# not known: the minor release of RHEL 7 and its kernel: no promise for what needs a kernel newer than RHEL 7's first
# not known: whether tacc-apptainer existed here: images start with tacc-singularity
# not known: which MPI an image holds: PSM2_KASSIST_MODE=none helps MVAPICH2 on KNL and harms Intel MPI, so it is not set
# not known: the paths behind $HOME, $WORK and $SCRATCH: taken from the mount points that TACC's base images prepare
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-stampede2-icx.sif}
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
module load tacc-singularity || dlc_stop
module unload xalt || dlc_stop
set -eu

# On the host.
export OMP_NUM_THREADS=78

# What each rank runs, and what starts the ranks.
set -- singularity exec "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# node: one rank a node, which has all its cores
set -- ibrun "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
