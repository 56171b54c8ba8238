"""Cobalt, with Cray's aprun (ALCF, until 2023); ReFrame has no backend for it."""

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.mpi_launchers import APRUN
from dlcontainer.schedulers.scheduler import BatchSystem, JobVariables, Resource

# Source: qsub(1) of Cobalt, as argonne-lcf/user-guides@91dabfb2^ docs/theta has it.
COBALT = BatchSystem(
    submit="qsub",
    variable_option="--env",
    node_count="${COBALT_JOBSIZE-}",
    directive="#COBALT",
    resources={
        "account": Resource(written=r"-A (?P<value>\S+)", line="-A {value}"),
        "partition": Resource(written=r"-q (?P<value>\S+)", line="-q {value}"),
        "time": Resource(written=r"-t (?P<value>\S+)", line="-t {value}"),
        "nodes": Resource(written=r"-n (?P<value>\d+)", line="-n {value}"),
    },
    read_time=time_limits.cobalt,
    time_limit=time_limits.minutes,
    job=JobVariables(number="COBALT_JOBID"),
    variables=("COBALT_*",),
    launchers={"aprun": APRUN},
)
