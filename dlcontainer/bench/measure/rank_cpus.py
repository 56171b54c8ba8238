"""The CPUs that a job asked for, for each of its tasks, against those that processes may use.

A launcher that does not hand them on leaves both sides of a comparison on one core: they agree, and
the verdict is one of a core that nobody asked for.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dlcontainer import schedulers
from dlcontainer.errors import BenchDataError

_NEXT = (
    "start it so that each task gets them: srun -c N, or export "
    "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK in the job"
)


def few(asked: int | None, said: Sequence[Mapping[str, Any]]) -> str:
    """Say which rank has fewer CPUs than were asked for; empty where all have enough."""
    for body in said:
        bound = body.get("affinity")
        if asked is not None and isinstance(bound, list) and len(bound) < asked:
            place = body["place"]
            return (
                f"rank {place['rank']} on {place['node']} may use {len(bound)} of the {asked} CPUs "
                "that the job asked for each: its launcher did not hand them on"
            )
    return ""


def require_own(environ: Mapping[str, str], allowed: Collection[int] | None = None) -> None:
    """Refuse to measure in a task that has fewer CPUs than its job asked for."""
    asked = schedulers.cpus_of_task(environ)
    usable = len(os.sched_getaffinity(0) if allowed is None else allowed)
    if asked is not None and usable < asked:
        raise BenchDataError(
            f"{usable} of the {asked} CPUs that this job asked for each task are usable here",
            why="both sides would be measured on these alone: the task's launcher did not hand on "
            "what the job asked for",
            next_step=_NEXT,
        )
