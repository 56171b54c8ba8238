"""What a session will take: how many launches, of which kind, and about how long."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dlcontainer.bench.samples.launch_order import Group, Series
from dlcontainer.bench.samples.schedule import Schedule
from dlcontainer.bench.samples.vocabulary import counted

# What the pairs of a session are for.
KINDS: dict[Series, str] = {
    "pair": "measured",
    "triple": "measured",
    "joiner": "joiners",
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
            f"to the look at {look} {schedule.unit}: {sum(counts.values())} {schedule.unit} "
            f"({kinds}), {launched}about {launches * launch_s:.0f} s by the warm-up"
        )


def load(now: float, cores: int) -> str:
    """Say how busy the machine is beside its cores, with a warning where others are at work."""
    text = f"load {now:.1f} on {counted(cores, 'core')}"
    if now <= cores:
        return text
    return (
        f"warning: {text}: others are at work here, intervals will be wide and verdicts few; "
        "measure in an allocation of your own, or when the machine is idle"
    )


def crowd(per_node: int, cores: int) -> str:
    """Warn where a node has more ranks than cores; empty where it has not."""
    if per_node <= cores:
        return ""
    return (
        f"warning: {counted(per_node, 'rank')} on {counted(cores, 'core')}: ranks wait for a core, "
        "and what they wait for each other is the scheduler's time"
    )


def left(began: float, measured: int, remaining: int) -> str:
    """Say how long the rest takes, by what was measured since."""
    if not measured:
        return ""
    return f", about {(time.monotonic() - began) / measured * remaining:.0f} s until it"
