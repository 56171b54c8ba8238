"""What ranks did in their traced steps beside communication, and while others waited. Pure.

A rank's profile says when it computed; its first thread was looked at for the rest. A time that had
no look is nobody's.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.trace import intervals
from dlcontainer.bench.trace.intervals import Union
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.watch import looks
from dlcontainer.bench.trace.watch.watch_file import ProcessWatch
from dlcontainer.bench.trace.watch.watch_records import Doing, RankDoing, TimeEstimate, WaitCause

_S = 1e-9
_What = tuple[Doing, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedProcess:
    """The process of a rank as its profile names it, and by how much its clock is moved, ns.

    Where it is not known when it computed (its profile has calls of communication alone), all
    beside these is split by looks.
    """

    rank: int
    boot: str
    pid: int
    moved_ns: int
    is_computing_known: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class _SeenRank:
    """A rank's activities, and when its first thread was looked at: (moment, what)."""

    activities: RankActivities
    is_computing_known: bool
    moments: Sequence[tuple[int, _What]]

    def split(self, times: Union) -> dict[_What, TimeEstimate]:
        """Return what the rank did in some of its times."""
        computing = intervals.both(self.activities.computing, times)
        rest = intervals.both(self.activities.other(), times)
        if not self.is_computing_known:
            computing, rest = [], intervals.union([*computing, *rest])
        parts: dict[_What, TimeEstimate] = {}
        if computing:
            parts["computing", None] = looks.measured(intervals.length(computing) * _S)
        counts = Counter(
            self._doing(what) for moment, what in self.moments if _within(moment, rest)
        )
        of, seconds = counts.total(), intervals.length(rest) * _S
        for what, count in counts.most_common():
            parts[what] = looks.estimate(count, of, seconds)
        return parts

    def _doing(self, what: _What) -> _What:
        # Nothing else tells when it computed.
        is_computing = what[0] == "running" and not self.is_computing_known
        return ("computing", what[1]) if is_computing else what


def of(
    processes: Sequence[TracedProcess],
    activities: Mapping[int, RankActivities],
    watches: Sequence[ProcessWatch],
) -> tuple[tuple[RankDoing, ...], tuple[WaitCause, ...]]:
    """Return what each rank did, and what it did while others waited for it."""
    ranks = {
        process.rank: _SeenRank(
            activities=activities[process.rank],
            is_computing_known=process.is_computing_known,
            moments=_moments(process, activities, watches),
        )
        for process in processes
    }
    doings = [row for rank in ranks for row in _doings(rank, ranks)]
    causes = [
        WaitCause(rank=rank, of=late, doing=doing, file_system=system, time=time)
        for rank, of_rank in ranks.items()
        for late, times in of_rank.activities.waiting.items()
        if late in ranks and ranks[late].moments
        for (doing, system), time in ranks[late].split(times).items()
    ]
    return tuple(doings), tuple(causes)


def _doings(rank: int, ranks: Mapping[int, _SeenRank]) -> Iterator[RankDoing]:
    of_rank = ranks[rank]
    if not of_rank.moments:
        return
    waited = intervals.union(
        interval
        for waiter in ranks.values()
        for interval in waiter.activities.waiting.get(rank, ())
    )
    meanwhile = of_rank.split(waited)
    for (doing, system), time in of_rank.split([of_rank.activities.window]).items():
        share = meanwhile.get((doing, system))
        yield RankDoing(
            rank=rank, doing=doing, file_system=system, time=time,
            waited_s=min(time.seconds, share.seconds if share else 0.0),
        )  # fmt: skip


def _moments(
    process: TracedProcess,
    activities: Mapping[int, RankActivities],
    watches: Sequence[ProcessWatch],
) -> list[tuple[int, _What]]:
    window = activities[process.rank].window
    for watch in sorted(watches, key=lambda watch: watch.head.rank != process.rank):
        if watch.boot != process.boot:
            continue
        names = watch.device_names()
        for row in watch.head.processes:
            runs = watch.runs.get((row.pid, row.begun), ())
            if row.inner_pid == process.pid:
                moments = [
                    (moment + process.moved_ns, (run.doing, names.get(run.device)))
                    for run in runs
                    for moment in run.moments()
                    if window[0] <= moment + process.moved_ns < window[1]
                ]
                if moments:
                    return moments
    return []


def _within(moment: int, times: Union) -> bool:
    place = bisect_right(times, (moment, math.inf)) - 1
    return place >= 0 and times[place][0] <= moment < times[place][1]
