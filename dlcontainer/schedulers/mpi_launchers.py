"""Launchers that come with an MPI or with a centre, whatever the scheduler."""

from collections.abc import Mapping
from dataclasses import replace

from dlcontainer.schedulers.scheduler import Launcher, RankVariables

# Source: docs.open-mpi.org, "Environment variables set by mpirun".
OPEN_MPI = RankVariables(
    rank="OMPI_COMM_WORLD_RANK",
    size="OMPI_COMM_WORLD_SIZE",
    local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
    local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
)
# Source: MVAPICH2's user guide, "MPI local environment variables".
MVAPICH2 = RankVariables(
    rank="MV2_COMM_WORLD_RANK",
    size="MV2_COMM_WORLD_SIZE",
    local_rank="MV2_COMM_WORLD_LOCAL_RANK",
    local_size="MV2_COMM_WORLD_LOCAL_SIZE",
)
# MPICH's and Intel MPI's Hydra; seen of MPICH 5.0.2's mpiexec.
HYDRA = RankVariables(
    rank="PMI_RANK",
    size="PMI_SIZE",
    local_rank="MPI_LOCALRANKID",
    local_size="MPI_LOCALNRANKS",
)
# HPE's. Source: argonne-lcf/user-guides@7d04a3f docs/aurora/data-science/frameworks/pytorch.md.
PALS = RankVariables(
    rank="PALS_RANKID",
    size="PALS_SIZE",
    local_rank="PALS_LOCAL_RANKID",
    local_size="PALS_LOCAL_SIZE",
)
PMIX = RankVariables(
    rank="PMIX_RANK",
    size="PMIX_SIZE",
    local_rank="PMIX_LOCAL_RANK",
    local_size="PMIX_LOCAL_SIZE",
)

# ALPS, of Cray's XC and before. Source: aprun(1); what its ranks are told comes from Cray's PMI.
APRUN = Launcher(
    counts=("-n", "{ranks}", "-N", "{ranks_per_node}"),
    one_a_node=("-n", "{nodes}", "-N", "1"),
    # Source: aprun(1).
    whole_node=("-cc", "none"),
    reframe="alps",
)
# Open MPI fills a node before the next: another number for each node must be said. mpirun and
# mpiexec may be another MPI's, which on one node take the same words.
_OPEN_MPI = Launcher(
    counts=("-n", "{ranks}"),
    across_nodes=("--map-by", "ppr:{ranks_per_node}:node"),
    tells=(OPEN_MPI,),
    # Source: orterun(1) of Open MPI 4.1, "Process Termination / Signal Handling"; seen of its
    # mpirun. Another MPI's of these names is not known for it.
    hands_on=("USR1", "USR2"),
)
# Open MPI's, MPICH's or PALS's.
_MPIEXEC = (OPEN_MPI, PALS, HYDRA, PMIX)

LAUNCHERS: Mapping[str, Launcher] = {
    "mpirun": replace(_OPEN_MPI, reframe="mpirun", tells=_MPIEXEC),
    # The words for one process a node are PALS's and Hydra's.
    "mpiexec": replace(
        _OPEN_MPI, reframe="mpiexec", tells=_MPIEXEC, one_a_node=("-n", "{nodes}", "-ppn", "1")
    ),
    "orterun": _OPEN_MPI,
    "prterun": _OPEN_MPI,
    "mpiexec.hydra": Launcher(
        counts=("-n", "{ranks}", "-ppn", "{ranks_per_node}"),
        one_a_node=("-n", "{nodes}", "-ppn", "1"),
        tells=(HYDRA,),
    ),
    # TACC's, over the MPI whose module is loaded.
    "ibrun": Launcher(reframe="ibrun", tells=(OPEN_MPI, MVAPICH2, HYDRA)),
}
