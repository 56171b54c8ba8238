"""The slowest step and its critical path: back from its last end, over who was waited for. Pure."""

from collections.abc import Mapping, Sequence

from dlcontainer.bench.trace import intervals
from dlcontainer.bench.trace.intervals import Interval, Union
from dlcontainer.bench.trace.matched import TracedRank
from dlcontainer.bench.trace.rank_activities import RankActivities, Wait
from dlcontainer.bench.trace.trace_records import Activity, PathPart, SlowestStep, TimelineBar

_S = 1e-9
# Bars narrower than this share of a step are joined with their neighbours.
_FINEST = 1 / 1500


def slowest(ranks: Sequence[TracedRank], activities: Mapping[int, RankActivities]) -> SlowestStep:
    """Return the step with the longest time from the first rank's begin to the last one's end."""
    common = set.intersection(*(set(rank.steps) for rank in ranks))
    windows = {step: _window(step, ranks) for step in common}
    step = max(sorted(windows), key=lambda number: windows[number][1] - windows[number][0])
    begin, end = windows[step]
    last = max(ranks, key=lambda rank: rank.steps[step][1])
    return SlowestStep(
        step=step,
        seconds=(end - begin) * _S,
        path=tuple(_path(last.rank, windows[step], activities)),
        bars={rank: bars(of, windows[step]) for rank, of in sorted(activities.items())},
    )


def _window(step: int, ranks: Sequence[TracedRank]) -> Interval:
    return min(rank.steps[step][0] for rank in ranks), max(rank.steps[step][1] for rank in ranks)


def _path(rank: int, window: Interval, activities: Mapping[int, RankActivities]) -> list[PathPart]:
    parts: list[PathPart] = []
    begin, at = window
    while True:
        wait = _last_wait(activities[rank], begin, at)
        if wait is None:
            parts.append(_own(activities[rank], (begin, at)))
            return parts[::-1]
        # A thread of gloo may write its end after the rank went on.
        end = min(wait.end, at)
        parts.append(_own(activities[rank], (end, at)))
        parts.append(PathPart(rank=None, collective=wait.kind, seconds=(end - wait.until) * _S))
        rank, at = wait.of, wait.until


def _last_wait(of: RankActivities, begin: int, at: int) -> Wait | None:
    """Return the last collective that held this rank up before a moment."""
    waiting = intervals.union(interval for union in of.waiting.values() for interval in union)
    waits = [wait for wait in of.waits if begin < wait.until < at]
    for wait in sorted(waits, key=lambda wait: wait.until, reverse=True):
        if intervals.clipped(waiting, wait.begin, wait.until):
            return wait
    return None


def _own(of: RankActivities, window: Interval) -> PathPart:
    return PathPart(
        rank=of.rank,
        seconds=(window[1] - window[0]) * _S,
        computing_s=intervals.length(intervals.clipped(of.computing, *window)) * _S,
        other_s=intervals.length(intervals.clipped(of.other(), *window)) * _S,
    )


def bars(of: RankActivities, window: Interval) -> tuple[TimelineBar, ...]:
    """Return what a rank did in a window, as bars; neighbours too narrow to be drawn are joined."""
    times: list[tuple[Activity, int | None, Union]] = [
        ("computing", None, of.computing),
        ("transfer", None, of.transfer),
        *(("waiting", rank, union) for rank, union in of.waiting.items()),
    ]
    begin, end = window
    finest = round((end - begin) * _FINEST)
    drawn = [
        TimelineBar(
            activity=activity, begin_s=(low - begin) * _S, end_s=(high - begin) * _S, of=rank
        )
        for activity, rank, union in times
        for low, high in intervals.union(intervals.clipped(union, begin, end), finest)
    ]
    return tuple(sorted(drawn, key=lambda bar: (bar.begin_s, bar.end_s)))
