#!/bin/bash
#SBATCH -A ABC123
#SBATCH -J dlcontainer
#SBATCH -C cpu
#SBATCH -q regular
#SBATCH -t 00:30:00
#SBATCH -N 2
# pytorch 2.13.0 at site perlmutter-cpu (x86_64)
# plan: sha256:PLAN-DIGEST
# Rendered by dlcontainer. To submit it: sbatch job.sh [COMMAND [WORD ...]]
# Account, queue and time above are yours to change.
# compute nodes see migrated images: podman-hpc migrate IMAGE
# source: E3SM-Project/E3SM@75e17cc cime_config/machines (pm-gpu, pm-cpu)
# source: ECP-WarpX/WarpX@83a51f0 Tools/machines/perlmutter-nersc/perlmutter_cpu.sbatch
# source: NERSC/podman-hpc@f16c6fe README.md
# not known: service pack of SLES and glibc: no promise that the host libraries which --mpi brings find a new enough glibc in the image
# not known: which Cray MPICH stands in /usr/lib/shifter/mpich-2.2: no promise of its version (9.0.1 is the one of the modules)
# not known: NCCL of --nccl: the public module file names 2.15.5 of 2022; a framework built for a newer one is not promised to start with it (leave --nccl out then: TCP)
# not known: --nccl and --cuda-mpi both set LD_LIBRARY_PATH: no promise which one's libraries come first
# not known: several nodes without MPI: only the MPI switches give a container the host's network, ipc and SLURM_*. Without them a job needs --network=host, --ipc=host and -e SLURM_* among its flags (so do the scripts beside the README on the driver); not with the switches too, as Podman takes --network once
# not known: driver: 580.105.08 is of one README of 2026, no promise that it stays
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
dlc_image=${DLCONTAINER_IMAGE:-pytorch:2.13.0-perlmutter-cpu}
if [ $# -eq 0 ]; then
    dlc_proof=$PWD/proof-${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${COBALT_JOBID:-$$}}}}
    mkdir -p "$dlc_proof"
    set -- /opt/pytorch/bin/python /opt/dlcontainer/probe prove --out "$dlc_proof"
fi

# What each rank runs, and what starts the ranks.
dlc_need PSCRATCH
set -- podman-hpc run --rm -v "${PSCRATCH}":"${PSCRATCH}" "$dlc_image" "$@"
dlc_nodes=${SLURM_NNODES-}
case $dlc_nodes in
    '' | 0* | *[!0-9]*) dlc_fail "can't tell the number of nodes: '$dlc_nodes'" 'run this in a job: sbatch job.sh [COMMAND [WORD ...]]' ;;
esac
# l3: One rank on each L3 region, 8 cores each
dlc_ranks=$((dlc_nodes * 16))
set -- srun -N"$dlc_nodes" -n"$dlc_ranks" -c16 --cpu-bind=cores "$@"
{ printf 'job:'; printf ' %q' "$@"; echo; } >&2
"$@"
