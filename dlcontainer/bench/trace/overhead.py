"""What tracing costs a step: traced steps against those before and after them. Pure.

The i-th traced step stands between the i-th without a profiler before and the i-th after; d is the
log of its length less the mean of theirs, averaged over the ranks, which are in step with each
other. The first of each block is left out: ranks leave the change at different moments.

Steps beside others' work are alike for a while, so that n of them are fewer than n: the interval
is of the means of four parts, and wider by what the blocks without a profiler differ beyond the
drift within the blocks. Of steps that nothing traced, two ranks at loads of 17 to 25, a t-interval
of single steps held zero in 57 to 87 % of cuts, and this one in 93 to 98 %.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from dlcontainer.bench.stats import student_t
from dlcontainer.bench.trace.process_trace import AFTER, BEFORE, TRACED, ProcessTrace
from dlcontainer.bench.trace.trace_records import TraceOverhead

MOST = 0.05
_PARTS = 4
_ALPHA = 0.05


def of(processes: Sequence[ProcessTrace]) -> TraceOverhead:
    """Return the overhead of ranks that were traced at the same time."""
    ranks = [
        [_lengths(process, block) for block in (BEFORE, TRACED, AFTER)] for process in processes
    ]
    if not ranks or not all(block for blocks in ranks for block in blocks):
        return TraceOverhead(
            reason="too few steps without the profiler followed: the program ended before"
        )
    count = min(len(block) for blocks in ranks for block in blocks)
    if count < _PARTS:
        return TraceOverhead(reason=f"{count} steps can be compared: an interval takes {_PARTS}")
    before, traced, after = (
        [fmean(logs) for logs in zip(*(blocks[which][:count] for blocks in ranks), strict=True)]
        for which in range(3)
    )
    ds = [log - (b + a) / 2 for b, log, a in zip(before, traced, after, strict=True)]
    parts = [fmean(ds[i * count // _PARTS : (i + 1) * count // _PARTS]) for i in range(_PARTS)]
    if stdev(parts) == 0:
        return TraceOverhead(reason="steps are equal to the last digit: these are no times")
    half = student_t.quantile(_ALPHA / 2, _PARTS - 1) * stdev(parts) / math.sqrt(_PARTS)
    apart = max(len(blocks[0]) for blocks in ranks) + 1
    drift = apart * fmean(_slope(block) for block in (before, traced, after))
    half += abs((fmean(after) - fmean(before)) / 2 - drift)
    low, middle, high = (math.exp(fmean(ds) + sign * half) for sign in (-1, 0, 1))
    return TraceOverhead(ratio=middle, low=low, high=high, steps=count)


def _slope(logs: Sequence[float]) -> float:
    """Return by how much each is above the one before it, by least squares."""
    middle = (len(logs) - 1) / 2
    at = [place - middle for place in range(len(logs))]
    return sum(a * log for a, log in zip(at, logs, strict=True)) / sum(a * a for a in at)


def _lengths(process: ProcessTrace, block: int) -> list[float]:
    return [math.log(line.s) for line in process.block(block)[1:] if line.s]


def is_above(overhead: TraceOverhead) -> bool:
    """Return whether it is surely above the most that is allowed."""
    return overhead.low is not None and overhead.low > 1 + MOST


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
    elif is_above(overhead):
        mark = "ABOVE 5 %: read the times below with that"
    else:
        mark = "CAN'T TELL whether it is above 5 %"
    shown = [f"{100 * (value - 1):+.1f}" for value in (ratio, low, high)]
    return (
        f"tracing adds {shown[0]} % to a step [{shown[1]}, {shown[2]}], "
        f"by {overhead.steps} steps: {mark}"
    )
