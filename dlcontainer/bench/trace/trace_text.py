"""A trace in words and rows, for a terminal and for a page. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace import costs, overhead
from dlcontainer.bench.trace.mpi_calls import mpi_text
from dlcontainer.bench.trace.trace_records import (
    MpiWorld,
    RankRow,
    SideTrace,
)
from dlcontainer.bench.trace.wait_words import ms, whom
from dlcontainer.bench.trace.watch import watch_text

_COLLECTIVES_HEAD = (
    "collective", "bytes of a rank", "calls a step", "in flight, ms", "hidden, ms", "exposed, ms",
    "of it waiting, ms",
)  # fmt: skip
_RANKS_HEAD = (
    "rank", "node", "step, ms", "computing, ms", "waiting, ms", "for whom", "communication, ms",
    "other, ms",
)  # fmt: skip
# Where it is not known when a rank computed, these are left out, and other is called so.
_BY_COMPUTING = ("computing, ms", "hidden, ms", "exposed, ms")
_OUTSIDE = "outside of collectives"
MOST_WORDS = (
    "operations were not recorded: waiting and communication are at most that, for what ranks "
    "compute beside a collective is not told"
)
_LEAST_SHARE = 0.01


def headline(side: SideTrace) -> str:
    """Say whose trace this is, and first of all what tracing cost."""
    if not side.ranks:
        of_mpi = "; ".join(map(mpi_text.headline, worlds(side)))
        rest = f": {of_mpi}" if of_mpi else ", and no calls of MPI"
        return f"{side.side}, no steps of PyTorch{rest}"
    ranks = counted(len(side.ranks), "rank")
    if side.missing:
        ranks = f"{ranks} of {len(side.ranks) + len(side.missing)}"
    return f"{side.side}, {side.steps} steps of {ranks}: {overhead.words(side.overhead)}"


def worlds(side: SideTrace) -> Sequence[MpiWorld]:
    """Return the worlds of MPI of a side."""
    return side.mpi.worlds if side.mpi else ()


def in_short(side: SideTrace) -> str:
    """Say what a step is made of, or where nothing trained who waits in MPI."""
    if side.ranks:
        return shares(side)
    return f"{side.side}: {longest_wait(side)}"


def shares(side: SideTrace) -> str:
    """Say how long a step takes, and what of it ranks compute, wait and communicate."""
    rows = [row for row in side.ranks if row.total_s]
    parts = {
        "computing": [row.computing_s / row.total_s for row in rows],
        "waiting": [sum(row.waiting_for.values()) / row.total_s for row in rows],
        "communication": [row.exposed_s / row.total_s for row in rows],
        "other": [row.other_s / row.total_s for row in rows],
    }
    if not rows:
        return f"{side.side}: the traced steps have no length"
    step = fmean(row.total_s for row in rows) / max(side.steps, 1)
    if not side.is_computing_known:
        parts = {name: parts[name] for name in ("waiting", "communication")}
        parts[_OUTSIDE] = [row.other_s / row.total_s for row in rows]
    words = ", ".join(f"{100 * fmean(part):.0f} % {name}" for name, part in parts.items())
    return f"{side.side}: {ms(step)} ms a step, {words}"


def longest_wait(side: SideTrace) -> str:
    """Say which rank waited longest, and for which one; nothing of less than a hundredth."""
    if not side.ranks:
        return "; ".join(map(mpi_text.longest_wait, worlds(side))) or "processes alone"
    waits = [
        (seconds / row.total_s, row, rank)
        for row in side.ranks
        for rank, seconds in row.waiting_for.items()
        if row.total_s
    ]
    share, row, rank = max(waits, key=lambda wait: wait[0], default=(0.0, None, None))
    if row is None or share < _LEAST_SHARE:
        return "no rank is known to wait for another" if len(side.ranks) > 1 else "one rank"
    return f"rank {row.rank} waits longest: {100 * share:.0f} %, for rank {rank}"


def cost_lines(side: SideTrace) -> list[str]:
    """Say what costs a side's time, longest first."""
    return _numbered(costs.lines(side))


