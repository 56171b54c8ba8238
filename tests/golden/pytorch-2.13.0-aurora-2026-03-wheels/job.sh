#!/bin/bash
#PBS -N dlcontainer
#PBS -l select=2
#PBS -l place=scatter
#PBS -l walltime=00:30:00
#PBS -l filesystems=home:flare
#PBS -q debug
#PBS -A ABC123
# pytorch 2.13.0 at site aurora-2026-03 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: qsub job.sh
# Account, queue and time above are yours to change.
# Ways to place ranks: tcp, bound. Another than tcp: qsub -v DLCONTAINER_FORM=NAME job.sh
# source: argonne-lcf/user-guides@7d04a3f docs/aurora/running-jobs-aurora.md
# source: argonne-lcf/user-guides@0037d9f docs/aurora/running-jobs-aurora.md
# source: argonne-lcf/user-guides@0e8fee2 docs/aurora/containers/src/test_container.sh
# source: argonne-lcf/user-guides@dce73c0 docs/aurora/containers/containers.md
# source: argonne-lcf/user-guides@9a947b7 docs/aurora/system-updates.md
# not known: MPI over Slingshot from containers: the sample runs Intel MPI over TCP and binds no cxi library; no promise of the fabric's speed, nor that the host's Aurora MPICH can take the image's place
# not known: ranks on more than one node from containers: the sample stays on one, so no promise for more
# not known: service pack and glibc of the production image (before SP7): no promise that libraries of its /usr/lib64, which the sample puts first, find a new enough glibc in the image
# not known: when the image of the queue next-eval comes to all nodes: no promise which epoch holds after 2026-09
# not known: GPU driver's libraries in the image: Apptainer injects none for Intel, so the image brings Level Zero, and no promise that its release suits the node's
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "${PBS_O_WORKDIR:-$PWD}"

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-aurora-2026-03-wheels.sif}
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
module load apptainer || dlc_stop
set -eu

# In the image.
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside ZE_FLAT_DEVICE_HIERARCHY FLAT
dlc_inside ONEAPI_DEVICE_SELECTOR level_zero:gpu
dlc_inside SYCL_DEVICE_FILTER level_zero:gpu
dlc_inside CCL_ATL_TRANSPORT ofi
dlc_inside CCL_ZE_IPC 0
dlc_inside CCL_ZE_IPC_EXCHANGE sockets

# What each rank runs, and what starts the ranks.
set -- apptainer exec --bind "${PWD}" "$dlc_image" "$@"
dlc_nodes=$(awk 'NF && !seen[$1]++ { n++ } END { print n + 0 }' "${PBS_NODEFILE-/dev/null}" || :)
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: qsub job.sh' ;;
esac
dlc_form=${DLCONTAINER_FORM:-tcp}
case $dlc_form in
    tcp)  # One rank for each tile, over TCP, as the sample for containers
        dlc_ranks_per_node=12 dlc_ranks=$((dlc_nodes * 12))
        set -- mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" -genv I_MPI_HYDRA_BOOTSTRAP pmi \
            -genv I_MPI_FABRICS ofi -genv I_MPI_OFI_PROVIDER tcp -genv FI_PROVIDER tcp "$@"
        ;;
    bound)  # One rank on each tile and 8 cores beside it, as the guide shows outside containers
        dlc_ranks_per_node=12 dlc_ranks=$((dlc_nodes * 12))
        set -- mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" --cpu-bind \
            list:1-8:9-16:17-24:25-32:33-40:41-48:53-60:61-68:69-76:77-84:85-92:93-100 --gpu-bind \
            list:0.0:0.1:1.0:1.1:2.0:2.1:3.0:3.1:4.0:4.1:5.0:5.1 "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: tcp, bound" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
