"""Calls of MPI joined over the ranks of a world: who waits for whom. Pure.

Collectives are told by their communicator and their turn on it, messages by source, destination,
tag, communicator and the order in which they were posted, which no message overtakes. A rank waits
in a call until the last one began that the call can't end without: in an all-reduce and its like
any rank, in a broadcast the root, at the root of a reduction any rank, in a receive the sender, in
a send that is held up the receiver.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlcontainer.bench.trace.collective_spans import CollectiveSpan
from dlcontainer.bench.trace.matched import JoinedCollective, JoinedCollectives
from dlcontainer.bench.trace.mpi_calls.call_file import CallRecord, Content, MpiProcess
from dlcontainer.bench.trace.mpi_calls.call_worlds import CallWorld
from dlcontainer.bench.trace.rank_activities import Wait

# By the names that all traces have for them.
_TOGETHER: Mapping[str, str] = {
    "MPI_Barrier": "barrier",
    "MPI_Allreduce": "all_reduce",
    "MPI_Reduce_scatter_block": "reduce_scatter",
    "MPI_Allgather": "all_gather",
    "MPI_Alltoall": "all_to_all",
}
# As those, but for ranks that put nothing in: no clock is told by them.
_UNEVEN = frozenset(
    {"MPI_Allgatherv", "MPI_Alltoallv", "MPI_Reduce_scatter", "MPI_Comm_dup", "MPI_Comm_split"}
)
_STARTED: Mapping[str, str] = {
    "MPI_Ibarrier": "MPI_Barrier",
    "MPI_Iallreduce": "MPI_Allreduce",
    "MPI_Iallgather": "MPI_Allgather",
    "MPI_Ialltoall": "MPI_Alltoall",
    "MPI_Ibcast": "MPI_Bcast",
    "MPI_Ireduce": "MPI_Reduce",
}
_FROM_ROOT = frozenset({"MPI_Bcast", "MPI_Scatter", "MPI_Scatterv"})
_TO_ROOT = frozenset({"MPI_Reduce", "MPI_Gather", "MPI_Gatherv"})
SENDS = frozenset(
    {"MPI_Send", "MPI_Bsend", "MPI_Ssend", "MPI_Rsend", "MPI_Isend", "MPI_Ibsend", "MPI_Issend"}
    | {"MPI_Irsend", "MPI_Sendrecv", "MPI_Sendrecv_replace", "MPI_Send_init", "MPI_Ssend_init"}
)
_BUFFERED = frozenset({"MPI_Bsend", "MPI_Ibsend"})
_MessageKey = tuple[int, int, int, tuple[int, int]]


@dataclass(kw_only=True, slots=True)
class JoinedCalls:
    """Collectives by which clocks are told, all waits by rank, and what has no counterpart."""

    collectives: list[JoinedCollective] = field(default_factory=list)
    waits: dict[int, list[Wait]] = field(default_factory=dict)
    apart: int = 0

    def of_clocks(self) -> JoinedCollectives:
        """Return the collectives that end at no rank before all have begun them."""
        return JoinedCollectives(collectives=self.collectives, apart=self.apart)

    def wait(self, rank: int, span: CallRecord, until: int, of: int, kind: str) -> None:
        """Take down that a rank waits in a call until a moment; nothing where it is over before."""
        last = min(span.end, until)
        if last > span.begin and of != rank:
            self.waits.setdefault(rank, []).append(
                Wait(begin=span.begin, until=last, end=span.end, of=of, kind=kind)
            )


def join(world: CallWorld) -> JoinedCalls:
    """Join the calls of a world."""
    joined = JoinedCalls()
    if world.reason:
        return joined
    _collectives(world.processes, joined)
    _messages(world.processes, joined)
    return joined


# Collectives


@dataclass(slots=True)
class _CollectiveTurn:
    """One collective: its calls, where the ranks awaited those that were only started, its size."""

    calls: dict[int, tuple[str, CallRecord]] = field(default_factory=dict)
    awaited: dict[int, CallRecord] = field(default_factory=dict)
    size: int = 0


def _collectives(processes: Mapping[int, MpiProcess], joined: JoinedCalls) -> None:
    turns: dict[tuple[tuple[int, int], int], _CollectiveTurn] = {}
    for rank, process in processes.items():
        for record in process.records:
            group = process.group(record)
            if not record.turn or group is None or group.is_inter or group.size < 2:
                continue
            turn = turns.setdefault((group.key, record.turn), _CollectiveTurn(size=group.size))
            if record.what == Content.CALL:
                turn.calls[rank] = (process.kind(record), record)
            elif record.what == Content.COLLECTED:
                turn.awaited[rank] = record
    for turn in turns.values():
        kinds = {kind for kind, _ in turn.calls.values()}
        if len(turn.calls) == turn.size and len(kinds) == 1:
            _of_turn(kinds.pop(), turn, joined)
        else:
            joined.apart += len(turn.calls)


def _of_turn(kind: str, turn: _CollectiveTurn, joined: JoinedCalls) -> None:
    calls = {rank: record for rank, (_, record) in turn.calls.items()}
    spans = turn.awaited if kind in _STARTED else calls
    blocking = _STARTED.get(kind, kind)
    begins = {rank: record.begin for rank, record in calls.items()}
    late = max(begins, key=lambda rank: begins[rank])
    root = next(iter(calls.values())).peer
    if blocking in _TOGETHER or blocking in _UNEVEN:
        for rank, span in spans.items():
            joined.wait(rank, span, begins[late], late, kind)
    elif blocking in _FROM_ROOT and root in begins:
        for rank, span in spans.items():
            joined.wait(rank, span, begins[root], root, kind)
    elif blocking in _TO_ROOT and root in spans:
        joined.wait(root, spans[root], begins[late], late, kind)
    full = blocking == "MPI_Barrier" or all(record.sent for record in calls.values())
    if kind in _TOGETHER and full:
        joined.collectives.append(_collective(_TOGETHER[kind], calls))


def _collective(kind: str, calls: Mapping[int, CallRecord]) -> JoinedCollective:
    size = max(record.sent for record in calls.values())
    return JoinedCollective(
        step=0, kind=kind, bytes=size, spans={rank: span(kind, of) for rank, of in calls.items()}
    )


def span(kind: str, record: CallRecord) -> CollectiveSpan:
    """Return a call as the span of communication that it is."""
    return CollectiveSpan(
        kind=kind,
        bytes=record.sent,
        begin=record.begin,
        end=record.end,
        group=None,
        is_on_device=False,
    )


# Messages


@dataclass(frozen=True, slots=True)
class _Half:
    """One side of a message: when it was posted, and the call in which the rank may wait for it."""

    post: int
    posted: int
    bytes: int
    kind: str
    within: CallRecord | None


def _messages(processes: Mapping[int, MpiProcess], joined: JoinedCalls) -> None:
    sends: dict[_MessageKey, list[_Half]] = {}
    receives: dict[_MessageKey, list[_Half]] = {}
    for rank, process in processes.items():
        ends = {record.post: record for record in process.records if record.what == Content.SENT}
        posts = {record.post: record.begin for record in process.records if _is_post(record)}
        for record in process.records:
            group, kind = process.group(record), process.kind(record)
            if record.peer < 0 or not record.post or group is None:
                continue
            if _is_post(record) and kind in SENDS:
                half = _sent(record, kind, ends)
                sends.setdefault((rank, record.peer, record.tag, group.key), []).append(half)
            elif record.what == Content.RECEIVED or kind == "MPI_Recv":
                posted = posts.get(record.post, record.begin)
                half = _Half(record.post, posted, record.got, kind, record)
                receives.setdefault((record.peer, rank, record.tag, group.key), []).append(half)
    whole = {rank for rank, process in processes.items() if process.end and not process.left_out}
    for key in {**sends, **receives}:
        _of_key(key, sends.get(key, []), receives.get(key, []), whole, joined)


def _is_post(record: CallRecord) -> bool:
    return record.what in (Content.CALL, Content.POSTED)


def _sent(record: CallRecord, kind: str, ends: Mapping[int, CallRecord]) -> _Half:
    is_blocking = record.what == Content.CALL and not kind.startswith("MPI_I")
    within = record if is_blocking else ends.get(record.post)
    buffered = kind in _BUFFERED
    return _Half(record.post, record.begin, record.sent, kind, None if buffered else within)


def _of_key(
    key: _MessageKey,
    sends: list[_Half],
    receives: list[_Half],
    whole: set[int],
    joined: JoinedCalls,
) -> None:
    """Join the messages of one source, destination, tag and communicator, in their order."""
    source, destination = key[:2]
    sends.sort(key=lambda half: half.post)
    receives.sort(key=lambda half: half.post)
    pairs = list(zip(sends, receives, strict=False))
    unequal = len(sends) != len(receives) and {source, destination} <= whole
    if unequal or any(sent.bytes != got.bytes for sent, got in pairs):
        # A side has messages that were not seen: none can be told from another.
        joined.apart += len(sends) + len(receives)
        return
    joined.apart += len(sends) + len(receives) - 2 * len(pairs)
    for sent, got in pairs:
        if got.within is not None:
            joined.wait(destination, got.within, sent.posted, source, got.kind)
        if sent.within is not None and got.posted > sent.within.begin:
            _held_up(source, destination, sent, got, joined)


def _held_up(source: int, destination: int, sent: _Half, got: _Half, joined: JoinedCalls) -> None:
    """Take down a send that did not end before its receive was posted."""
    if sent.within is not None and sent.within.end > got.posted:
        joined.wait(source, sent.within, got.posted, destination, sent.kind)
