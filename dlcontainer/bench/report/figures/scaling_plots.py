"""The figures of a scaling study: efficiency over ranks, and what each point loses."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study.shortfall import ForeseenComparison
from dlcontainer.bench.study.study_analysis import PointAnalysis

# Of the reference and the candidate; of three arms the one between comes second.
_LOOKS = (
    MarkStyle(shape="circle", style="reference"),
    MarkStyle(shape="diamond", style="pair"),
    MarkStyle(shape="triangle", style="joiner"),
)
_FORESEEN = MarkStyle(shape="ring", style="control")
_ASIDE = 12.0
_COLOURS = 8
# An interval that reaches further than so many times what the figure shows ends in an arrow.
_ROOM = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class _EfficiencyMark:
    ranks: int
    interval: Interval
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _EfficiencyLine:
    name: str
    look: MarkStyle
    marks: tuple[_EfficiencyMark, ...]


def families(points: Sequence[PointAnalysis]) -> tuple[str, ...]:
    """Return the families of strategies in their order; one process belongs to all of them."""
    names = dict.fromkeys(point.family for point in points if point.ranks > 1)
    return tuple(names) or tuple(dict.fromkeys(point.family for point in points))


def efficiency(
    points: Sequence[PointAnalysis], family: str, foreseen: Sequence[ForeseenComparison] = ()
) -> Markup:
    """Draw both arms' efficiency with intervals over ranks; ranks on a logarithmic axis."""
    shown = [point for point in points if point.family == family or point.ranks == 1]
    lines = [*_lines(shown), *_expected(shown, foreseen)]
    title = f"Efficiency over ranks, {family}: {'; '.join(map(_told, lines))}"
    top, bottom, begin, end = 34.0, 294.0, 64.0, WIDTH - 20
    drawing = Drawing(title=title, height=bottom + 44)
    counts = sorted({point.ranks for point in shown})
    across = spanning(counts, begin + 30, end - 30, log=True)
    across = replace(across, labels=tuple((count, f"{count:,}") for count in counts))
    up = spanning(_values(lines), bottom, top)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="ranks")
    vertical_axis(drawing, up, left=begin, right=end, name="efficiency")
    drawing.line(begin, up.at(1), end, up.at(1), "one")
    for i, line in enumerate(lines):
        _draw(drawing, line, across, up, _ASIDE * (i - (len(lines) - 1) / 2))
    legend(drawing, begin + 6, 12, [LegendEntry.of(line.name, line.look) for line in lines])
    return drawing.svg()


def _lines(points: Sequence[PointAnalysis]) -> Iterator[_EfficiencyLine]:
    arms = dict.fromkeys(arm for point in points for arm in point.efficiencies)
    for arm, look in zip(arms, _LOOKS, strict=False):
        readings = [(point, point.efficiencies[arm]) for point in points
                    if arm in point.efficiencies]  # fmt: skip
        marks = tuple(
            _EfficiencyMark(
                ranks=point.ranks,
                interval=reading.efficiency,
                hint=f"{arm}, {counted(point.ranks, 'rank')}, {point.strategy}: "
                f"{_interval(reading.efficiency)}, {reading.step_s:.4g} s a step",
            )
            for point, reading in readings
        )
        yield _EfficiencyLine(name=arm, look=look, marks=marks)


def _expected(
    points: Sequence[PointAnalysis], foreseen: Sequence[ForeseenComparison]
) -> Iterator[_EfficiencyLine]:
    places = {(point.ranks, point.strategy) for point in points}
    marks = tuple(
        _EfficiencyMark(
            ranks=comparison.ranks,
            interval=comparison.foreseen,
            hint=f"foreseen, {comparison.ranks} ranks: {_interval(comparison.foreseen)}",
        )
        for comparison in foreseen
        if (comparison.ranks, comparison.strategy) in places
    )
    if marks:
        yield _EfficiencyLine(name="foreseen", look=_FORESEEN, marks=marks)


