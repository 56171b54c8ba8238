"""The slowest step of a trace as a figure: a row for each rank, bars for what it did."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    Tip,
    horizontal_axis,
    legend,
)
from dlcontainer.bench.trace.trace_records import Activity, SlowestStep, TimelineBar

_ROW, _BAR, _TOP = 24.0, 14.0, 40.0
# Of more ranks those that were waited for, and the first ones, are drawn.
MOST_RANKS = 64
_STYLES: Mapping[Activity, str] = {"computing": "p1", "waiting": "p3", "transfer": "p4"}
_NAMES: Mapping[Activity, str] = {
    "computing": "computing",
    "waiting": "waiting for a rank",
    "transfer": "communication, exposed",
}


def figure(name: str, slowest: SlowestStep) -> Markup:
    """Draw the step of a side."""
    ranks = _shown(slowest)
    bottom = _TOP + _ROW * len(ranks)
    drawing = Drawing(title=f"The slowest step, {name}: what each rank did", height=bottom + 44)
    scale = AxisScale(low=0.0, high=1e3 * slowest.seconds, start=84.0, end=WIDTH - 16)
    horizontal_axis(drawing, scale, top=_TOP - 6, bottom=bottom, name="milliseconds of the step")
    legend(drawing, 90, 14, [LegendEntry(name=_NAMES[a], style=s) for a, s in _STYLES.items()])
    for row, rank in enumerate(ranks):
        y = _TOP + _ROW * row
        drawing.text(76, y + _BAR - 2, f"rank {rank}", "row", "end")
        for bar in slowest.bars[rank]:
            _draw(drawing, scale, y, bar)
    return drawing.svg()


def _shown(slowest: SlowestStep) -> Sequence[int]:
    late = {bar.of for bars in slowest.bars.values() for bar in bars if bar.of is not None}
    first = sorted(slowest.bars, key=lambda rank: (rank not in late, rank))
    return sorted(first[:MOST_RANKS])


def _draw(drawing: Drawing, scale: AxisScale, y: float, bar: TimelineBar) -> None:
    begin, end = scale.at(1e3 * bar.begin_s), scale.at(1e3 * bar.end_s)
    whom = f" {bar.of}" if bar.of is not None else ""
    hint = f"{_NAMES[bar.activity]}{whom}: {1e3 * (bar.end_s - bar.begin_s):.3g} ms"
    # What is too short to be seen is drawn as wide as a line.
    box = Box(x=begin, y=y, width=max(end - begin, 0.6), height=_BAR)
    drawing.box(box, _STYLES[bar.activity], Tip(hint=hint))
