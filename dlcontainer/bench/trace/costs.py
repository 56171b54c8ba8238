"""What costs a side's time, longest first: each moment of a rank stands in at most one line. Pure.

A rank that waits for another one is named together with what that one did meanwhile; the same
moments of the late rank are in that line, and in no other. All are rank-seconds over the number of
ranks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.trace.trace_records import (
    MPI_STARTS,
    CollectiveRow,
    MpiCallRow,
    MpiWorld,
    SideTrace,
)
from dlcontainer.bench.trace.watch import looks
from dlcontainer.bench.trace.watch.watch_records import (
    Doing,
    JobWatch,
    RankDoing,
    TimeEstimate,
    WaitCause,
)

# What a rank does, and what ranks do.
_WORDS: Mapping[str, tuple[str, str]] = {
    "computing": ("computes", "compute"),
    "running": ("runs outside of operations", "run outside of operations"),
    "asleep": ("is asleep", "are asleep"),
    "poll": ("waits for events", "wait for events"),
    "futex": ("waits for a thread", "wait for a thread"),
    "child": ("waits for a child process", "wait for a child process"),
    "pipe": ("waits at a pipe", "wait at a pipe"),
    "socket": ("waits at a socket", "wait at a socket"),
    "read": ("reads", "read"),
    "write": ("writes", "write"),
    "sync": ("syncs", "sync"),
    "path": ("opens or stats files", "open or stat files"),
    "fault": ("waits for pages of mapped files", "wait for pages of mapped files"),
    "blocked": ("waits for a device", "wait for a device"),
    "waiting": ("waits in a call", "wait in a call"),
    "unknown": ("does what no look saw", "do what no look saw"),
}
_UNDER_WAY, _ALONE = " is under way", ", and nothing beside it"
_LEAST_SHARE = 0.001
_What = tuple[Doing | None, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class CostLine:
    """A cost in words, mean seconds of a rank with their bounds, and their share of all."""

    what: str
    seconds: float
    low_s: float
    high_s: float
    looks: int
    share: float


@dataclass(slots=True)
class _Cost:
    seconds: float = 0.0
    low: float = 0.0
    high: float = 0.0
    looks: int = 0

    def add(self, time: TimeEstimate, part: float = 1.0) -> None:
        """Add a part of a time; bounds of several are added, which is never too narrow."""
        self.seconds += time.seconds * part
        self.low += time.low_s * part
        self.high += time.high_s * part
        self.looks += round(time.looks * part)

    def add_measured(self, seconds: float) -> None:
        self.seconds += seconds
        self.low += seconds
        self.high += seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class RankParts:
    """A rank's time, as any kind of trace tells it; the parts are its total."""

    rank: int
    total_s: float
    computing_s: float
    waiting_for: Mapping[int, float]
    transfer_s: float
    other_s: float


def lines(side: SideTrace) -> tuple[CostLine, ...]:
    """Return what costs a side's time, longest first."""
    if not side.ranks:
        # Programs of MPI have lines of their own.
        if side.watch is None or (side.mpi is not None and side.mpi.worlds):
            return ()
        return _lines_of_programs(side.watch)
    times = [
        RankParts(
            rank=row.rank, total_s=row.total_s, computing_s=row.computing_s,
            waiting_for=row.waiting_for, transfer_s=row.exposed_s, other_s=row.other_s,
        )
        for row in side.ranks
    ]  # fmt: skip
    calls: dict[str, float] = {}
    alone = _ALONE if side.is_computing_known else ""
    for row in side.collectives:
        calls[f"{_sized(row)}{_UNDER_WAY}{alone}"] = max(
            0.0, row.exposed_s - (row.waiting_s or 0.0)
        )
    doings, causes = (side.watch.doings, side.watch.causes) if side.watch else ((), ())
    return of_ranks(times, calls, doings, causes)


def of_world(world: MpiWorld) -> tuple[CostLine, ...]:
    """Return what costs the time of a program of MPI, from the end of its MPI_Init on."""
    times = [
        RankParts(
            # Outside of MPI: that it computed there, looks alone tell.
            rank=row.rank, total_s=row.total_s, computing_s=0.0, other_s=row.computing_s,
            waiting_for=row.waiting_for, transfer_s=row.transfer_s,
        )
        for row in world.ranks
    ]  # fmt: skip
    calls: dict[str, float] = {}
    for row in world.calls:
        if row.kind not in MPI_STARTS:
            calls[f"{_sized(row)}{_UNDER_WAY}{_ALONE}"] = max(
                0.0, row.seconds - (row.waiting_s or 0.0)
            )
    return of_ranks(times, calls, world.doings, world.causes)


def _sized(row: CollectiveRow | MpiCallRow) -> str:
    return row.kind if row.bytes is None else f"{row.kind} of {row.bytes:,} bytes"


def of_ranks(
    times: Sequence[RankParts],
    calls: Mapping[str, float],
    doings: Sequence[RankDoing],
    causes: Sequence[WaitCause],
) -> tuple[CostLine, ...]:
    """Return what costs the time of ranks; `calls` are weights of what transfers went to."""
    costs = [*_waits(times, doings, causes), *_own(times, doings, causes)]
    # Collectives may go on at once: what they share of the ranks' time is split among them.
    transfer, weights = sum(row.transfer_s for row in times), sum(calls.values())
    for name, weight in calls.items():
        cost = _Cost()
        cost.add_measured(transfer * weight / (weights or 1.0))
        costs.append((name, cost))
    return _table(costs, sum(row.total_s for row in times), len(times))


