"""A trace as a section of a report: what waits for whom, a figure and tables for each side."""

import shlex
from collections.abc import Iterator

from dlcontainer.bench.report.figures import timeline
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections.exhibit import Exhibit, plate
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.trace import costs, trace_text
from dlcontainer.bench.trace.trace_records import JobTrace, SideTrace
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
        plates=tuple(_plate(finding, side) for side in trace.sides),
        tables=tuple(
            table
            for number, side in enumerate(trace.sides)
            for table in _tables(side, "" if number else finding.anchor)
        ),
        lines=tuple(f"{side.side}, critical path: {_path(side)}" for side in trace.sides),
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
        notes = "; ".join(trace_text.notes(side))
        parts.append(f"Critical path, {_path(side)}; {notes}.")
    if len(trace.sides) > 1:
        parts.append(
            "One trace of each side shows where time goes, and is no verdict: that takes pairs, "
            "by bench job."
        )
    return " ".join(parts)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _path(side: SideTrace) -> str:
    return trace_text.path(side.slowest)


def _plate(finding: InputFinding, side: SideTrace) -> Plate:
    return plate(
        finding,
        f"The slowest step, {side.side}",
        timeline.figure(side.side, side.slowest),
        f"Step {side.slowest.step}, by the clock of the first rank's node; what is left white is "
        "outside of operations.",
    )


def _tables(side: SideTrace, anchor: str) -> tuple[Table, ...]:
    return (
        Table(
            name=f"What costs the time, {side.side}",
            head=watch_text.COSTS_HEAD,
            rows=tuple(watch_text.cost_rows(costs.lines(side))),
            note="Means of the ranks; a moment of a rank is in one line at most.",
        ),
        Table(
            name=f"Ranks, {side.side}",
            head=trace_text.RANKS_HEAD,
            rows=tuple(trace_text.rank_rows(side.ranks)),
            note="The parts of a rank are its total.",
            anchor=anchor,
        ),
        Table(
            name=f"Collectives, {side.side}",
            head=trace_text.COLLECTIVES_HEAD,
            rows=tuple(trace_text.collective_rows(side.collectives)),
            note="Means over the ranks; those of the traced steps.",
        ),
        *_watched(side),
    )


def _watched(side: SideTrace) -> Iterator[Table]:
    if side.watch is None:
        return
    tables = watch_text.tables(side.watch, _MOST_ROWS)
    notes = (_FILES_NOTE, _PROCESSES_NOTE)
    for (head, rows), name, note in zip(tables, _WATCHED, notes, strict=True):
        yield Table(name=f"{name}, {side.side}", head=head, rows=tuple(rows), note=note)
