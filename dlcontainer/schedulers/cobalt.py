"""Cobalt, with Cray's aprun (ALCF, until 2023); ReFrame has no backend for it."""

from dlcontainer.schedulers.base import BatchSystem, Launcher

COBALT = BatchSystem(
    submit="qsub",
    variable_option="--env",
    node_count="${COBALT_JOBSIZE-}",
    job_variable="COBALT_JOBID",
    variables=("COBALT_*",),
    launchers={
        "aprun": Launcher(
            counts=("-n", "{ranks}", "-N", "{ranks_per_node}"),
            reframe="alps",
        )
    },
)
