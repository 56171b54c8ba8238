"""Slurm."""

import re
from collections.abc import Mapping

from dlcontainer.schedulers.base import BatchSystem, Launcher, ReframeBackend

# The first name of Slurm's list: n1,n3 or nid[001-004,007] or a login node's only one.
_FIRST = re.compile(r"([^\[\],]+)(?:\[(\d+))?")


def first_host(environ: Mapping[str, str]) -> str | None:
    """Name the allocation's first node, which need not be a host's name; None within a job."""
    first = _FIRST.match(environ.get("SLURM_JOB_NODELIST", ""))
    if first is None or environ.get("SLURMD_NODENAME"):
        return None
    return first[1] + (first[2] or "")


SLURM = BatchSystem(
    submit="sbatch",
    node_count="${SLURM_NNODES-}",
    job_variable="SLURM_JOB_ID",
    variables=("SLURM*",),
    first_host=first_host,
    launchers={
        "srun": Launcher(
            counts=("--nodes={nodes}", "--ntasks={ranks}", "--ntasks-per-node={ranks_per_node}"),
            reframe="srun",
        )
    },
    reframe=ReframeBackend(
        name="slurm",
        written_options=r"(-J|-N|-n|-t|-o|-e|"
        r"--(job-name|nodes|ntasks|ntasks-per-node|time|output|error))\b",
    ),
)
