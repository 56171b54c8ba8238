"""No scheduler: a job script is a shell script, on this node alone."""

from dlcontainer.schedulers import time_limits
from dlcontainer.schedulers.scheduler import BatchSystem, ReframeBackend

NONE = BatchSystem(
    submit="bash",
    read_time=time_limits.local,
    node_count="1",
    hosts="echo 127.0.0.1",
    own_host_alone=True,
    reframe=ReframeBackend(name="local"),
)