def world_cost_lines(world: MpiWorld) -> list[str]:
    """Say what costs the time of a program of MPI, longest first."""
    return _numbered(costs.of_world(world))


def _numbered(lines: Sequence[costs.CostLine]) -> list[str]:
    return [
        f"{number}. {cost.what}: {watch_text.cost(cost)}"
        for number, cost in enumerate(lines, start=1)
    ]


def notes(side: SideTrace) -> Iterator[str]:
    """Yield what a reader must know of a trace: what is missing, left out, or uncertain."""
    for rank in side.missing:
        yield f"rank {rank.rank} is missing: {rank.why}"
    yield from side.notes
    yield from _recorded(side)
    for clock in side.clocks:
        if clock.bound_s is None:
            yield f"the clock of {clock.node} can't be joined: nothing tells how far it is off"
        elif clock.bound_s:
            yield (
                f"the clock of {clock.node} was moved by {ms(clock.moved_s, sign=True)} ms, "
                f"and is right within {ms(clock.bound_s)} ms"
            )
    for row in side.ranks:
        yield from _row_notes(row)
    if side.ranks:
        slowest_write = max(row.write_s for row in side.ranks)
        yield f"between the blocks ranks wrote their files, for up to {slowest_write:.2f} s"
    if side.mpi is not None:
        yield from side.mpi.reasons
    if side.watch is not None:
        yield from watch_text.notes(side.watch)


def _recorded(side: SideTrace) -> Iterator[str]:
    if not side.is_computing_known:
        yield MOST_WORDS
    elif overhead.is_above(side.overhead):
        yield "most of it is PyTorch's operations: trace collectives alone, with --no-operations"


def _row_notes(row: RankRow) -> Iterator[str]:
    if row.left_out:
        yield f"rank {row.rank}: {row.left_out} collectives were left out, beyond a million"
    if row.archived_not:
        yield (
            f"rank {row.rank}: OTF2 has {row.archived:,} spans, and not {row.archived_not:,} "
            "operations beyond them; they are in the Kineto file"
        )
    if row.coarse_s:
        yield f"rank {row.rank}: gaps of computing up to {ms(row.coarse_s)} ms were closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextTable:
    """A table in words: its head, and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def _known(side: SideTrace, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> TextTable:
    """Return a table without the columns that take computing, where that is not known."""
    shown = [
        place
        for place, name in enumerate(head)
        if side.is_computing_known or name not in _BY_COMPUTING
    ]
    if not side.is_computing_known:
        head = tuple(name.replace("other", _OUTSIDE) for name in head)
    return TextTable(
        head=tuple(head[place] for place in shown),
        rows=tuple(tuple(row[place] for place in shown) for row in rows),
    )


def collectives(side: SideTrace) -> TextTable:
    """Return a row for each kind and size of collective, means over the ranks and steps."""
    steps = max(side.steps, 1)
    rows = (
        (
            row.kind,
            "not told" if row.bytes is None else f"{row.bytes:,}",
            f"{row.calls / steps:.3g}",
            ms(row.in_flight_s / steps),
            ms(row.hidden_s / steps),
            ms(row.exposed_s / steps),
            "not told" if row.waiting_s is None else ms(row.waiting_s / steps),
        )
        for row in side.collectives
    )
    return _known(side, _COLLECTIVES_HEAD, rows)


def ranks(side: SideTrace) -> TextTable:
    """Return a row for each rank, means over the steps: the parts are the step."""
    steps = max(side.steps, 1)
    rows = (
        (
            str(row.rank),
            row.node,
            ms(row.total_s / steps),
            ms(row.computing_s / steps),
            ms(sum(row.waiting_for.values()) / steps),
            whom(row.waiting_for, steps),
            ms(row.exposed_s / steps),
            ms(row.other_s / steps),
        )
        for row in side.ranks
    )
    return _known(side, _RANKS_HEAD, rows)
