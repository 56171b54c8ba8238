"""A probe's own charts: lines by name, one side solid, the other's marks upon them."""

from collections.abc import Iterator

from markupsafe import Markup

from dlcontainer.bench.analysis.session_analysis import Analysis
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
from dlcontainer.bench.samples.traits import Chart, ChartLine

_COLOURS = 8
_DRAWN = "Lines are {}, diamonds {}; where these lie on the lines, both are the same."


def of(analysis: Analysis) -> Iterator[tuple[str, str, Markup]]:
    """Draw each chart, named, with its caption."""
    sides = analysis.series.session.declared.sides.names
    for chart in analysis.traits.charts:
        if any(line.points for line in chart.lines):
            yield chart.title, f"{chart.caption} {_DRAWN.format(*sides)}", _figure(chart)


def _figure(chart: Chart) -> Markup:
    top, bottom, left, right = 34.0, 274.0, 64.0, WIDTH - 20
    drawing = Drawing(title=chart.title, height=bottom + 44)
    points = [point for line in chart.lines for point in line.points]
    across = spanning([point.x for point in points], left, right, log=chart.log)
    up = spanning([point.y for point in points], bottom, top, log=chart.log)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name=chart.across)
    vertical_axis(drawing, up, left=left, right=right, name=chart.up)
    names = list(dict.fromkeys(line.name for line in chart.lines))
    for line in chart.lines:
        _line(drawing, line, f"c{names.index(line.name) % _COLOURS}", across, up)
    entries = [LegendEntry(name=name, style=f"p{i % _COLOURS}") for i, name in enumerate(names)]
    legend(drawing, left + 6, 12, entries)
    return drawing.svg()


def _line(drawing: Drawing, line: ChartLine, style: str, across: AxisScale, up: AxisScale) -> None:
    places = [(across.at(point.x), up.at(point.y)) for point in line.points]
    if not line.is_candidate:
        drawing.path(places, f"step {style}")
    look = MarkStyle(shape="diamond" if line.is_candidate else "dot", style=style)
    for point, (x, y) in zip(line.points, places, strict=True):
        drawing.mark(x, y, look, Tip(hint=point.hint))
