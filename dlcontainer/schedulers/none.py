"""No scheduler: a job script is a shell script, on this node alone."""

from dlcontainer.schedulers.base import BatchSystem, ReframeBackend

NONE = BatchSystem(
    submit="bash",
    node_count="1",
    hosts="echo 127.0.0.1",
    reframe=ReframeBackend(name="local"),
)
