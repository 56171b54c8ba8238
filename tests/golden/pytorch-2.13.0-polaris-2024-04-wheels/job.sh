#!/bin/bash
#PBS -N dlcontainer
#PBS -l select=2:system=polaris
#PBS -l place=scatter
#PBS -l walltime=0:30:00
#PBS -l filesystems=home:eagle
#PBS -q debug
#PBS -A ABC123
# pytorch 2.13.0 at site polaris-2024-04 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: qsub job.sh
# Account, queue and time above are yours to change.
# Ways to place ranks: gpu, node. Another than gpu: qsub -v DLCONTAINER_FORM=NAME job.sh
# source: argonne-lcf/user-guides@7d04a3f docs/polaris/index.md
# source: argonne-lcf/user-guides@11dbfa6 docs/polaris/running-jobs/index.md
# source: argonne-lcf/user-guides@0dc8699 docs/polaris/running-jobs/using-gpus.md
# source: argonne-lcf/user-guides@7d04a3f docs/polaris/containers/containers.md
# source: argonne-lcf/user-guides@05ff974 docs/polaris/containers/containers.md
# source: argonne-lcf/user-guides@002a929 docs/polaris/applications-and-libraries/libraries/nccl.md
# not known: glibc: 2.38 (SP6, SP7) and 2.31 (SP5) are remembered; no promise for an image whose glibc is older
# not known: PALS: the page on containers names 1.2.12, and 1.6.1 came on 2025-08-29; no promise that /opt/cray/pe/pals/1.2.12 is still there
# not known: further folders of the host's /opt: the page binds all of it; no promise that none but cray and nvidia is needed
# not known: GPU-aware MPI from containers: the page shows neither the GTL library nor MPICH_GPU_SUPPORT_ENABLED, so MPI is promised for host memory only
# not known: NCCL over Slingshot: the plug-in of /soft/libraries/aws-ofi-nccl/v1.9.1-aws/lib is documented for the host, not for containers; NCCL_NET is left out, as NCCL stops where it names a plug-in that is not there: TCP
# not known: which GPU a rank takes: the launcher binds none, and CPU and GPU numbers run against each other (GPU 0 is beside cores 24-31); the program chooses by its local rank
# not known: modules of apptainer in the epochs before 2026-08: taken over from the page as of 2026-08, but for 2024-04
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
cd "${PBS_O_WORKDIR:-$PWD}"

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-polaris-2024-04-wheels.sif}
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
module use /soft/modulefiles || dlc_stop
module load spack-pe-base/0.6.2 || dlc_stop
module load apptainer || dlc_stop
set -eu

# On the host.
export HTTP_PROXY=http://proxy.alcf.anl.gov:3128
export HTTPS_PROXY=http://proxy.alcf.anl.gov:3128
export http_proxy=http://proxy.alcf.anl.gov:3128
export https_proxy=http://proxy.alcf.anl.gov:3128

# In the image.
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside NCCL_NET_GDR_LEVEL PHB
dlc_inside NCCL_CROSS_NIC 1
dlc_inside NCCL_COLLNET_ENABLE 1
dlc_inside FI_CXI_DISABLE_HOST_REGISTER 1
dlc_inside FI_MR_CACHE_MONITOR userfaultfd
dlc_inside FI_CXI_DEFAULT_CQ_SIZE 131072

# What each rank runs, and what starts the ranks.
set -- apptainer exec --nv "$dlc_image" "$@"
dlc_nodes=$(awk 'NF && !seen[$1]++ { n++ } END { print n + 0 }' "${PBS_NODEFILE-/dev/null}" || :)
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: qsub job.sh' ;;
esac
dlc_form=${DLCONTAINER_FORM:-gpu}
case $dlc_form in
    gpu)  # As many ranks as GPUs, each on 8 cores of its own
        dlc_ranks_per_node=4 dlc_ranks=$((dlc_nodes * 4))
        set -- mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" --depth=8 --cpu-bind depth "$@"
        ;;
    node)  # 16 ranks a node, as the page on containers shows for MPI without GPUs
        dlc_ranks_per_node=16 dlc_ranks=$((dlc_nodes * 16))
        set -- mpiexec -n "$dlc_ranks" -ppn "$dlc_ranks_per_node" "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: gpu, node" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
