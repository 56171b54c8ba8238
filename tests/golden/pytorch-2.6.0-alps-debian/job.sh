#!/bin/bash
#SBATCH --account=ABC123
#SBATCH --job-name=dlcontainer
#SBATCH --partition=normal
#SBATCH --time=00:30:00
#SBATCH --nodes=2
# pytorch 2.6.0 at site alps (aarch64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# Ways to place ranks: pmi2, pmix. Another than pmi2: DLCONTAINER_FORM=NAME sbatch job.sh
# the EDF is written beside this script: dlcontainer render --format job -o FOLDER/
# source: eth-cscs/cscs-docs@02609e6 docs/running/slurm.md
# source: eth-cscs/cscs-docs@02a7acc docs/clusters/daint.md
# source: eth-cscs/cscs-docs@77c5f2f docs/software/container-engine/examples/image-mpich.md
# source: eth-cscs/cscs-reframe-tests@2f81355 config/systems
# source: eth-cscs/cscs-docs@03b4ca9 docs/software/container-engine/resource-hook.md
# source: eth-cscs/cscs-docs@0bb69f3 docs/software/container-engine/edf.md
# source: eth-cscs/cscs-docs@0051198 docs/software/container-engine/run.md
# source: eth-cscs/cscs-docs@030c07b docs/build-install/containers.md
# not known: service pack of SLES, kernel and glibc: no promise about host libraries beside those that the hooks bring, which carry their own dependencies
# not known: NVIDIA driver and newest CUDA of the site: no promise that a CUDA release starts
# not known: network stack of the hooks: the site takes the newest by itself, so no promise of a libfabric or plug-in version; com.hooks.netstack.source=host is the way back
# not known: which clusters see which scratch: Daint's has been /ritom since 2026-09-16, the others were not looked up
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
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.6.0-alps-debian.toml}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'the EDF is written beside this script: dlcontainer render --format job -o FOLDER/'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# On the host.
export PMIX_MCA_psec='^munge'

# What each rank runs, and what starts the ranks.
dlc_need SCRATCH
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
dlc_form=${DLCONTAINER_FORM:-pmi2}
case $dlc_form in
    pmi2)  # One rank on each GPU; images without MPI and with MPICH
        dlc_ranks_per_node=4
        set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-task=1 --mpi=pmi2 --environment="$dlc_image" "$@"
        ;;
    pmix)  # One rank on each GPU; images with Open MPI
        dlc_ranks_per_node=4
        set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-task=1 --mpi=pmix --environment="$dlc_image" "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: pmi2, pmix" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
