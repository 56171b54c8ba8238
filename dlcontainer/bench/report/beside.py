"""What was measured here beside a published point that no session can judge: figures alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from dlcontainer.bench.analysis.rows import RowReading
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.samples.traits import Derived
from dlcontainer.config.field_types import Line, Strict

# The seconds of a row: what every probe of rows has, beside what follows from them.
_SECONDS = Derived(name="seconds", unit="s", better="less", of=lambda _row, seconds: seconds)


class Beside(Strict):
    """A figure of a probe's sessions: of its rows the best one, or a mean of its launches.

    `rows` says which rows, by their parameters; `tell` which parameters of the row are named.
    """

    probe: Line
    figure: Line
    rows: Mapping[str, Line] = {}
    tell: tuple[Line, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """One figure of each arm of a session."""

    named: str
    values: Mapping[str, float]
    unit: str


def text(wanted: Beside, analyses: Sequence[Analysis]) -> str:
    """Say what was measured, session by session; empty where nothing of it was."""
    return "; ".join(_texts(wanted, analyses))


def _texts(wanted: Beside, analyses: Sequence[Analysis]) -> Iterator[str]:
    for analysis in analyses:
        series = analysis.series
        if series.session.declared.probe != wanted.probe:
            continue
        found = _of_rows(wanted, analysis) or _of_launches(wanted, analysis)
        if found is not None:
            arms = ", ".join(f"{arm} {_shown(value)}" for arm, value in found.values.items())
            name = f"{series.path.name}: {found.named}"
            yield f"{name}: {arms} {found.unit}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _of_rows(wanted: Beside, analysis: Analysis) -> _Found | None:
    """Give the best row; the row is the candidate's, so that both arms tell of the same one."""
    derived = _derived(wanted.figure, analysis)
    if derived is None:
        return None
    sign = 1 if derived.better == "less" else -1
    known = [
        (sign * fitting[-1], reading, fitting)
        for reading in analysis.rows
        if _is_wanted(wanted, reading) and (fitting := _each(derived, reading))
    ]
    if not known:
        return None
    _, best, values = min(known, key=lambda one: one[0])
    words = [f"{name} {best.parameters[name]}" for name in wanted.tell if name in best.parameters]
    return _Found(
        named=" ".join([*wanted.rows.values(), *words, wanted.figure]),
        values=dict(zip((side.arm for side in best.sides), values, strict=True)),
        unit=derived.unit,
    )


def _derived(figure: str, analysis: Analysis) -> Derived | None:
    known = (*analysis.traits.derived, _SECONDS)
    return next((one for one in known if one.name == figure), None)


def _is_wanted(wanted: Beside, reading: RowReading) -> bool:
    return all(str(reading.parameters.get(name)) == value for name, value in wanted.rows.items())


def _each(derived: Derived, reading: RowReading) -> tuple[float, ...]:
    found = [derived.of(reading.parameters, side.median) for side in reading.sides]
    return tuple(value for value in found if value is not None) if all(found) else ()


def _of_launches(wanted: Beside, analysis: Analysis) -> _Found | None:
    metric = next((one for one in analysis.traits.metrics if one.name == wanted.figure), None)
    if metric is None:
        return None
    series = analysis.series
    values: dict[str, float] = {}
    for arm in series.session.declared.arms:
        used = [s for s in series.samples if s.arm == arm and s.role in {"pair", "triple"} and s.ok]
        known = [value for s in used if (value := s.figure(metric.name)) is not None]
        if not known:
            return None
        values[arm] = fsum(known) / len(known)
    return _Found(named=f"mean {metric.name}", values=values, unit=metric.unit)
