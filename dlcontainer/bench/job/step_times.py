"""From the moments of a job's processes to the time of one step, by the declared rule. Pure."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from dlcontainer.bench.job.job_records import JobSteps, ProcessSteps, StepDeclaration
from dlcontainer.bench.job.step_events import NO_HOOK, ProcessEvents
from dlcontainer.bench.samples.vocabulary import counted

# Steps that are left out unless the user says otherwise, and the fewest that make a mean.
WARM_UP, FEWEST = 10, 10
MARGIN = 0.02
# Marks that come so much faster than the mean are no steps of their own; so many may be late.
_AT_ONCE, _MOST_AT_ONCE = 0.1, 0.1


def timed(processes: Sequence[ProcessEvents], ranks: int, rule: StepDeclaration) -> JobSteps:
    """Return the steps of a job of so many ranks, or why they are not measured."""
    stepping = [events for events in processes if events.steps()]
    timings = tuple(_of_process(events, rule) for events in stepping)
    reason = _unseen(processes, rule) if not stepping else _unfit(stepping, timings, ranks, rule)
    return JobSteps(
        mean_s=None if reason else median(process.mean_s for process in timings),
        steps=max((process.steps for process in timings), default=0),
        processes=timings,
        reason=reason,
    )


def unread(why: str) -> JobSteps:
    """Return the steps of a job whose stamps can't be read."""
    return JobSteps(mean_s=None, steps=0, processes=(), reason=why)


def _of_process(events: ProcessEvents, rule: StepDeclaration) -> ProcessSteps:
    moments = events.steps()
    # The first step has no begin: what counts starts where the last one left out has ended.
    lengths = [later - sooner for sooner, later in pairwise(moments[rule.warm_up - 1 :])]
    return ProcessSteps(
        rank=events.rank,
        node=events.node,
        steps=len(moments),
        counted=len(lengths),
        mean_s=math.fsum(lengths) / len(lengths) if lengths else 0.0,
        median_s=median(lengths) if lengths else 0.0,
        longest_s=max(lengths, default=0.0),
    )


def _unseen(processes: Sequence[ProcessEvents], rule: StepDeclaration) -> str:
    if rule.source == "output":
        return f"no line of the output matches {rule.mark!r}"
    if any(NO_HOOK in events.moments for events in processes):
        return (
            "this PyTorch has no hook for the steps of all optimizers (2.0 and later have): "
            "give --step-mark"
        )
    return (
        "no optimizer of PyTorch stepped in a Python that reads PYTHONPATH: give --step-mark "
        "with a pattern of the lines that end a step"
    )


def _unfit(
    stepping: Sequence[ProcessEvents],
    timings: Sequence[ProcessSteps],
    ranks: int,
    rule: StepDeclaration,
) -> str | None:
    """Return why the steps of processes that have some are no measurement; None where they are."""
    counts = {process.steps for process in timings}
    if len(counts) > 1:
        return f"the ranks did different numbers of steps: {min(counts)} to {max(counts)}"
    # One rank may print for all; timings rank has an optimizer of its own.
    if rule.source == "optimizer" and len(timings) < ranks:
        return f"steps were seen in {counted(len(timings), 'process')} of {counted(ranks, 'rank')}"
    if timings[0].counted < rule.fewest:
        return (
            f"{counted(timings[0].steps, 'step')}: the first {rule.warm_up} are left out, and "
            f"{rule.fewest} more are the fewest that are judged"
        )
    if any(process.mean_s <= 0 for process in timings):
        return (
            "all steps ended at the same moment: the output came at once, as buffered output does"
        )
    if rule.source == "output" and any(
        map(_come_at_once, stepping, timings, [rule] * len(timings))
    ):
        return (
            "lines that match came several at once: the output is buffered, or the pattern matches "
            "more than one line of a step"
        )
    return None


def _come_at_once(events: ProcessEvents, process: ProcessSteps, rule: StepDeclaration) -> bool:
    lengths = [b - a for a, b in pairwise(events.steps()[rule.warm_up - 1 :])]
    at_once = sum(length < _AT_ONCE * process.mean_s for length in lengths)
    return at_once > _MOST_AT_ONCE * len(lengths)
