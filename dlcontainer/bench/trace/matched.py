"""The collectives of a step, joined over the ranks that took part, and the clocks of nodes. Pure.

A collective is told by its kind, its bytes and its turn within a step. gloo's spans don't name
their process group: where a program has several, its collectives can't be joined.

Clocks: an all-reduce and its like ends at no rank before all ranks have begun it. So of each node's
clock an interval is known, which is as narrow as the shortest of them; no exchange is needed, and
the program waits for none. A clock that is outside of it is moved to the nearest end.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.trace.collective_spans import SYNCHRONOUS, CollectiveSpan
from dlcontainer.bench.trace.intervals import Interval
from dlcontainer.bench.trace.rank_profile import RankProfile


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedRank:
    """A rank with a profile: its node's name and boot, its steps by number, ns of its own clock."""

    rank: int
    node: str
    boot: str
    profile: RankProfile
    steps: Mapping[int, Interval]

    @property
    def window(self) -> Interval:
        """From the begin of its first traced step to the end of the last."""
        return min(self.steps.values())[0], max(end for _, end in self.steps.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedCollective:
    """One collective at the ranks that took part."""

    step: int
    kind: str
    bytes: int | None
    spans: Mapping[int, CollectiveSpan]

    @property
    def is_synchronous(self) -> bool:
        """Whether it ends at no rank before it began at all of them."""
        return self.kind in SYNCHRONOUS


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeClock:
    """By how much a node's clock is moved, ns, and within what it is right; None: not known."""

    node: str
    moved_ns: int
    bound_ns: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JoinedCollectives:
    """What was joined, how many spans could not be, and why none of them was."""

    collectives: Sequence[JoinedCollective]
    apart: int
    reason: str = ""


def join(ranks: Sequence[TracedRank]) -> JoinedCollectives:
    """Join the collectives of all ranks, step by step."""
    total = sum(len(rank.profile.collectives) for rank in ranks)
    reason = _reason(ranks)
    if reason:
        return JoinedCollectives(collectives=(), apart=total, reason=reason)
    joined = tuple(
        collective
        for step in sorted(set.intersection(*(set(rank.steps) for rank in ranks)))
        for collective in _of_step(step, ranks)
    )
    apart = total - sum(len(collective.spans) for collective in joined)
    return JoinedCollectives(collectives=joined, apart=apart)


def _reason(ranks: Sequence[TracedRank]) -> str:
    if len(ranks) < 2:
        return "there is one rank"
    named = all(span.group is not None for rank in ranks for span in rank.profile.collectives)
    if named:
        return ""
    groups = {rank.profile.groups for rank in ranks}
    if groups == {1}:
        return ""
    if None in groups:
        return "PyTorch does not say how many process groups there are"
    return "the program has several process groups, and the spans don't name theirs"


def _of_step(step: int, ranks: Sequence[TracedRank]) -> Iterator[JoinedCollective]:
    turns: dict[tuple[str, int | None, str | None, int], dict[int, CollectiveSpan]] = {}
    for rank in ranks:
        begin, end = rank.steps[step]
        turn: Counter[tuple[str, int | None, str | None]] = Counter()
        for span in rank.profile.collectives:
            if begin <= span.begin < end:
                key = (span.kind, span.bytes, span.group)
                turns.setdefault((*key, turn[key]), {})[rank.rank] = span
                turn[key] += 1
    for (kind, size, group, _), spans in turns.items():
        if len(spans) == len(ranks) or (group is not None and len(spans) > 1):
            yield JoinedCollective(step=step, kind=kind, bytes=size, spans=spans)


def clocks(ranks: Sequence[TracedRank], joined: JoinedCollectives) -> dict[str, NodeClock]:
    """Return how the clock of each boot is moved to that of the first rank's."""
    first = ranks[0]
    moves = {first.boot: NodeClock(node=first.node, moved_ns=0, bound_ns=0)}
    boots = {rank.rank: rank.boot for rank in ranks}
    for rank in ranks:
        if rank.boot not in moves:
            moves[rank.boot] = _clock(rank, boots, first.boot, joined)
    return moves


def _clock(
    rank: TracedRank, boots: Mapping[int, str], reference: str, joined: JoinedCollectives
) -> NodeClock:
    """Bound how far a boot's clock is ahead of the reference."""
    least: list[int] = []
    most: list[int] = []
    for collective in joined.collectives:
        if not collective.is_synchronous:
            continue
        local = [span for of, span in collective.spans.items() if boots[of] == rank.boot]
        remote = [span for of, span in collective.spans.items() if boots[of] == reference]
        if local and remote:
            least.append(max(s.begin for s in local) - min(s.end for s in remote))
            most.append(min(s.end for s in local) - max(s.begin for s in remote))
    if not least:
        return NodeClock(node=rank.node, moved_ns=0, bound_ns=None)
    low, high = max(least), min(most)
    ahead = min(max(0, low), high) if low <= high else (low + high) // 2
    bound = max(abs(high - ahead), abs(ahead - low))
    return NodeClock(node=rank.node, moved_ns=-ahead, bound_ns=bound)
