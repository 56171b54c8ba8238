"""The figures of a report, from an analysis to SVG; nothing is computed here but places."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp

from markupsafe import Markup

from dlcontainer.bench.analysis import qualification
from dlcontainer.bench.analysis.contrasts import ArmContrast
from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.figures import launch_marks, seconds
from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    MarkStyle,
    Shape,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.samples.launch_table import Launch
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.stats import margins
from dlcontainer.bench.stats.paired import Interval

_NAMES: dict[Role, str] = {
    "pair": "A/B",
    "joiner": "A/B, joining a mount",
    "control": "A/A control",
    "candidate_control": "B/B control",
}
_SHAPES: dict[Role, Shape] = {
    "pair": "diamond",
    "joiner": "triangle",
    "control": "ring",
    "candidate_control": "ring",
}
_FAMILIES = 8  # colours of phases in the page's style


@dataclass(frozen=True, slots=True)
class _PlotRow:
    role: Role
    interval: Interval
    kind: str
    figure: PairFigure | None = None
    # Of three arms: which two.
    contrast: ArmContrast | None = None


def forest(analysis: Analysis, *, linked: bool = True) -> Markup:
    """Draw every interval on one axis of ratios, the margin as a band, the pairs as faint dots.

    `linked` dots lead to their raw lines; else those of one place are drawn once.
    """
    rows = _forest_rows(analysis)
    margin = analysis.series.session.declared.margin
    top, pitch, left, right = 20.0, 46.0, 190.0, WIDTH - 132
    bottom = top + pitch * len(rows)
    drawing = Drawing(title="Ratios of times with intervals and the margin", height=bottom + 44)
    scale = _ratio_scale(analysis, left, right)
    band = margins.band(margin)
    low, high = scale.at(band.low), scale.at(band.high)
    drawing.box(Box(x=low, y=top, width=high - low, height=bottom - top), "margin")
    drawing.text(scale.at(1) - 8, top - 6, "← faster", "tick", "end")
    drawing.text(scale.at(1) + 8, top - 6, "slower →", "tick")
    horizontal_axis(
        drawing, scale, top=top, bottom=bottom, name="ratio of times, candidate / reference"
    )
    for x, style in ((low, "edge"), (high, "edge"), (scale.at(1), "one")):
        drawing.line(x, top, x, bottom, style)
    for i, row in enumerate(rows):
        y, role, interval = top + pitch * (i + 0.5), row.role, row.interval
        drawing.text(0, y - 2, row.contrast.name if row.contrast else _NAMES[role], "row")
        drawing.text(0, y + 13, f"{100 * interval.level:.3g} % {row.kind}", "tick")
        if row.figure is not None:
            pairs = row.contrast.pairs if row.contrast else analysis.pairs[role]
            faint = MarkStyle(shape="circle", style=f"faint {role}")
            for dot in launch_marks.of(analysis, row.figure, pairs, scale, linked=linked):
                drawing.mark(dot.x, y + 13, faint, dot.tip)
        drawing.whisker(scale, interval.low, interval.high, y, role)
        drawing.mark(scale.at(interval.ratio), y, MarkStyle(shape=_SHAPES[role], style=role))
        drawing.text(WIDTH, y - 2, f"{interval.ratio:.3f}", "row", "end")
        bounds = f"{interval.low:.3f} to {_high(interval.high)}"
        if interval.low <= 0:
            bounds = "too few pairs"
        drawing.text(WIDTH, y + 13, bounds, "tick", "end")
    return drawing.svg()


def _forest_rows(analysis: Analysis) -> list[_PlotRow]:
    verdict, main = analysis.verdict, analysis.main
    rows: list[_PlotRow] = []
    first = analysis.contrasts[0] if analysis.contrasts else None
    if main is not None and verdict.difference is not None:
        rows.append(_PlotRow("pair", verdict.difference, "t interval", main, first))
        if analysis.traits.equivalence and verdict.equivalence:
            rows.append(_PlotRow("pair", verdict.equivalence, "for the margin", contrast=first))
        if verdict.robust is not None:
            rows.append(_PlotRow("pair", verdict.robust, "by ranks", contrast=first))
    for item in analysis.contrasts[1:]:
        kind = f"t interval, {item.meaning}"
        rows.append(_PlotRow("pair", item.figure.interval, kind, item.figure, item))
    if analysis.joiner is not None:
        rows.append(_PlotRow("joiner", analysis.joiner.interval, "t interval", analysis.joiner))
    rows += [
        _PlotRow(control.role, control.interval, "t interval", control.figure)
        for control in qualification.telling(analysis)
    ]
    return rows


def pair_ratios(analysis: Analysis) -> Markup:
    """Draw each pair's ratio in its order, A/A beside A/B, on one axis."""
    compared = (analysis.main, analysis.joiner)
    figures = [control.figure for control in qualification.telling(analysis)]
    shown = [*figures, *(figure for figure in compared if figure)]
    top, bottom, left, gap = 30.0, 230.0, 64.0, 18.0
    drawing = Drawing(title="Ratio of each pair, control beside comparison", height=bottom + 44)
    width = (WIDTH - left - gap * (len(shown) - 1)) / max(len(shown), 1)
    scale = _ratio_scale(analysis, bottom, top)
    for i, figure in enumerate(shown):
        start = left + i * (width + gap)
        place = _Place(scale=scale, left=start, right=start + width, name="" if i else "ratio")
        _panel(drawing, analysis, figure, place)
    return drawing.svg()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a panel stands in its figure; `name` is its axis', which the first panel has."""

    scale: AxisScale
    left: float
    right: float
    name: str


