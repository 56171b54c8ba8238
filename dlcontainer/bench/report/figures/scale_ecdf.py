"""When the ranks of a matrix's cells are ready, as distributions: a figure each reference cell."""

from collections.abc import Sequence

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.report.tables import scale_tables
from dlcontainer.bench.scale.matrix_analysis import CellRow, ready

# As many lines can be told apart in one figure; the first is the reference's.
_LOOKS = (
    MarkStyle(shape="circle", style="reference"),
    MarkStyle(shape="diamond", style="pair"),
    MarkStyle(shape="triangle", style="joiner"),
    MarkStyle(shape="circle", style="between"),
)


def groups(rows: Sequence[CellRow]) -> list[list[CellRow]]:
    """Return the cells of each figure: a reference cell and some that are held against it."""
    figures: list[list[CellRow]] = []
    references = dict.fromkeys(row.contrast.reference for row in rows if row.contrast)
    most = len(_LOOKS) - 1
    for number in references:
        contrasted = [row for row in rows if row.contrast and row.contrast.reference == number]
        figures += [
            [rows[number], *contrasted[at : at + most]] for at in range(0, len(contrasted), most)
        ]
    return figures or [list(rows[: most + 1])]


def shared(group: Sequence[CellRow]) -> str:
    """Name what all cells of a figure share."""
    cells = [row.cell for row in group]
    same = {
        name: values.pop()
        for name in ("where", "state", "start", "ranks", "nodes")
        if len(values := {getattr(cell, name) for cell in cells}) == 1
    }
    words = [str(same[name]) for name in ("where", "state", "start") if name in same]
    if "ranks" in same:
        words.append("1 rank" if same["ranks"] == 1 else f"{same['ranks']} ranks")
    if same.get("nodes", 1) != 1:
        words.append(f"on each of {same['nodes']} nodes")
    return ", ".join(words)


def figure(group: Sequence[CellRow], link: str, *, listed: bool) -> Markup:
    """Draw the share of ranks that are ready over time, a step line a cell.

    The mark of its last rank leads to the line of that launch where these are `listed`.
    """
    top, left, right = 24.0 + 17 * len(group), 64.0, WIDTH - 20
    bottom = top + 216
    title = f"Share of ranks that are ready, over time: {shared(group)}"
    drawing = Drawing(title=title, height=bottom + 44)
    shown = [(row, sorted((t, x.line) for x in row.launches for t in ready(x))) for row in group]
    across = spanning([time for _, times in shown for time, _ in times], left, right)
    up = AxisScale(low=0.0, high=1.0, start=bottom, end=top)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="seconds until ready")
    vertical_axis(drawing, up, left=left, right=right, name="share of ranks")
    for (row, times), look in zip(shown, _LOOKS, strict=False):
        corners = [(left, up.at(0))]
        for number, (time, _) in enumerate(times, start=1):
            corners += [
                (across.at(time), corners[-1][1]),
                (across.at(time), up.at(number / len(times))),
            ]
        drawing.path([*corners, (right, up.at(1))], f"step {look.style}")
        if times:
            last, line = times[-1]
            hint = f"{row.cell.name}: the last of {len(times)} at {last:.4g} s (line {line})"
            to = scale_tables.place(link, line) if listed else f"{link}-{row.number}"
            drawing.mark(across.at(last), up.at(1), look, Tip(hint=hint, link=to))
    for at, (row, look) in enumerate(zip(group, _LOOKS, strict=False)):
        legend(drawing, left + 6, 12.0 + 17 * at, [LegendEntry.of(row.cell.name, look)])
    return drawing.svg()
