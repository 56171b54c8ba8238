#!/bin/bash
#SBATCH --account=project_465000000
#SBATCH --job-name=dlcontainer
#SBATCH --partition=standard-g
#SBATCH --time=00:30:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# pytorch 2.13.0 at site lumi (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# Ways to place ranks: gcd, pmi2. Another than gcd: DLCONTAINER_FORM=NAME sbatch job.sh
# source: Lumi-supercomputer/lumi-userguide@bad69ac docs/runjobs/scheduled-jobs/lumig-job.md
# source: Lumi-supercomputer/lumi-userguide@0ff8fc9 docs/runjobs/scheduled-jobs/container-jobs.md
# source: interTwin-eu/itwinai lumi_pre_exec.sh
# source: https://arxiv.org/abs/2407.19928
# source: Lumi-supercomputer/lumi-userguide@03bbfc0 docs/software/containers/singularity.md
# not known: service pack and glibc: SLES 15 SP5 with 2.31 is remembered; no promise for an image whose glibc is older
# not known: amdgpu driver: no promise that a ROCm release beyond 6.0 starts
# not known: stacks after LUMI/24.03 (25.03 and later are in use): no binding module for them was found, so no promise that each file bound here still stands; one that is missing stops the start
# not known: GPU-aware MPI from containers: the binding module brings no libmpi_gtl_hsa, so MPICH_GPU_SUPPORT_ENABLED is not set and MPI is promised for host memory only
# not known: RCCL over Slingshot needs the aws-ofi plug-in in the image, or module singularity-AI-bindings (/appl/local/containers/ai-modules) for the centre's own images: else RCCL is promised over TCP only, and FI_PROVIDER=cxi is left out
# not known: project folders: /scratch/PROJECT, /project/PROJECT and /flash/PROJECT are symlinks, so bind the real path of yours; binding /scratch alone does not work
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
dlc_image=${DLCONTAINER_IMAGE:-$PWD/pytorch-2.13.0-lumi-wheels.sif}
[ -r "$dlc_image" ] || dlc_fail "can't read $dlc_image" 'build it: dlcontainer build; or name it: DLCONTAINER_IMAGE=/path/to/image.sif'
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# In the image.
dlc_need USER
# The runtime evaluates these as a shell does between double quotes.
dlc_inside() { export "SINGULARITYENV_$1=$(printf %s "$2" | LC_ALL=C sed 's/[\\$`]/\\&/g')"; }
dlc_inside NCCL_SOCKET_IFNAME hsn0,hsn1,hsn2,hsn3
dlc_inside NCCL_NET_GDR_LEVEL 3
dlc_inside MIOPEN_USER_DB_PATH /tmp/miopen-"${USER}"
dlc_inside MIOPEN_CUSTOM_CACHE_DIR /tmp/miopen-"${USER}"

# What each rank runs, and what starts the ranks.
set -- singularity exec --rocm "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
dlc_form=${DLCONTAINER_FORM:-gcd}
case $dlc_form in
    gcd)  # One rank beside each GCD (it takes the one of its local number), 6 cores each
        dlc_ranks_per_node=8
        set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 \
            --cpu-bind=mask_cpu:7e000000000000,7e00000000000000,7e0000,7e000000,7e,7e00,7e00000000,7e0000000000 "$@"
        ;;
    pmi2)  # The image's own MPI in place of the host's; works, slowly
        dlc_ranks_per_node=8
        set -- srun --nodes="$dlc_nodes" --ntasks-per-node="$dlc_ranks_per_node" \
            --gpus-per-node=8 --mpi=pmi2 "$@"
        ;;
    *) dlc_fail "DLCONTAINER_FORM=$dlc_form is no form of this site" "one of: gcd, pmi2" ;;
esac
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