def _panel(drawing: Drawing, analysis: Analysis, figure: PairFigure, place: _Place) -> None:
    scale, left, right = place.scale, place.left, place.right
    margin = analysis.series.session.declared.margin
    top, bottom = scale.end, scale.start
    inside = margins.band(margin)
    high, low = scale.at(inside.high), scale.at(inside.low)
    drawing.box(Box(x=left, y=high, width=right - left, height=low - high), "margin")
    vertical_axis(drawing, scale, left=left, right=right, name=place.name)
    for y, style in ((low, "edge"), (high, "edge"), (scale.at(1), "one")):
        drawing.line(left, y, right, y, style)
    drawing.text(left, top - 12, _NAMES[figure.role], "row")
    band, centre = figure.interval, scale.at(figure.interval.ratio)
    high, low = scale.at(band.high), scale.at(band.low)
    box = Box(x=left, y=high, width=right - left, height=low - high)
    drawing.box(box, f"band {figure.role}")
    drawing.line(left, centre, right, centre, f"whisker {figure.role}")
    pairs, look = (
        analysis.pairs[figure.role],
        MarkStyle(shape=_SHAPES[figure.role], style=figure.role),
    )
    for i, (pair, value) in enumerate(
        zip(pairs, launch_marks.ratios(pairs, figure.metric), strict=True)
    ):
        x = left + (right - left) * (i + 0.5) / len(pairs)
        tip = launch_marks.tip(analysis, figure.role, pair, value)
        drawing.mark(x, scale.at(value), look, tip)
        if len(pairs) <= 16:
            drawing.text(x, bottom + 16, str(pair.number), "tick", "middle")
    drawing.text((left + right) / 2, bottom + 34, "pair, in its order", "axis", "middle")


def run_order(analysis: Analysis) -> Markup:
    """Draw each launch's time in the order of the session, pairs and triples joined."""
    series = analysis.series
    metric = series.session.declared.metric
    times = {s.index: t for s in series.launches if (t := s.figure(metric)) is not None}
    top, bottom, left, right = 34.0, 264.0, 64.0, WIDTH - 8
    drawing = Drawing(title="Time of each launch in the order of the session", height=bottom + 44)
    up = seconds.axis(list(times.values()), bottom, top)
    scale = up.scale
    last = len(series.launches) - 1 or 1
    across = AxisScale(low=0, high=last, start=left + 10, end=right - 10)
    vertical_axis(drawing, scale, left=left, right=right, name=f"{metric}, {up.unit.name}")
    for role, before, after in launch_marks.joined(analysis):
        drawing.line(
            across.at(before.index), scale.at(times[before.index]),
            across.at(after.index), scale.at(times[after.index]), f"join {role}",
        )  # fmt: skip
    for launch in series.launches:
        x, hint = across.at(launch.index), _hint(launch, times.get(launch.index), series)
        tip = Tip(hint=hint, link=anchors.line(series, launch.line))
        if launch.index not in times:
            drawing.mark(x, bottom, MarkStyle(shape="cross", style="failed"), tip)
            continue
        drawing.mark(x, scale.at(times[launch.index]), _look(launch, series), tip)
    drawing.text((left + right) / 2, bottom + 22, "launches, first to last", "axis", "middle")
    legend(drawing, left + 6, 12, launch_marks.entries(analysis))
    return drawing.svg()


def phases(analysis: Analysis) -> Markup | None:
    """Draw the mean time of each phase, stacked, one bar for each kind of launch."""
    return stacked(dict(phase_means(analysis)), "seconds since the launch, mean")


