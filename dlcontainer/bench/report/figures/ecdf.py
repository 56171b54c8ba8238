"""Times as a distribution: what share of launches or ranks took how long, one step line an arm.

Where the whole launch is what is timed, it is the time until ready.

Descriptive: the ranks of one launch are not replicates, and no verdict is drawn from them.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import overload

from markupsafe import Markup

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.figures import seconds
from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    vertical_axis,
)
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.launch_table import INDEX
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import counted

# A step line of more points than this looks the same.
_MOST_STEPS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadyTimes:
    """One arm's times, s, ascending, each with its line; `unit` is "ranks" or "launches"."""

    name: str
    unit: str
    points: Sequence[tuple[float, int]]

    def quantile(self, share: float) -> float:
        """Return the smallest time by which this share is ready."""
        count = len(self.points)
        return self.points[min(count - 1, max(0, -int(-share * count // 1) - 1))][0]


class Points(Sequence[tuple[float, int]]):
    """Times, s, ascending, each with its line; of one time the first line comes first."""

    def __init__(self, times: "array[float]", lines: "array[int]") -> None:
        """Sort them by time; `lines` must be ascending."""
        order = sorted(range(len(times)), key=times.__getitem__)
        self._times = array("d", map(times.__getitem__, order))
        self._lines = array(INDEX, map(lines.__getitem__, order))

    def __len__(self) -> int:
        return len(self._times)

    @overload
    def __getitem__(self, index: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[float, int]]: ...
    def __getitem__(self, index: int | slice) -> tuple[float, int] | Sequence[tuple[float, int]]:
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        return self._times[index], self._lines[index]


def is_ready(analysis: Analysis) -> bool:
    """Return whether the times end when a launch is ready, and are not those of its work."""
    return bool(analysis.traits.ends_at)


def ready(analysis: Analysis) -> tuple[ReadyTimes, ...]:
    """Return the times of each kind of launch that was compared, a rank each where listed."""
    metric, launches = analysis.series.session.declared.metric, analysis.series.launches
    sides = _sides(analysis)
    ranked = _ranked(analysis.series, sides)
    time = launches.figures(metric)
    curves = []
    for name, side in sides.items():
        times, lines = ranked[name]
        unit = "ranks" if times else "launches"
        for index in side if not times else ():
            if not isnan(time(index)):
                times.append(time(index))
                lines.append(launches.lines[index])
        if times:
            curves.append(ReadyTimes(name=name, unit=unit, points=Points(times, lines)))
    return tuple(curves)


def _sides(analysis: Analysis) -> dict[str, "array[int]"]:
    """Return the indices of the launches of each side, in their order."""
    declared, pairs = analysis.series.session.declared, analysis.pairs["pair"]
    reference, candidate = declared.sides.names
    sides: dict[str, array[int]] = {arm: array(INDEX) for arm in declared.arms}
    sides |= {reference: pairs.reference, candidate: pairs.candidate}
    sides |= {
        item.sides.reference: item.pairs.reference
        for item in analysis.contrasts
        if item.sides.reference != reference
    }
    if analysis.pairs["joiner"]:
        sides[f"{candidate}, joining"] = analysis.pairs["joiner"].candidate
    return {name: array(INDEX, sorted(side)) for name, side in sides.items()}


def _ranked(
    series: Series, sides: Mapping[str, "array[int]"]
) -> dict[str, tuple["array[float]", "array[int]"]]:
    """Return the times of all ranks of each side, each with its line, from the file."""
    curves = {name: (array("d"), array(INDEX)) for name in sides}
    if not any(kind.ranked for kind in series.launches.kinds):
        return curves
    side_of = bytearray(len(series.launches))
    for number, side in enumerate(sides.values(), start=1):
        for index in side:
            side_of[index] = number
    rows = [(array("d"), array(INDEX)), *curves.values()]
    for sample in series.samples:
        times, lines = rows[side_of[sample.index]]
        ready_s = _of_ranks(sample, series.session.declared.metric) if side_of[sample.index] else ()
        times.extend(ready_s)
        lines.extend([sample.line] * len(ready_s))
    return curves


def _of_ranks(sample: Sample, metric: str) -> list[float]:
    times = (_of_rank(rank, metric) for rank in sample.ranks)
    return [time for time in times if time is not None and 0 < time < float("inf")]


def _of_rank(rank: Mapping[str, object], metric: str) -> float | None:
    values, phases = rank.get("values"), rank.get("phases")
    for time in (
        rank.get(metric),
        values.get(metric) if isinstance(values, dict) else None,
        sum(phases.values()) if isinstance(phases, dict) and phases else None,
        rank.get("wall_s"),
    ):
        if isinstance(time, int | float) and not isinstance(time, bool):
            return float(time)
    return None


def figure(analysis: Analysis, arms: Sequence[ReadyTimes], *, linked: bool = True) -> Markup:
    """Draw the share over time; `linked` steps lead to their raw lines."""
    top, bottom, left, right = 34.0, 250.0, 64.0, WIDTH - 20
    unit = arms[0].unit
    done = "ready" if is_ready(analysis) else "that took at most so long"
    drawing = Drawing(title=f"Share of {unit} {done}, over time", height=bottom + 44)
    axis = seconds.axis(_ends(arms), left, right)
    across = axis.scale
    name = "until ready" if is_ready(analysis) else f"of {analysis.series.session.declared.metric}"
    up = AxisScale(low=0.0, high=1.0, start=bottom, end=top)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name=f"{axis.unit.name} {name}")
    vertical_axis(drawing, up, left=left, right=right, name=f"share of {unit}")
    for arm in arms:
        look = _look(arm, analysis)
        steps = _steps(arm)
        corners = [(left, up.at(0))]
        for time, share, _ in steps:
            corners += [(across.at(time), corners[-1][1]), (across.at(time), up.at(share))]
        drawing.path([*corners, (right, up.at(1))], f"step {look.style}")
        for time, share, number in steps if linked else ():
            hint = f"line {number}: {arm.name}, {time:.4g} s, {share:.0%} {done}"
            tip = Tip(hint=hint, link=anchors.line(analysis.series, number))
            drawing.mark(across.at(time), up.at(share), look, tip)
    legend(drawing, left + 6, 12, [LegendEntry.of(arm.name, _look(arm, analysis)) for arm in arms])
    return drawing.svg()


def _look(arm: ReadyTimes, analysis: Analysis) -> MarkStyle:
    """Return the mark that the arm has in the other figures."""
    declared = analysis.series.session.declared
    reference, candidate = declared.sides.names
    looks: dict[str, MarkStyle] = {
        reference: MarkStyle(shape="circle", style="reference"),
        candidate: MarkStyle(shape="diamond", style="pair"),
    }
    between = MarkStyle(shape="circle", style="between")
    joining = MarkStyle(shape="triangle", style="joiner")
    return looks.get(arm.name, between if arm.name in declared.arms else joining)


def _steps(arm: ReadyTimes) -> list[tuple[float, float, int]]:
    count = len(arm.points)
    every = max(1, -(-count // _MOST_STEPS))
    places = sorted({*range(every - 1, count, every), count - 1})
    return [(arm.points[i][0], (i + 1) / count, arm.points[i][1]) for i in places]


def _ends(arms: Sequence[ReadyTimes]) -> list[float]:
    return [arm.points[i][0] for arm in arms for i in (0, -1)]


def table(analysis: Analysis, arms: Sequence[ReadyTimes]) -> Table:
    """Return median, p95 and the last of each arm."""
    unit = seconds.unit(_ends(arms))
    rows = tuple(
        (arm.name, counted(len(arm.points), arm.unit[:-1], arm.unit),
         *(f"{arm.quantile(share) * unit.per_second:.3f}" for share in (0.5, 0.95, 1.0)))
        for arm in arms
    )  # fmt: skip
    last = "last" if is_ready(analysis) else "most"
    return Table(
        name="Time until ready" if is_ready(analysis) else "Times of the launches",
        head=("side", "of", *(f"{name}, {unit.short}" for name in ("p50", "p95", last))),
        rows=rows,
        note="Descriptive: the ranks of one launch are not replicates.",
        numeric=True,
    )
