"""The tables of a trace: costs, ranks, collectives, programs of MPI, processes, file systems."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlcontainer.bench.report.table import Table
from dlcontainer.bench.trace import costs, trace_text
from dlcontainer.bench.trace.costs import CostLine
from dlcontainer.bench.trace.mpi_calls import mpi_text
from dlcontainer.bench.trace.trace_records import MpiWorld, SideTrace
from dlcontainer.bench.trace.watch import watch_text

_MOST_ROWS = 100
_WATCHED = ("File systems", "Processes")
_FILES_NOTE = (
    "Of the whole job. Bytes by positions of open files: lower bounds. Waiting: at least one "
    "thread was in such a call, with the 95 % interval by looks."
)
_PROCESSES_NOTE = (
    "Of the whole job. Processor time of a process is its own; bytes are those of calls, with its "
    "ended children's. What the first thread did is by looks."
)


def tables(side: SideTrace, anchor: str) -> Iterator[Table]:
    """Yield the tables of a side, what costs the time first; the first one has the anchor."""
    for number, table in enumerate(_tables(side)):
        yield table if number else replace(table, anchor=anchor)


def _tables(side: SideTrace) -> Iterator[Table]:
    if lines := costs.lines(side):
        yield _costs(side.side, lines)
    if side.slowest is not None:
        yield from _step_tables(side)
    for world in trace_text.worlds(side):
        yield from _world_tables(side, world)
    yield from _watched(side)


def _costs(whose: str, lines: Sequence[CostLine]) -> Table:
    return Table(
        name=f"What costs the time, {whose}",
        head=watch_text.COSTS_HEAD,
        rows=tuple(watch_text.cost_rows(lines)),
        note="Means of the ranks; a moment of a rank is in one line at most.",
    )


def _world_tables(side: SideTrace, world: MpiWorld) -> Iterator[Table]:
    name = f"{mpi_text.headline(world)}, {side.side}"
    yield _costs(name, costs.of_world(world))
    yield Table(
        name=name,
        head=mpi_text.RANKS_HEAD,
        rows=tuple(mpi_text.rank_rows(world.ranks)),
        note="From the end of MPI_Init on; outside of MPI it computes, reads, sleeps.",
    )
    yield Table(
        name=f"Its calls, {name}",
        head=mpi_text.CALLS_HEAD,
        rows=tuple(mpi_text.call_rows(world.calls)),
        note="Over all ranks; those that took longest.",
    )


def _step_tables(side: SideTrace) -> Iterator[Table]:
    ranks, calls = trace_text.ranks(side), trace_text.collectives(side)
    is_known = side.is_computing_known
    parts = "computing, waiting, communication and other are the step"
    yield Table(
        name=f"Ranks, {side.side}",
        head=ranks.head,
        rows=ranks.rows,
        note=f"Means over the traced steps; {parts if is_known else trace_text.MOST_WORDS}.",
    )
    if side.collectives:
        parts = "; hidden and exposed are the time in flight" if is_known else ""
        yield Table(
            name=f"Collectives, {side.side}",
            head=calls.head,
            rows=calls.rows,
            note=f"Means over the ranks and the traced steps{parts}.",
        )


def _watched(side: SideTrace) -> Iterator[Table]:
    if side.watch is None:
        return
    tables = watch_text.tables(side.watch, _MOST_ROWS)
    notes = (_FILES_NOTE, _PROCESSES_NOTE)
    for (head, rows), name, note in zip(tables, _WATCHED, notes, strict=True):
        yield Table(name=f"{name}, {side.side}", head=head, rows=tuple(rows), note=note)
