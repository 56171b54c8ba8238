#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J dlcontainer
#SBATCH -o %x-%j.out
#SBATCH -t 00:30:00
#SBATCH -p batch
#SBATCH -N 2
# horovod 0.28.1 at site frontier-cpe-24.11 (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# source: olcf/olcf-user-docs@2745903 systems/frontier_user_guide.rst
# source: olcf/olcf_containers_examples@1612888 frontier/sample_apps/pytorch/amdrocmregistry/submit.sbatch
# source: olcf/olcf-user-docs@2745903 software/containers_on_frontier.rst
# source: olcf/olcf-user-docs@2745903 software/analytics/pytorch_frontier.rst
# source: olcf/olcf_containers_examples@72e47e2 frontier/containers_on_frontier_docs/gpu_aware_mpi_example/submit642.sbatch
# source: olcf/olcf_containers_examples@017d524 frontier/containers_on_frontier_docs/gpu_aware_mpi_example/submit624.sbatch
# not known: glibc of the compute nodes: 2.38 is remembered of SLES 15 SP6 and SP7, so an image below it (Ubuntu 22.04, Rocky 9) is not promised to take the injected Cray libraries
# not known: epoch cpe-24.11: its job script is older than the update to SLES 15 SP7, and the newer one takes libxpmem from /opt/xpmem: no promise that /usr/lib64/libxpmem.so.0 is still there
# not known: ROCm in the image must be the module's (6.4.2, 6.2.4): AMD keeps the SONAME where the ABI breaks, so no promise that another one works with libmpi_gtl_hsa
# not known: RCCL over Slingshot needs the aws-ofi plug-in, built by hand or of module rccl-net-plugin: without it RCCL is promised over TCP on hsn0 only
# not known: libmpicxx: cray-mpich-abi has none, so programs that use MPI's C++ interface are not promised to start
set -eu
dlc_fail() { printf 'job: %s\n' "$1" >&2; printf '  next: %s\n' "$2" >&2; exit 3; }
dlc_need() {
    for dlc_name; do
        [ -n "${!dlc_name-}" ] || dlc_fail "\$$dlc_name is empty or not set; the site config uses it" \
            "load the module that sets it, or export $dlc_name before you submit"
    done
}

# The image, and the command that each rank runs in it: what follows the script's name, else the
# proof of devices, ranks and network; to read it: dlcontainer prove proof-JOB
dlc_image=${DLCONTAINER_IMAGE:-$PWD/horovod-0.28.1-frontier-cpe-24.11.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/horovod/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# `module` is a function of the shell: where this shell has none, /etc/profile defines it. Older
# ones read variables that are not set.
set +eu
dlc_stop() { dlc_fail "line ${BASH_LINENO[0]}: a module command failed, see above" "ask what the site has: module avail"; }
type module >/dev/null 2>&1 || . /etc/profile
module reset || dlc_stop
module load cpe/24.11 || dlc_stop
module load rocm/6.2.4 || dlc_stop
module load cray-mpich-abi/8.1.31 || dlc_stop
set -eu

# On the host.
export MPICH_GPU_SUPPORT_ENABLED=1

# In the image.
dlc_need USER CRAY_MPICH_ROOTDIR CRAY_LD_LIBRARY_PATH
dlc_path=
for dlc_entry in "${CRAY_MPICH_ROOTDIR}"/gtl/lib /opt/rocm/lib /opt/rocm/lib64 \
    "${CRAY_LD_LIBRARY_PATH}" "${LD_LIBRARY_PATH-}" /opt/cray/pe/lib64; do
    [ -z "$dlc_entry" ] || dlc_path=${dlc_path:+$dlc_path:}$dlc_entry
done
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "APPTAINERENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside NCCL_SOCKET_IFNAME hsn0
dlc_inside NCCL_CROSS_NIC 1
dlc_inside NCCL_NET_GDR_LEVEL 3
dlc_inside FI_MR_CACHE_MONITOR kdreg2
dlc_inside FI_CXI_DISABLE_HOST_REGISTER 1
dlc_inside FI_CXI_DEFAULT_CQ_SIZE 131072
dlc_inside FI_CXI_DEFAULT_TX_SIZE 2048
dlc_inside FI_CXI_RX_MATCH_MODE hybrid
dlc_inside MIOPEN_USER_DB_PATH /tmp/miopen-"${USER}"
dlc_inside MIOPEN_CUSTOM_CACHE_DIR /tmp/miopen-"${USER}"
dlc_inside LD_PRELOAD "${CRAY_MPICH_ROOTDIR}"/gtl/lib/libmpi_gtl_hsa.so.0
dlc_inside LD_LIBRARY_PATH "$dlc_path"
export APPTAINER_CONTAINLIBS=/usr/lib64/libcxi.so.1,/usr/lib64/libjson-c.so.5,/lib64/libtinfo.so.6,/usr/lib64/libnl-3.so.200,/usr/lib64/libgfortran.so.5,/usr/lib64/libjansson.so.4,/usr/lib64/libxpmem.so.0

# What each rank runs, and what starts the ranks.
set -- apptainer exec --workdir . --rocm --bind "${PWD}" --bind /usr/share/libdrm \
    --bind /var/spool/slurmd --bind /opt/cray "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# gcd: One rank on each GCD, on the cores beside it
dlc_ranks_per_node=8
set -- srun -N"$dlc_nodes" --tasks-per-node="$dlc_ranks_per_node" -c7 --gpus-per-task=1 \
    --gpu-bind=closest "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
