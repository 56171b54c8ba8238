"""A trace as a section of a report: what waits for whom, a figure and tables for each side."""

import shlex
from collections.abc import Iterator

from dlcontainer.bench.report.figures import timeline
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections.exhibit import Exhibit, plate
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.trace import costs, trace_text
from dlcontainer.bench.trace.mpi_calls import mpi_text
from dlcontainer.bench.trace.trace_records import JobTrace, MpiWorld, SideTrace, SlowestStep
from dlcontainer.bench.trace.watch import watch_text

_MOST_COMMAND = 120
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


def exhibit(finding: InputFinding, trace: JobTrace) -> Exhibit:
    """Return the section of a trace."""
    return Exhibit(
        anchor=f"trace-{finding.sha256[:8]}",
        title="What waits for whom",
        headline="; ".join(map(trace_text.longest_wait, trace.sides)),
        words=_words(trace),
        plates=tuple(
            _plate(finding, side.side, side.slowest) for side in trace.sides if side.slowest
        ),
        tables=tuple(
            table
            for number, side in enumerate(trace.sides)
            for table in _tables(side, "" if number else finding.anchor)
        ),
        lines=tuple(
            f"{side.side}, critical path: {trace_text.path(side.slowest)}"
            for side in trace.sides
            if side.slowest
        ),
        open_plates=len(trace.sides),
    )


def _words(trace: JobTrace) -> str:
    command = shlex.join(trace.command)
    if len(command) > _MOST_COMMAND:
        command = f"{command[:_MOST_COMMAND]} …"
    parts = [f'Traced: the command "{command}" at site {trace.site}.']
    for side in trace.sides:
        parts.append(_sentence(trace_text.headline(side)))
        first = trace_text.cost_lines(side)[:1]
        parts += [f"Most time, {side.side}: {cost[3:]}." for cost in first]
        if side.ended != "ended":
            parts.append(f"The {side.side} job failed: {side.ended}.")
        notes = list(trace_text.notes(side))
        if side.slowest is not None:
            notes = [f"critical path, {trace_text.path(side.slowest)}", *notes]
        for world in trace_text.worlds(side):
            notes += [mpi_text.longest_wait(world), *mpi_text.notes(world)]
        parts.append(_sentence("; ".join(notes)))
    if len(trace.sides) > 1:
        parts.append(
            "One trace of each side shows where time goes, and is no verdict: that takes pairs, "
            "by bench job."
        )
    return " ".join(parts)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _plate(finding: InputFinding, side: str, slowest: SlowestStep) -> Plate:
    return plate(
        finding,
        f"The slowest step, {side}",
        timeline.figure(side, slowest),
        f"Step {slowest.step}, by the clock of the first rank's node; what is left white is "
        "outside of operations.",
    )


def _tables(side: SideTrace, anchor: str) -> Iterator[Table]:
    yield Table(
        name=f"What costs the time, {side.side}",
        head=watch_text.COSTS_HEAD,
        rows=tuple(watch_text.cost_rows(costs.lines(side))),
        note="Means of the ranks; a moment of a rank is in one line at most.",
        anchor=anchor,
    )
    if side.slowest is not None:
        yield from _step_tables(side)
    for world in trace_text.worlds(side):
        yield from _world_tables(side, world)
    yield from _watched(side)


def _world_tables(side: SideTrace, world: MpiWorld) -> tuple[Table, Table]:
    name = f"{mpi_text.headline(world)}, {side.side}"
    return (
        Table(
            name=name,
            head=mpi_text.RANKS_HEAD,
            rows=tuple(mpi_text.rank_rows(world.ranks)),
            note="From the end of MPI_Init on; computing is outside of MPI.",
        ),
        Table(
            name=f"Its calls, {name}",
            head=mpi_text.CALLS_HEAD,
            rows=tuple(mpi_text.call_rows(world.calls)),
            note="Over all ranks; those that took longest.",
        ),
    )


def _step_tables(side: SideTrace) -> tuple[Table, Table]:
    return (
        Table(
            name=f"Ranks, {side.side}",
            head=trace_text.RANKS_HEAD,
            rows=tuple(trace_text.rank_rows(side.ranks)),
            note="The parts of a rank are its total.",
        ),
        Table(
            name=f"Collectives, {side.side}",
            head=trace_text.COLLECTIVES_HEAD,
            rows=tuple(trace_text.collective_rows(side.collectives)),
            note="Means over the ranks; those of the traced steps.",
        ),
    )


def _watched(side: SideTrace) -> Iterator[Table]:
    if side.watch is None:
        return
    tables = watch_text.tables(side.watch, _MOST_ROWS)
    notes = (_FILES_NOTE, _PROCESSES_NOTE)
    for (head, rows), name, note in zip(tables, _WATCHED, notes, strict=True):
        yield Table(name=f"{name}, {side.side}", head=head, rows=tuple(rows), note=note)
