"""A rank's time: computing, waiting for another rank, communication beside that. Pure.

Waiting is the part of a collective that is exposed (beside it the rank does not compute) from its
begin at this rank until the last rank has come. Only collectives that end at no rank before they
began at all of them are waited for in this sense.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.trace import intervals
from dlcontainer.bench.trace.collective_spans import CollectiveSpan
from dlcontainer.bench.trace.intervals import Interval, Union
from dlcontainer.bench.trace.matched import JoinedCollective, NodeClock, TracedRank


@dataclass(frozen=True, kw_only=True, slots=True)
class Wait:
    """At a collective: until when a rank waited, and for whom."""

    begin: int
    until: int
    end: int
    of: int
    kind: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankActivities:
    """A rank's times by the common clock, ns; unions that share nothing with each other."""

    rank: int
    window: Interval
    computing: Union
    waiting: Mapping[int, Union]
    transfer: Union
    in_flight: Union
    waits: Sequence[Wait]

    def other(self) -> list[Interval]:
        """Return the rest: outside of operations, Python's own time and what it waits for."""
        busy = [*self.computing, *self.transfer]
        busy += [interval for union in self.waiting.values() for interval in union]
        return intervals.without([self.window], intervals.union(busy))


def on_clock(rank: TracedRank, clocks: Mapping[str, NodeClock]) -> TracedRank:
    """Return a rank with its times by the common clock."""
    move = clocks[rank.boot].moved_ns
    if not move:
        return rank
    profile = replace(
        rank.profile,
        collectives=[moved(span, move) for span in rank.profile.collectives],
        compute=[(begin + move, end + move) for begin, end in rank.profile.compute],
    )
    steps = {number: (begin + move, end + move) for number, (begin, end) in rank.steps.items()}
    return replace(rank, profile=profile, steps=steps)


def moved(span: CollectiveSpan, by: int) -> CollectiveSpan:
    """Return a span by another clock."""
    return replace(span, begin=span.begin + by, end=span.end + by)


def of(
    rank: TracedRank, joined: Sequence[JoinedCollective], more: Sequence[Wait] = ()
) -> RankActivities:
    """Return what a rank did in its traced steps; all times are by the common clock.

    `more` are waits that come from elsewhere than joined collectives.
    """
    window = rank.window
    computing = intervals.clipped(rank.profile.compute, *window)
    in_flight = intervals.clipped(
        intervals.union((span.begin, span.end) for span in rank.profile.collectives), *window
    )
    exposed = intervals.without(in_flight, computing)
    waits = sorted([*_waits(rank.rank, joined), *more], key=lambda wait: (wait.begin, wait.until))
    waiting, covered = dict[int, list[Interval]](), window[0]
    for wait in waits:
        alone = intervals.clipped(exposed, max(covered, wait.begin), wait.until)
        if alone:
            waiting.setdefault(wait.of, []).extend(alone)
        covered = max(covered, wait.until)
    waited = intervals.union(interval for times in waiting.values() for interval in times)
    return RankActivities(
        rank=rank.rank,
        window=window,
        computing=computing,
        waiting={of: intervals.union(times) for of, times in sorted(waiting.items())},
        transfer=intervals.without(exposed, waited),
        in_flight=in_flight,
        waits=waits,
    )


def _waits(rank: int, joined: Sequence[JoinedCollective]) -> list[Wait]:
    waits = []
    for collective in joined:
        span = collective.spans.get(rank)
        if span is None or not collective.is_synchronous:
            continue
        last = max(collective.spans, key=lambda number: collective.spans[number].begin)
        until = min(span.end, collective.spans[last].begin)
        if last != rank and until > span.begin:
            waits.append(
                Wait(begin=span.begin, until=until, end=span.end, of=last, kind=collective.kind)
            )
    return waits