def stacked(bars: Mapping[str, Mapping[str, float]], axis: str) -> Markup | None:
    """Draw bars of phases, each name with its lengths in seconds; None without any."""
    names = list(dict.fromkeys(name for means in bars.values() for name in means))
    if not names:
        return None
    top, pitch, left, right = 34.0, 48.0, 190.0, WIDTH - 64
    bottom = top + pitch * len(bars)
    drawing = Drawing(title="Mean time of each phase", height=bottom + 44)
    totals = [sum(means.values()) for means in bars.values()]
    scale = spanning(totals, left, right, from_zero=True)
    horizontal_axis(drawing, scale, top=top, bottom=bottom, name=axis)
    for i, (name, means) in enumerate(bars.items()):
        y, begun = top + pitch * i + 10, 0.0
        drawing.text(0, y + 18, name, "row")
        for phase, mean in means.items():
            x1, x2 = scale.at(begun), scale.at(begun + mean)
            box = Box(x=x1, y=y, width=x2 - x1, height=pitch - 20)
            drawing.box(box, f"phase p{names.index(phase) % _FAMILIES}")
            if x2 - x1 > 44:
                drawing.text((x1 + x2) / 2, y + 18, f"{mean:.2f} s", "inbar", "middle")
            begun += mean
        drawing.text(scale.at(begun) + 6, y + 18, f"{begun:.2f} s", "row")
    entries = [
        LegendEntry(name=name, style=f"phase p{i % _FAMILIES}") for i, name in enumerate(names)
    ]
    legend(drawing, left + 6, 12, entries)
    return drawing.svg()


def phase_means(analysis: Analysis) -> list[tuple[str, dict[str, float]]]:
    """Return the mean of each phase, s, for each kind of launch that was compared."""
    reference, candidate = analysis.series.session.declared.sides.names
    between = [
        (item.sides.reference, item.pairs.reference)
        for item in analysis.contrasts
        if item.sides.reference != reference
    ]
    sides = [
        (reference, analysis.pairs["pair"].reference),
        *between,
        (candidate, analysis.pairs["pair"].candidate),
        (f"{candidate}, joining", analysis.pairs["joiner"].candidate),
    ]
    launches, means = analysis.series.launches, []
    for name, side in sides:
        names = dict.fromkeys(phase for kind in launches.kinds_of(side) for phase in kind.phases)
        if names:
            means.append((name, {n: sum(launches.phase(n, side)) / len(side) for n in names}))
    return means


def _ratio_scale(analysis: Analysis, start: float, end: float) -> AxisScale:
    band = margins.band(1.5 * analysis.series.session.declared.margin)
    values = [band.low, band.high]
    figures = [control.figure for control in qualification.telling(analysis)]
    shown = [figure for figure in (analysis.main, analysis.joiner) if figure is not None]
    drawn = [(figure, analysis.pairs[figure.role]) for figure in (*shown, *figures)]
    drawn += [(item.figure, item.pairs) for item in analysis.contrasts]
    for figure, pairs in drawn:
        values += launch_marks.ratios(pairs, figure.metric)
        # A huge interval of few pairs would squeeze all else: it ends in arrows.
        values += [
            bound
            for bound in (figure.interval.low, figure.interval.high)
            if exp(-1) < bound < exp(1) * max(figure.interval.ratio, 1)
        ]
    return spanning(values, start, end, log=True)


def _look(launch: Launch, series: Series) -> MarkStyle:
    if launch.role == "warmup":
        return MarkStyle(shape="circle", style="warmup")
    if launch.role in {"control", "candidate_control"}:
        return MarkStyle(shape="ring", style=launch.role)
    if launch.mount == "joiner":
        return MarkStyle(shape="triangle", style="joiner")
    reference, candidate = series.session.declared.sides.names
    if launch.arm == candidate:
        return MarkStyle(shape="diamond", style="pair")
    style = "reference" if launch.arm == reference else "between"
    return MarkStyle(shape="circle", style=style)


def _hint(launch: Launch, time: float | None, series: Series) -> str:
    if time is None:
        sample = series.samples[launch.index]
        value = sample.error or f"exit code {sample.returncode}"
    else:
        value = f"{time:.4g} s"
    where = f"{launch.role} {launch.pair}" if launch.pair else launch.role
    return f"line {launch.line}: {launch.arm}, {where}, {series.session.declared.metric} {value}"


def _high(value: float) -> str:
    return "∞" if value == float("inf") else f"{value:.3f}"
