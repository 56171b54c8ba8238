"""What was measured here beside a published point that no session can judge: figures alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from dlcontainer.bench.analysis.rows import RowReading
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples.traits import DerivedFigure
from dlcontainer.config.field_types import Line, Strict

# The seconds of a row: what every probe of rows has, beside what follows from them.
_SECONDS = DerivedFigure(name="seconds", unit="s", better="less", of=lambda _row, seconds: seconds)


class FigureSelector(Strict):
    """A figure of a probe's sessions: of its rows the best one, or a mean of its launches.

    `rows` says which rows, by their parameters; `tell` which parameters of the row are named.
    """

    probe: Line
    figure: Line
    rows: Mapping[str, Line] = {}
    tell: tuple[Line, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _ArmFigure:
    """One figure of each arm of a session."""

    named: str
    values: Mapping[str, float]
    unit: str


def text(selector: FigureSelector, analyses: Sequence[Analysis]) -> str:
    """Return what was measured, session by session; empty where nothing of it was."""
    return "; ".join(_texts(selector, analyses))


def _texts(selector: FigureSelector, analyses: Sequence[Analysis]) -> Iterator[str]:
    for analysis in analyses:
        series = analysis.series
        if series.session.declared.probe != selector.probe:
            continue
        arm_figure = _of_rows(selector, analysis) or _of_launches(selector, analysis)
        if arm_figure is not None:
            arms = ", ".join(f"{arm} {_shown(value)}" for arm, value in arm_figure.values.items())
            name = f"{series.path.name}: {arm_figure.named}"
            yield f"{name}: {arms} {arm_figure.unit}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _of_rows(selector: FigureSelector, analysis: Analysis) -> _ArmFigure | None:
    """Return the best row; the row is the candidate's, so that both arms tell of the same one."""
    derived = _derived(selector.figure, analysis)
    if derived is None:
        return None
    sign = 1 if derived.better == "less" else -1
    candidates = [
        (sign * fitting[-1], reading, fitting)
        for reading in analysis.rows
        if _is_wanted(selector, reading) and (fitting := _each(derived, reading))
    ]
    if not candidates:
        return None
    _, best, values = min(candidates, key=lambda candidate: candidate[0])
    words = [f"{name} {best.parameters[name]}" for name in selector.tell if name in best.parameters]
    return _ArmFigure(
        named=" ".join([*selector.rows.values(), *words, selector.figure]),
        values=dict(zip((side.arm for side in best.sides), values, strict=True)),
        unit=derived.unit,
    )


def _derived(figure: str, analysis: Analysis) -> DerivedFigure | None:
    figures = (*analysis.traits.derived, _SECONDS)
    return next((derived for derived in figures if derived.name == figure), None)


def _is_wanted(selector: FigureSelector, reading: RowReading) -> bool:
    return all(str(reading.parameters.get(name)) == value for name, value in selector.rows.items())


def _each(derived: DerivedFigure, reading: RowReading) -> tuple[float, ...]:
    seconds = [derived.of(reading.parameters, side.median) for side in reading.sides]
    return tuple(value for value in seconds if value is not None) if all(seconds) else ()


def _of_launches(selector: FigureSelector, analysis: Analysis) -> _ArmFigure | None:
    metric = next(
        (metric for metric in analysis.traits.metrics if metric.name == selector.figure), None
    )
    if metric is None:
        return None
    series = analysis.series
    values: dict[str, float] = {}
    for arm in series.session.declared.arms:
        used = [s for s in series.samples if s.arm == arm and s.role in {"pair", "triple"} and s.ok]
        figures = [value for s in used if (value := s.figure(metric.name)) is not None]
        if not figures:
            return None
        values[arm] = fsum(figures) / len(figures)
    return _ArmFigure(named=f"mean {metric.name}", values=values, unit=metric.unit)