def _lines_of_programs(watch: JobWatch) -> tuple[CostLine, ...]:
    ranks = {row.rank for row in watch.processes}
    return _table(list(_of_programs(watch)), watch.seconds * len(ranks), len(ranks))


def _table(costs: Sequence[tuple[str, "_Cost"]], total: float, ranks: int) -> tuple[CostLine, ...]:
    table = [
        CostLine(
            what=what,
            seconds=cost.seconds / ranks,
            low_s=cost.low / ranks,
            high_s=cost.high / ranks,
            looks=cost.looks,
            share=cost.seconds / total,
        )
        for what, cost in costs
        if total and cost.seconds >= _LEAST_SHARE * total
    ]
    return tuple(sorted(table, key=lambda line: (-line.seconds, line.what)))


def _waits(
    times: Sequence[RankParts], doings: Sequence[RankDoing], causes: Sequence[WaitCause]
) -> Iterator[tuple[str, _Cost]]:
    """Yield the waits for each rank by what it did, with its own time meanwhile."""
    groups: dict[tuple[int, _What], _Cost] = {}
    waiting: dict[tuple[int, _What], set[int]] = {}
    explained: dict[tuple[int, int], float] = {}
    for cause in causes:
        key = (cause.of, (cause.doing, cause.file_system))
        groups.setdefault(key, _Cost()).add(cause.time)
        waiting.setdefault(key, set()).add(cause.rank)
        pair = (cause.rank, cause.of)
        explained[pair] = explained.get(pair, 0.0) + cause.time.seconds
    for doing in doings:
        cost = groups.get((doing.rank, (doing.doing, doing.file_system)))
        if cost is not None and doing.time.seconds:
            cost.add(doing.time, doing.waited_s / doing.time.seconds)
    for row in times:
        for late, seconds in row.waiting_for.items():
            rest = seconds - explained.get((row.rank, late), 0.0)
            if rest > 0:
                untold: tuple[int, _What] = (late, (None, None))
                groups.setdefault(untold, _Cost()).add_measured(rest)
                waiting.setdefault(untold, set()).add(row.rank)
    for (late, what), cost in groups.items():
        ranks = sorted(waiting[late, what])
        verb = "waits" if len(ranks) == 1 else "wait"
        doing_words = "" if what[0] is None else f", which {_does(what, 1)}"
        yield f"{_ranks(ranks)} {verb} for rank {late}{doing_words}", cost


def _own(
    times: Sequence[RankParts], doings: Sequence[RankDoing], causes: Sequence[WaitCause]
) -> Iterator[tuple[str, _Cost]]:
    """Yield what ranks did while nobody waited for them."""
    groups: dict[_What, _Cost] = {}
    of_ranks: dict[_What, list[int]] = {}
    explained: dict[int, float] = {}
    caused = {(cause.of, cause.doing, cause.file_system) for cause in causes}
    for doing in doings:
        is_caused = (doing.rank, doing.doing, doing.file_system) in caused
        part = doing.waited_s if is_caused else 0.0
        explained[doing.rank] = explained.get(doing.rank, 0.0) + doing.time.seconds
        if doing.time.seconds > part:
            key: _What = (doing.doing, doing.file_system)
            groups.setdefault(key, _Cost()).add(doing.time, 1 - part / doing.time.seconds)
            of_ranks.setdefault(key, []).append(doing.rank)
    for row in times:
        rest = row.computing_s + row.other_s - explained.get(row.rank, 0.0)
        parts: list[tuple[_What, float]] = [((None, None), rest)]
        if row.rank not in explained:
            parts = [(("computing", None), row.computing_s), ((None, None), row.other_s)]
        for key, seconds in parts:
            if seconds > 0:
                groups.setdefault(key, _Cost()).add_measured(seconds)
                of_ranks.setdefault(key, []).append(row.rank)
    for what, cost in groups.items():
        ranks = sorted(of_ranks[what])
        who = "all ranks" if 1 < len(ranks) == len(times) else _ranks(ranks)
        yield f"{who} {_does(what, len(ranks))}", cost


def _of_programs(watch: JobWatch) -> Iterator[tuple[str, _Cost]]:
    """Yield what the program of each rank did, where no rank has a profile.

    Of a rank's processes it is the one of most looks that does not only wait for its child.
    """
    groups: dict[str, _Cost] = {}
    for rank in sorted({row.rank for row in watch.processes}):
        rows = [row for row in watch.processes if row.rank == rank and row.many == 1]
        if not rows:
            continue
        row = max(
            rows, key=lambda row: sum(part.looks for part in row.doing if part.doing != "child")
        )
        of = sum(part.looks for part in row.doing)
        for part in row.doing:
            what = f"the program {row.name} {_does((part.doing, part.file_system), 1)}"
            cost = groups.setdefault(what, _Cost())
            cost.add(looks.estimate(part.looks, of, row.seconds))
    yield from groups.items()


def _does(what: _What, ranks: int) -> str:
    doing, system = what
    words = _WORDS[doing or "unknown"][ranks > 1]
    if system is None:
        return words if doing not in ("read", "write", "sync") else f"{words} (file not told)"
    if doing in ("read", "write"):
        return f"{words} {system}"
    if doing in ("sync", "path"):
        return f"{words} of {system}"
    return f"{words}, beside which another thread or a child reads {system}"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
