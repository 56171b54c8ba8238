"""The figures of a matrix, each with its caption and the lines behind it."""

from collections.abc import Sequence

from dlcontainer.bench.report.figures import scale_ecdf, scale_ratios
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.table import ranges
from dlcontainer.bench.report.tables import scale_tables
from dlcontainer.bench.scale.matrix_analysis import CellRow
from dlcontainer.bench.scale.matrix_records import MatrixSession


def plates(
    scale: MatrixSession, rows: Sequence[CellRow], anchor: str, file: str, *, listed: bool
) -> tuple[Plate, ...]:
    """Draw a matrix; `listed` launches are in the page, and marks lead to them."""
    reference = scale_ratios.reference(scale)
    words = (
        f"The time until the last rank is ready over that of the reference ({reference}), on a "
        "logarithmic axis, with 95 % t intervals over rounds; the faint dots are single rounds. "
        "The same in figures: the table Against the reference cell."
    )
    drawn = [
        (
            _named("How much longer, by ranks?", panel.name),
            words,
            scale_ratios.figure(panel, rows, reference, anchor, listed=listed),
            scale_ratios.lines(panel, rows),
        )
        for panel in scale_ratios.panels(rows)
    ]
    words = "The share of all ranks of all launches that were ready by then. Descriptive."
    drawn += [
        (
            _named("When are they ready?", scale_ecdf.shared(group)),
            words,
            scale_ecdf.figure(group, anchor, listed=listed),
            (launch.line for row in group for launch in row.launches),
        )
        for group in scale_ecdf.groups(rows)
    ]
    raw = scale_tables.table_place(anchor) if listed else ""
    return tuple(
        Plate(
            name=name,
            caption=caption,
            lines=f"lines {ranges(numbers)}",
            svg=svg,
            raw=raw,
            file=file,
        )
        for name, caption, svg, numbers in drawn
    )


def _named(question: str, what: str) -> str:
    return f"{question} ({what})" if what else question
