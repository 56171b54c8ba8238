"""Launchers that come with an MPI or with a centre, whatever the scheduler."""

from collections.abc import Mapping
from dataclasses import replace

from dlcontainer.schedulers.base import Launcher

# Open MPI fills a node before the next: another number for each node must be said. mpirun and
# mpiexec may be another MPI's, which on one node take the same words.
_OPEN_MPI = Launcher(
    counts=("-n", "{ranks}"), across_nodes=("--map-by", "ppr:{ranks_per_node}:node")
)

LAUNCHERS: Mapping[str, Launcher] = {
    "mpirun": replace(_OPEN_MPI, reframe="mpirun"),
    "mpiexec": replace(_OPEN_MPI, reframe="mpiexec"),
    "orterun": _OPEN_MPI,
    "prterun": _OPEN_MPI,
    "mpiexec.hydra": Launcher(counts=("-n", "{ranks}", "-ppn", "{ranks_per_node}")),
    "ibrun": Launcher(reframe="ibrun"),  # TACC's
}
