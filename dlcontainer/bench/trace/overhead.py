"""What tracing costs a step: traced steps against those before and after them. Pure.

The i-th traced step stands between the i-th without a profiler before and the i-th after; d is the
log of its length less the mean of theirs, averaged over the ranks, which are in step with each
other. The first of each block is left out: ranks leave the change at different moments.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from dlcontainer.bench.stats import student_t
from dlcontainer.bench.trace.process_trace import AFTER, BEFORE, TRACED, ProcessTrace
from dlcontainer.bench.trace.trace_records import TraceOverhead

MOST = 0.05
_FEWEST = 4
_ALPHA = 0.05


def of(processes: Sequence[ProcessTrace]) -> TraceOverhead:
    """Return the overhead of ranks that were traced at the same time."""
    rows = [_of_process(process) for process in processes]
    if not rows or not all(rows):
        return TraceOverhead(
            reason="too few steps without the profiler followed: the program ended before"
        )
    ds = [fmean(values) for values in zip(*rows, strict=False)]
    if len(ds) < _FEWEST:
        return TraceOverhead(reason=f"{len(ds)} steps can be compared: an interval takes {_FEWEST}")
    mean, spread = fmean(ds), stdev(ds)
    if spread == 0:
        return TraceOverhead(reason="steps are equal to the last digit: these are no times")
    half = student_t.quantile(_ALPHA / 2, len(ds) - 1) * spread / math.sqrt(len(ds))
    low, middle, high = (math.exp(mean + sign * half) for sign in (-1, 0, 1))
    return TraceOverhead(ratio=middle, low=low, high=high, steps=len(ds))


def _of_process(process: ProcessTrace) -> list[float]:
    blocks = [_lengths(process, number) for number in (BEFORE, TRACED, AFTER)]
    return [
        math.log(traced) - fmean((math.log(before), math.log(after)))
        for before, traced, after in zip(*blocks, strict=False)
    ]


def _lengths(process: ProcessTrace, block: int) -> list[float]:
    return [line.s for line in process.block(block)[1:] if line.s]


def words(overhead: TraceOverhead) -> str:
    """Say the overhead, and whether it is above the most that is allowed.

    >>> words(TraceOverhead(ratio=1.02, low=1.01, high=1.03, steps=11))
    'tracing adds +2.0 % to a step [+1.0, +3.0], by 11 steps: at most 5 %'
    """
    ratio, low, high = overhead.ratio, overhead.low, overhead.high
    if ratio is None or low is None or high is None:
        return f"the cost of tracing can't be told: {overhead.reason}"
    if high <= 1 + MOST:
        mark = "at most 5 %"
    elif low > 1 + MOST:
        mark = "ABOVE 5 %: read the times below with that"
    else:
        mark = "CAN'T TELL whether it is above 5 %"
    shown = [f"{100 * (value - 1):+.1f}" for value in (ratio, low, high)]
    return (
        f"tracing adds {shown[0]} % to a step [{shown[1]}, {shown[2]}], "
        f"by {overhead.steps} steps: {mark}"
    )
