"""What schedulers and launchers call things; `make golden` writes it, from their tables."""

# rank, size, local rank, local size; "" where there is none. The first whose rank is set holds.
LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PALS_RANKID", "PALS_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE"),
    ("PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"),
)
# Where a launcher tells a rank how many CPUs the job asked for it.
CPUS_ASKED = (
    "SLURM_CPUS_PER_TASK",
)
# What tells a job, its elements, steps and restarts from others.
JOBS = (
    "FLUX_ENCLOSING_ID",
    "FLUX_JOB_ID",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_RESTART_COUNT",
    "LSB_JOBID",
    "LSB_JOBINDEX",
    "PMIX_NAMESPACE",
    "LSB_RESTART",
    "PBS_JOBID",
    "COBALT_JOBID",
    "JOB_ID",
    "SGE_TASK_ID",
    "RESTARTED",
)
