"""Drawings of sessions with more launches than a page can hold: stretches instead of points."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp, isnan
from statistics import median

from markupsafe import Markup

from dlcontainer.bench.analysis import pairing, qualification
from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.figures import seconds
from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Drawing,
    MarkStyle,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.samples.launch_table import LaunchKind
from dlcontainer.bench.samples.vocabulary import ArmName

# Launches of all sessions of a page that are drawn and listed one by one: each takes up to 1.5 kB.
MOST_LISTED = 1500
_STRETCHES = 150
_NAMES = {
    "control": "A/A",
    "candidate_control": "B/B",
    "pair": "A/B",
    "joiner": "A/B, joining a mount",
}


def is_listed(analysis: Analysis, sessions: int) -> bool:
    """Return whether a session's launches are few enough for a page of so many sessions."""
    return len(analysis.series.launches) <= MOST_LISTED // max(sessions, 1)


def note(analysis: Analysis) -> str:
    """Return what stands for the points, and where they are."""
    series = analysis.series
    return (
        f"{len(series.launches):,} launches are too many to draw one by one: each stroke is a "
        f"stretch of them, from the least to the most, its mark the median. Every launch is in "
        f"{series.path}, and in the CSV beside this page."
    )


def run_order(analysis: Analysis) -> Markup:
    """Draw the range and the median of each stretch of the session, each side in its colour."""
    series = analysis.series
    declared = series.session.declared
    metric, (reference, candidate) = declared.metric, declared.sides.names
    launches, count = series.launches, len(series.launches)
    time, looks = launches.figures(metric), {reference: "reference", candidate: "pair"}
    strokes = {}
    # In the order in which they cover each other.
    for arm in (reference, *declared.arms[1:-1], candidate):
        indices = launches.where(_measured(arm))
        timed = ((i, time(i)) for i in indices if not isnan(time(i)))
        strokes[looks.get(arm, "between")] = _stretches(timed, count)
    failed = _stretches(((i, 0.0) for i in range(count) if isnan(time(i))), count)
    top, bottom, left, right = 20.0, 264.0, 64.0, WIDTH - 8
    drawing = Drawing(title="Times over the session, by stretches of launches", height=bottom + 44)
    every = [stroke for drawn in strokes.values() for stroke in drawn]
    up = seconds.axis([value for stroke in every for value in stroke.values], bottom, top)
    across = AxisScale(low=0, high=count, start=left + 10, end=right - 10)
    vertical_axis(drawing, up.scale, left=left, right=right, name=f"{metric}, {up.unit.name}")
    for style, drawn in strokes.items():
        _strokes(drawing, drawn, _BinnedAxes(across=across, up=up.scale), style)
    for stroke in failed:
        drawing.mark(across.at(stroke.place), bottom, MarkStyle(shape="cross", style="failed"))
    drawing.text((left + right) / 2, bottom + 22, "launches, first to last", "axis", "middle")
    return drawing.svg()


def _measured(arm: ArmName) -> Callable[[LaunchKind], bool]:
    return lambda kind: kind.arm == arm and kind.role != "warmup"


def pair_ratios(analysis: Analysis) -> Markup:
    """Draw the range and the median of each stretch of pairs, A/A above A/B, on one axis."""
    figures = [control.figure for control in qualification.telling(analysis)]
    shown = [*figures, *(figure for figure in (analysis.main, analysis.joiner) if figure)]
    top, pitch, left, right = 24.0, 120.0, 64.0, WIDTH - 8
    height = top + pitch * len(shown) + 24
    drawing = Drawing(title="Ratios of pairs, by stretches, A/A and A/B", height=height)
    strokes = [_of_pairs(analysis, figure) for figure in shown]
    values = [value for group in strokes for stroke in group for value in stroke.values]
    for i, (figure, group) in enumerate(zip(shown, strokes, strict=True)):
        begin = top + pitch * i
        scale = spanning(values, begin + pitch - 26, begin + 8, log=True)
        count = len(analysis.pairs[figure.role])
        across = AxisScale(low=0, high=max(count, 1), start=left + 10, end=right - 10)
        vertical_axis(drawing, scale, left=left, right=right, name="ratio")
        drawing.line(left, scale.at(1), right, scale.at(1), "one")
        drawing.text(left, begin, f"{_NAMES.get(figure.role, figure.role)}, {count:,} pairs", "row")
        _strokes(drawing, group, _BinnedAxes(across=across, up=scale), figure.role)
    drawing.text((left + right) / 2, height - 8, "pair, in its order", "axis", "middle")
    return drawing.svg()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stroke:
    """A stretch: its place, and the values of its points."""

    place: float
    least: float
    middle: float
    most: float

    @property
    def values(self) -> tuple[float, float, float]:
        """What the axis must hold."""
        return self.least, self.middle, self.most


@dataclass(frozen=True, kw_only=True, slots=True)
class _BinnedAxes:
    across: AxisScale
    up: AxisScale


def _of_pairs(analysis: Analysis, figure: PairFigure) -> list[_Stroke]:
    pairs = analysis.pairs[figure.role]
    ratios = map(exp, pairing.differences(figure.metric, pairs).d)
    return _stretches(enumerate(ratios), len(pairs))


def _stretches(points: Iterable[tuple[float, float]], count: int) -> list[_Stroke]:
    """Return each stretch that has points."""
    groups: defaultdict[int, array[float]] = defaultdict(lambda: array("d"))
    for place, value in points:
        groups[int(place * _STRETCHES // max(count, 1))].append(value)
    return [
        _Stroke(
            place=(number + 0.5) * count / _STRETCHES,
            least=min(values),
            middle=median(values),
            most=max(values),
        )
        for number, values in sorted(groups.items())
    ]


def _strokes(drawing: Drawing, strokes: Sequence[_Stroke], axes: _BinnedAxes, style: str) -> None:
    # Beside each other, not on top of each other.
    shift = 1.2 if style == "reference" else -1.2
    dot, up = MarkStyle(shape="dot", style=style), axes.up
    for stroke in strokes:
        x = axes.across.at(stroke.place) + shift
        drawing.line(x, up.at(stroke.least), x, up.at(stroke.most), f"join {style}")
        drawing.mark(x, up.at(stroke.middle), dot)
