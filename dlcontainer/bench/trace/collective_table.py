"""Each kind and size of collective: its calls, and its time in flight, hidden, exposed. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.trace import intervals
from dlcontainer.bench.trace.collective_spans import CollectiveSpan
from dlcontainer.bench.trace.intervals import Union
from dlcontainer.bench.trace.matched import JoinedCollectives, TracedRank
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.trace_records import CollectiveRow

_S = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class _RankTimes:
    """What ranks computed, and when they waited; nothing of that where it is not known."""

    ranks: int
    activities: Mapping[int, RankActivities]
    waited: Mapping[int, Union]


def rows(
    ranks: Sequence[TracedRank],
    activities: Mapping[int, RankActivities],
    joined: JoinedCollectives,
) -> tuple[CollectiveRow, ...]:
    """Return a row for each kind and size, those that are most exposed first."""
    groups: dict[tuple[str, int | None], list[tuple[int, CollectiveSpan]]] = {}
    for rank in ranks:
        begin, end = rank.window
        for span in rank.profile.collectives:
            if begin <= span.begin < end:
                groups.setdefault((span.kind, span.bytes), []).append((rank.rank, span))
    waited = {
        rank: intervals.union(i for union in of.waiting.values() for i in union)
        for rank, of in activities.items()
    }
    times = _RankTimes(
        ranks=len(ranks), activities=activities, waited={} if joined.reason else waited
    )
    table = [_row(kind, size, spans, times) for (kind, size), spans in groups.items()]
    return tuple(sorted(table, key=lambda row: (-row.exposed_s, row.kind, row.bytes or 0)))


def _row(
    kind: str, size: int | None, spans: Sequence[tuple[int, CollectiveSpan]], times: _RankTimes
) -> CollectiveRow:
    in_flight = sum(span.end - span.begin for _, span in spans)
    hidden = sum(_shared(times.activities[rank].computing, span) for rank, span in spans)
    waited = times.waited
    waiting = sum(_shared(waited[rank], span) for rank, span in spans) if waited else None
    share = _S / times.ranks
    return CollectiveRow(
        kind=kind,
        bytes=size,
        calls=len(spans) / times.ranks,
        in_flight_s=in_flight * share,
        hidden_s=hidden * share,
        exposed_s=(in_flight - hidden) * share,
        waiting_s=None if waiting is None else waiting * share,
    )


def _shared(union: Union, span: CollectiveSpan) -> int:
    return intervals.length(intervals.clipped(union, span.begin, span.end))
