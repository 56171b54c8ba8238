"""Critical paths: back from the last end, over who was waited for; and the slowest step. Pure."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.bench.trace import intervals
from dlcontainer.bench.trace.intervals import Interval, Union
from dlcontainer.bench.trace.matched import TracedRank
from dlcontainer.bench.trace.rank_activities import RankActivities, Wait
from dlcontainer.bench.trace.trace_records import (
    Activity,
    PathPart,
    ProgramPath,
    SlowestStep,
    TimelineBar,
)

_S = 1e-9
# Bars narrower than this share of a step are joined with their neighbours.
_FINEST = 1 / 1500
# Of a program's path.
_MOST_PARTS = 500


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


def of_program(activities: Mapping[int, RankActivities]) -> ProgramPath | None:
    """Return the path back from the end of a program's last rank; None where that is no time."""
    if len(activities) < 2:
        return None
    begin = min(of.window[0] for of in activities.values())
    last = max(activities.values(), key=lambda of: of.window[1])
    parts = [part for part in _path(last.rank, (begin, last.window[1]), activities) if part.seconds]
    if not parts:
        return None
    longest = sorted(range(len(parts)), key=lambda number: -parts[number].seconds)
    left_out = [parts[number] for number in longest[_MOST_PARTS:]]
    return ProgramPath(
        seconds=sum(part.seconds for part in parts),
        parts=tuple(parts[number] for number in sorted(longest[:_MOST_PARTS])),
        left_out=len(left_out),
        left_out_s=sum(part.seconds for part in left_out),
        sums=tuple(sorted(_sums(parts), key=lambda part: -part.seconds)),
    )


def _sums(parts: Sequence[PathPart]) -> Iterator[PathPart]:
    """Yield the sum of the parts of each rank and of each call."""
    groups: dict[tuple[int | None, str], list[PathPart]] = {}
    for part in parts:
        groups.setdefault((part.rank, part.collective), []).append(part)
    for (rank, collective), group in groups.items():
        yield PathPart(
            rank=rank,
            collective=collective,
            seconds=sum(part.seconds for part in group),
            computing_s=sum(part.computing_s for part in group),
            other_s=sum(part.other_s for part in group),
        )


def _path(rank: int, window: Interval, activities: Mapping[int, RankActivities]) -> list[PathPart]:
    parts: list[PathPart] = []
    ranks = dict[int, _PathRank]()
    at = window[1]
    while True:
        if rank not in ranks:
            ranks[rank] = _PathRank(activities[rank])
        of = ranks[rank]
        # Of what a rank did before its own begin nothing is known.
        begin = min(at, max(window[0], of.begin))
        wait = of.last_wait(begin, at)
        if wait is None:
            parts.append(of.own((begin, at)))
            return parts[::-1]
        # A thread of gloo may write its end after the rank went on.
        end = min(wait.end, at)
        parts.append(of.own((end, at)))
        parts.append(PathPart(rank=None, collective=wait.kind, seconds=(end - wait.until) * _S))
        rank, at = wait.of, wait.until


class _PathRank:
    """A rank as a path meets it, maybe many times: its waits by their ends, and its own time."""

    def __init__(self, of: RankActivities) -> None:
        self.begin = of.window[0]
        self._of, self._other = of, of.other()
        self._waits = sorted(of.waits, key=lambda wait: wait.until)
        self._waiting = intervals.union(
            interval for union in of.waiting.values() for interval in union
        )

    def last_wait(self, begin: int, at: int) -> Wait | None:
        """Return the last collective or call that held this rank up between two moments."""
        place = bisect_left(self._waits, at, key=lambda wait: wait.until)
        for number in range(place - 1, -1, -1):
            wait = self._waits[number]
            if wait.until <= begin:
                return None
            if intervals.clipped(self._waiting, wait.begin, wait.until):
                return wait
        return None

    def own(self, window: Interval) -> PathPart:
        """Return what the rank did in a window, as a part of a path."""
        return PathPart(
            rank=self._of.rank,
            seconds=(window[1] - window[0]) * _S,
            computing_s=intervals.length(intervals.clipped(self._of.computing, *window)) * _S,
            other_s=intervals.length(intervals.clipped(self._other, *window)) * _S,
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
