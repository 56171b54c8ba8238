"""The rows of a session as curves: both sides' times over the declared parameter."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dlcontainer.bench.analysis.rows import RowReading
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.svg import (
    WIDTH,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.samples.rows.row_records import named

_LOOKS = (MarkStyle(shape="circle", style="reference"), MarkStyle(shape="diamond", style="pair"))


@dataclass(frozen=True, kw_only=True, slots=True)
class _CurvePoint:
    """One side's time of a row, s, at its place on the horizontal axis."""

    x: int
    median: float
    best: float


def of(analysis: Analysis) -> Iterator[tuple[str, str, Markup]]:
    """Draw one figure for each set of the other parameters, named by it, with its caption."""
    plan = analysis.series.session.declared.rows
    if plan is None or not plan.curve:
        return
    words = (
        "Marks are the medians of both sides, strokes reach down to the best time. Both axes are "
        "logarithmic; lower is quicker."
    )
    for name, readings in _panels(analysis.rows, plan.curve).items():
        if len(readings) > 1:
            yield name or "The rows", words, _figure(analysis, name, plan.curve, readings)


def _panels(rows: Sequence[RowReading], curve: str) -> dict[str, list[RowReading]]:
    panels: dict[str, list[RowReading]] = {}
    for reading in rows:
        x = reading.parameters.get(curve)
        # Of nothing a logarithmic axis has no place.
        if isinstance(x, int) and x > 0:
            rest = {key: value for key, value in reading.parameters.items() if key != curve}
            panels.setdefault(named(rest), []).append(reading)
    return panels


def _figure(analysis: Analysis, name: str, curve: str, readings: Sequence[RowReading]) -> Markup:
    top, bottom, left, right = 34.0, 274.0, 64.0, WIDTH - 20
    sides = analysis.series.session.declared.sides.names
    title = f"Time over {curve}: {name}; {' and '.join(sides)}"
    drawing = Drawing(title=title, height=bottom + 44)
    drawn = [[_point(reading, curve, i) for reading in readings] for i in range(len(sides))]
    across = spanning([point.x for line in drawn for point in line], left, right, log=True)
    times = [1e6 * t for line in drawn for point in line for t in (point.best, point.median)]
    up = spanning(times, bottom, top, log=True)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name=curve)
    vertical_axis(drawing, up, left=left, right=right, name="microseconds")
    for side, line, look in zip(sides, drawn, _LOOKS, strict=True):
        places = [(across.at(point.x), up.at(1e6 * point.median)) for point in line]
        drawing.path(places, f"step {look.style}")
        for point, (x, y) in zip(line, places, strict=True):
            drawing.line(x, y, x, up.at(1e6 * point.best), f"whisker {look.style}")
            hint = (
                f"{side}, {curve} {point.x:,}: median {1e6 * point.median:.4g} us, "
                f"best {1e6 * point.best:.4g} us"
            )
            drawing.mark(x, y, look, Tip(hint=hint))
    entries = [LegendEntry.of(side, look) for side, look in zip(sides, _LOOKS, strict=True)]
    legend(drawing, left + 6, 12, entries)
    return drawing.svg()


def _point(reading: RowReading, curve: str, number: int) -> _CurvePoint:
    side = reading.sides[number]
    return _CurvePoint(x=int(reading.parameters[curve]), median=side.median, best=side.best)
