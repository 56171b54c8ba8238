"""What a session will take: how many launches, of which kind, and about how long."""

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer import schedulers
from dlcontainer.bench.analysis import machine_load
from dlcontainer.bench.samples.launch_order import Group, Series
from dlcontainer.bench.samples.schedule import Schedule
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.errors import BenchDataError

# What the pairs of a session are for.
KINDS: dict[Series, str] = {
    "pair": "measured",
    "triple": "measured",
    "joiner": "of ranks that share a mount",
    "control": "control of native",
    "candidate_control": "control of the container",
}


def lines(
    schedule: Schedule,
    stages: Sequence[Sequence[Group]],
    sides: Callable[[Group], int],
    launch_s: float,
) -> Iterator[str]:
    """Say, for each look, what is measured until then; a launch takes about so many s."""
    launches, counts = 0, Counter[Series]()
    for look, stage in zip(schedule.looks, stages, strict=True):
        launches += sum(sides(group) for group in stage)
        counts.update(group.series for group in stage)
        kinds = ", ".join(f"{counts[series]} {KINDS[series]}" for series in KINDS if counts[series])
        launched = "" if schedule.grouped else f"{launches} launches, "
        yield (
            f"a result at {look} measured {schedule.unit}: {sum(counts.values())} {schedule.unit} "
            f"({kinds}), {launched}about {span(launches * launch_s)} by the warm-up"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineLoad:
    """How busy the machine is: its load average, and how many cores are busy just now.

    The average is of a minute, and has what this very program did in it.
    """

    load_1min: float
    busy_cores: float | None

    def said(self, cores: int) -> str:
        """Return the load beside the cores, with a warning where others are at work."""
        text = machine_load.text(self.load_1min, self.busy_cores, cores)
        if not machine_load.others_at_work(self.load_1min, self.busy_cores, cores):
            return text
        return (
            f"warning: {text}: others are at work here, intervals will be wide and verdicts few; "
            "measure in an allocation of your own, or when the machine is idle"
        )


def one_look(schedule: Schedule, machine: MachineLoad, cores: int) -> tuple[Schedule, str | None]:
    """Return the pairs of the first look alone, and why, where others are at work; else the same.

    Settled before the first launch, by the load and nothing that is measured: no look is chosen by
    what it shows.
    """
    if not machine_load.others_at_work(machine.load_1min, machine.busy_cores, cores):
        return schedule, None
    fewer = replace(schedule, looks=schedule.looks[:1], joiners=0, controls=0, candidate_controls=0)
    load = machine_load.text(machine.load_1min, machine.busy_cores, cores)
    return fewer, (
        f"this machine is too busy to decide: {load}. Only the first look is taken, and it says "
        "nothing about the container; measure again when the machine is idle, or in an "
        "allocation of your own"
    )


def load(pause_s: float = 0.2, stat: Path = Path("/proc/stat")) -> MachineLoad:
    """Look at the machine for a moment."""
    average, before = os.getloadavg()[0], _processor_ticks(stat)
    time.sleep(pause_s)
    after = _processor_ticks(stat)
    busy = None
    if before and after and after.of_one_core > before.of_one_core:
        share = (after.busy - before.busy) / (after.of_one_core - before.of_one_core)
        busy = round(max(0.0, share), 2)
    return MachineLoad(load_1min=round(average, 2), busy_cores=busy)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ticks:
    busy: float
    of_one_core: float


def _processor_ticks(stat: Path) -> _Ticks | None:
    """Sum the processors' ticks (proc(5)): idle and iowait are no work, steal is others'."""
    try:
        rows = [line.split() for line in stat.read_text().splitlines()]
        cores = [list(map(int, row[1:9])) for row in rows if row[0][:3] == "cpu" != row[0]]
        every = sum(map(sum, cores))
        idle = sum(row[3] + row[4] for row in cores)
        return _Ticks(busy=every - idle, of_one_core=every / len(cores))
    except (OSError, ValueError, IndexError, ZeroDivisionError):
        return None


def crowd(per_node: int, cores: int) -> str:
    """Warn where a node has more ranks than cores; empty where it has not."""
    if per_node <= cores:
        return ""
    return (
        f"warning: {counted(per_node, 'rank')} on {counted(cores, 'core')}: ranks wait for a core, "
        "and what they wait for each other is the scheduler's time"
    )


def require_cpus(environ: Mapping[str, str], allowed: Collection[int] | None = None) -> None:
    """Refuse to measure in a task that has fewer CPUs than its job asked for."""
    cpus = schedulers.cpus_of_task(environ)
    usable = len(os.sched_getaffinity(0) if allowed is None else allowed)
    if cpus is not None and usable < cpus:
        raise BenchDataError(
            f"only {usable} of the {cpus} CPUs per task that this job requested are usable here",
            why="the launcher did not pass the job's request on to this task: both sides would run "
            "on these CPUs only",
            next_step="start the task with srun -c N, or export "
            "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK in the job",
        )


def left(began: float, measured: int, remaining: int) -> str:
    """Return in how long the rest is measured, by what was measured since; empty before that."""
    if not measured:
        return ""
    return f"in about {span((time.monotonic() - began) / measured * remaining)}"


def span(seconds: float) -> str:
    """Write a time that is foreseen, no finer than it is known."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
