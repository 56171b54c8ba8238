"""Rows under the roof of their machine: operations a second over operations a byte."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dlcontainer.bench.analysis.rows import RowReading
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
from dlcontainer.bench.samples.rows.row_records import named
from dlcontainer.bench.samples.traits import Roofline

_LOOKS = (MarkStyle(shape="circle", style="reference"), MarkStyle(shape="diamond", style="pair"))
_WORDS = (
    "Marks are the medians of both sides, over the operations for each byte that must move. The "
    "roofs are measured, no data sheet's: the slope is the best of copy and triad, the level the "
    "largest product of matrices in this precision. A mark above them had its data in the caches, "
    "or was quicker than that product. Both axes are logarithmic; higher is better."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _RooflinePoint:
    """A row on one side: operations a byte, and 1e9 operations a second."""

    intensity: float
    rate: float
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Roof:
    """The most that one side was measured at: GFLOP/s, and GB/s."""

    peak: float
    bandwidth: float

    def at(self, intensity: float) -> float:
        """Return the most operations a second at so many operations a byte, 1e9/s."""
        return min(self.peak, self.bandwidth * intensity)


def of(analysis: Analysis) -> Iterator[tuple[str, str, Markup]]:
    """Draw one figure for each precision and number of threads whose roofs were measured."""
    roofline = analysis.traits.roofline
    if roofline is None:
        return
    for key, readings in _panels(analysis.rows, roofline).items():
        precision, threads = key
        name = f"Roofline, {precision}, threads {threads}"
        sides = range(len(analysis.series.session.declared.sides.names))
        roofs = [_roof(analysis.rows, roofline, key, i) for i in sides]
        whole = [roof for roof in roofs if roof is not None]
        if len(whole) == len(roofs):
            yield name, _WORDS, _figure(analysis, name, _points(readings, roofline), whole)


_Key = tuple[str, str]


def _key(reading: RowReading) -> _Key:
    parameters = reading.parameters
    return str(parameters.get("precision", "")), str(parameters.get("threads", ""))


def _kernel(reading: RowReading) -> str:
    return str(reading.parameters.get("kernel", ""))


def _panels(rows: Sequence[RowReading], roofline: Roofline) -> dict[_Key, list[RowReading]]:
    panels: dict[_Key, list[RowReading]] = {}
    for reading in rows:
        if roofline.operations(reading.parameters) and roofline.least_bytes(reading.parameters):
            panels.setdefault(_key(reading), []).append(reading)
    return panels


def _roof(rows: Sequence[RowReading], roofline: Roofline, key: _Key, side: int) -> _Roof | None:
    peaks = [row for row in rows if _kernel(row) == roofline.peak and _key(row) == key]
    streams = [row for row in rows if _kernel(row) in roofline.streams and _key(row)[1] == key[1]]
    largest = max(peaks, key=lambda row: roofline.operations(row.parameters) or 0, default=None)
    if largest is None or not streams:
        return None
    moved = [
        (roofline.least_bytes(row.parameters) or 0) / row.sides[side].median / 1e9
        for row in streams
    ]
    computed = (roofline.operations(largest.parameters) or 0) / largest.sides[side].median / 1e9
    return _Roof(peak=computed, bandwidth=max(moved)) if computed and max(moved) else None


def _points(readings: Sequence[RowReading], roofline: Roofline) -> list[list[_RooflinePoint]]:
    """Return each side's marks."""
    points = []
    for i in range(len(readings[0].sides)):
        side_points = []
        for reading in readings:
            side, counted = reading.sides[i], roofline.operations(reading.parameters) or 0.0
            rate = counted / side.median / 1e9
            intensity = counted / (roofline.least_bytes(reading.parameters) or 1.0)
            hint = (
                f"{side.arm}, {named(reading.parameters)}: {rate:.4g} GFLOP/s at "
                f"{intensity:.3g} FLOP/byte"
            )
            side_points.append(_RooflinePoint(intensity=intensity, rate=rate, hint=hint))
        points.append(side_points)
    return points


def _figure(
    analysis: Analysis, name: str, points: list[list[_RooflinePoint]], roofs: Sequence[_Roof]
) -> Markup:
    top, bottom, left, right = 34.0, 294.0, 64.0, WIDTH - 20
    sides = analysis.series.session.declared.sides.names
    drawing = Drawing(title=f"{name}; {' and '.join(sides)}", height=bottom + 44)
    ridges = [roof.peak / roof.bandwidth for roof in roofs]
    spread = [point.intensity for side_points in points for point in side_points]
    across = spanning([*spread, *ridges], left, right, log=True)
    levels = [roof.at(x) for roof in roofs for x in (across.low, across.high)]
    up = spanning(
        [*levels, *(p.rate for side_points in points for p in side_points)], bottom, top, log=True
    )
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="FLOP/byte")
    vertical_axis(drawing, up, left=left, right=right, name="GFLOP/s")
    for side_points, roof, look in zip(points, roofs, _LOOKS, strict=True):
        _draw_roof(drawing, roof, look, across, up)
        for point in side_points:
            drawing.mark(across.at(point.intensity), up.at(point.rate), look, Tip(hint=point.hint))
    entries = [
        LegendEntry.of(f"{side}: {roof.peak:.3g} GFLOP/s, {roof.bandwidth:.3g} GB/s", look)
        for side, roof, look in zip(sides, roofs, _LOOKS, strict=True)
    ]
    legend(drawing, left + 6, 12, entries)
    return drawing.svg()


def _draw_roof(
    drawing: Drawing, roof: _Roof, look: MarkStyle, across: AxisScale, up: AxisScale
) -> None:
    ridge = roof.peak / roof.bandwidth
    places = [(across.at(x), up.at(roof.at(x))) for x in (across.low, ridge, across.high)]
    drawing.path(places, f"step {look.style}")
