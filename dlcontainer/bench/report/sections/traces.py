"""A trace as a section of a report: what waits for whom, a figure and tables for each side."""

import shlex
from collections.abc import Iterator

from dlcontainer.bench.report.figures import timeline
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections.exhibit import Exhibit, plate
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.tables import trace_tables
from dlcontainer.bench.trace import trace_text, wait_words
from dlcontainer.bench.trace.mpi_calls import mpi_text
from dlcontainer.bench.trace.trace_records import JobTrace, RankTimeline, SideTrace, SlowestStep

_MOST_COMMAND = 120


def exhibit(finding: InputFinding, trace: JobTrace) -> Exhibit:
    """Return the section of a trace."""
    longest_s = max((side.slowest.seconds for side in trace.sides if side.slowest), default=0.0)
    return Exhibit(
        anchor=f"trace-{finding.sha256[:8]}",
        title="What waits for whom",
        headline=_headline(trace),
        words=_words(trace),
        plates=tuple(each for side in trace.sides for each in _plates(finding, side, longest_s)),
        tables=tuple(
            table
            for number, side in enumerate(trace.sides)
            for table in trace_tables.tables(side, "" if number else finding.anchor)
        ),
        lines=tuple(
            f"{side.side}, critical path: {path}" for side in trace.sides for path in _paths(side)
        ),
        open_plates=len(trace.sides),
    )


def _headline(trace: JobTrace) -> str:
    words = "; ".join(map(trace_text.in_short, trace.sides))
    # Of two sides the shares alone fill it.
    if len(trace.sides) == 1 and trace.sides[0].ranks:
        words = f"{words}; {trace_text.longest_wait(trace.sides[0])}"
    # On a narrow screen a share stays with its sign.
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _words(trace: JobTrace) -> str:
    command = shlex.join(trace.command)
    if len(command) > _MOST_COMMAND:
        command = f"{command[:_MOST_COMMAND]} …"
    parts = [f'Traced: the command "{command}" at site {trace.site}.']
    for side in trace.sides:
        parts.append(_sentence(trace_text.headline(side)))
        parts.append(_sentence(trace_text.longest_wait(side)))
        parts += [f"Most time, {whose}: {cost[3:]}." for whose, cost in _first_costs(side)]
        if side.ended != "ended":
            parts.append(f"The {side.side} job failed: {side.ended}.")
        notes = [f"critical path, {path}" for path in _paths(side)]
        notes += trace_text.notes(side)
        for world in trace_text.worlds(side):
            notes += [mpi_text.longest_wait(world), *mpi_text.notes(world)]
        parts.append(_sentence("; ".join(notes)))
    if len(trace.sides) > 1:
        parts.append(
            "One trace of each side shows where time goes, and is no verdict: that takes pairs, "
            "by bench job."
        )
    return " ".join(parts)


def _first_costs(side: SideTrace) -> Iterator[tuple[str, str]]:
    for cost in trace_text.cost_lines(side)[:1]:
        yield side.side, cost
    for world in trace_text.worlds(side):
        for cost in trace_text.world_cost_lines(world)[:1]:
            yield f"{world.program}, {side.side}", cost


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _paths(side: SideTrace) -> Iterator[str]:
    """Yield the critical paths of the slowest step and of each program of MPI."""
    paths = []
    if side.slowest:
        is_known = side.is_computing_known
        paths.append(wait_words.step_path(side.slowest, is_computing_known=is_known))
    paths += [
        wait_words.program_path(world.program, world.path)
        for world in trace_text.worlds(side)
        if world.path is not None
    ]
    # An arrow of two signs would be broken between them.
    return (path.replace("->", "\N{RIGHTWARDS ARROW}") for path in paths)


def _plates(finding: InputFinding, side: SideTrace, longest_s: float) -> Iterator[Plate]:
    if side.slowest is not None:
        yield _plate(finding, side, side.slowest, longest_s)
    for world in trace_text.worlds(side):
        if world.timeline is not None:
            title = f"{mpi_text.headline(world)}, {side.side}"
            yield plate(
                finding,
                title,
                timeline.figure_of_program(title, world.timeline),
                f"From the end of the first MPI_Init on.{_how(world.timeline, len(world.ranks))}",
            )


def _how(drawn: SlowestStep | RankTimeline, ranks: int) -> str:
    """Say how a figure is drawn, where it is not as it would be thought."""
    words = ""
    if timeline.is_columns(drawn):
        words += " Columns: the shares of each activity, where bars would be too narrow."
    if ranks > timeline.MOST_RANKS:
        words += f" Of {ranks} ranks {timeline.MOST_RANKS} are drawn, those waited for among them."
    return words


def _plate(finding: InputFinding, side: SideTrace, slowest: SlowestStep, longest_s: float) -> Plate:
    missing = [rank.rank for rank in side.missing]
    how = _how(slowest, len(slowest.bars) + len(missing))
    is_known = side.is_computing_known
    operations = "outside of operations: Python, input, sleep"
    blank = operations if is_known else "outside of collectives"
    return plate(
        finding,
        f"The slowest step, {side.side}",
        timeline.figure(side.side, slowest, longest_s, missing, is_computing_known=is_known),
        f"Step {slowest.step}, by the clock of the first rank's node. What is left blank is "
        f"{blank}.{how}",
    )