def _draw(
    drawing: Drawing, line: _EfficiencyLine, across: AxisScale, up: AxisScale, aside: float
) -> None:
    places = []
    for mark in line.marks:
        x, interval = across.at(mark.ranks) + aside, mark.interval
        if interval.high > interval.low:
            drawing.upright_whisker(up, interval.low, interval.high, x, line.look.style)
        places.append((x, up.at(interval.ratio)))
    drawing.path(places, f"thin {line.look.style}")
    for (x, y), mark in zip(places, line.marks, strict=True):
        drawing.mark(x, y, line.look, Tip(hint=mark.hint))


def _values(lines: Sequence[_EfficiencyLine]) -> list[float]:
    marks = [mark.interval for line in lines for mark in line.marks]
    centres = [1.0, *(interval.ratio for interval in marks)]
    room = max(max(centres) - min(centres), 0.05) * _ROOM + 0.02
    bounds = (bound for interval in marks for bound in (interval.low, interval.high))
    near = [bound for bound in bounds if min(centres) - room < bound < max(centres) + room]
    return [*centres, *near]


def _interval(interval: Interval) -> str:
    if interval.low == interval.high:
        return "1, the base"
    if interval.low <= 0:
        return f"{interval.ratio:.3f} (too few launches for an interval)"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _told(line: _EfficiencyLine) -> str:
    texts = (f"{_interval(mark.interval)} at {mark.ranks}" for mark in line.marks)
    return f"{line.name}: {', '.join(texts)}"


def losses(points: Sequence[PointAnalysis]) -> Markup | None:
    """Draw what each arm loses at each point as a bar of terms, in per cent of its step.

    None where no point but the base was measured.
    """
    shown = [point for point in points if point.losses]
    bars = [loss for point in shown for loss in point.losses.values()]
    if not bars:
        return None
    names = list(dict.fromkeys(term.name for loss in bars for term in loss.terms))
    lengths = [sum(max(100 * t.share.share, 0.0) for t in loss.terms) for loss in bars]
    rows = -(-len(names) // 2)
    top, pitch, gap, zero, edge = 16.0 + 18 * rows, 26.0, 12.0, 170.0, WIDTH - 64
    bottom = top + pitch * len(bars) + gap * len(shown)
    drawing = Drawing(title=f"Lost at each point, of its step: {_sums(shown)}", height=bottom + 44)
    scale = spanning([*lengths, 1.0], zero, edge, from_zero=True)
    horizontal_axis(drawing, scale, top=top, bottom=bottom, name="% of the step")
    y = top + gap / 2
    for point in shown:
        drawing.text(0, y + 15, counted(point.ranks, "rank"), "row")
        drawing.text(0, y + 29, point.strategy, "tick")
        for arm, loss in point.losses.items():
            drawing.text(zero - 8, y + 15, arm, "tick", "end")
            begun = 0.0
            for term in loss.terms:
                share = max(100 * term.share.share, 0.0)
                begin, end = scale.at(begun), scale.at(begun + share)
                hint = f"{arm}, {counted(point.ranks, 'rank')}: {term.name} {share:.1f} %"
                style = f"phase p{names.index(term.name) % _COLOURS}"
                box = Box(x=begin, y=y, width=end - begin, height=pitch - 6)
                drawing.box(box, style, Tip(hint=hint))
                if end - begin > 40:
                    drawing.text((begin + end) / 2, y + 14, f"{share:.1f} %", "inbar", "middle")
                begun += share
            total = f"{100 * loss.total.share:.1f} %"
            drawing.text(scale.at(begun) + 6, y + 15, total, "row")
            y += pitch
        y += gap
    entries = [LegendEntry(name=name, style=f"phase p{i}") for i, name in enumerate(names)]
    for row in range(rows):
        legend(drawing, zero + 6, 10 + 18.0 * row, entries[2 * row : 2 * row + 2])
    return drawing.svg()


def _sums(points: Sequence[PointAnalysis]) -> str:
    return "; ".join(
        f"{counted(point.ranks, 'rank')}, {arm} {100 * loss.total.share:.1f} %"
        for point in points
        for arm, loss in point.losses.items()
    )
