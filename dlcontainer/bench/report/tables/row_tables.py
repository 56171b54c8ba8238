"""The rows of a session: times on both sides and their ratio; what follows, what was beside."""

from collections.abc import Iterator

from dlcontainer.bench.analysis.rows import RowReading
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples.traits import ROWS_METRIC, DerivedFigure

_LONG = 1e12
_NOTHING = Table(name="", head=(), rows=())


def times(analysis: Analysis) -> Table:
    """Return every declared row's times and ratio; empty for a session that has none."""
    plan, arms = analysis.series.session.declared.rows, analysis.series.session.declared.arms
    if plan is None:
        return _NOTHING
    names, sides = _names(analysis), (arms[0], arms[-1])
    return Table(
        name="The rows",
        head=(
            *names,
            *(f"{arm}, {what}, us" for arm in sides for what in ("best", "median")),
            *("ratio", f"{100 * (1 - analysis.alpha):.3g} % interval", "p (Holm)", "reading"),
        ),
        rows=tuple(tuple(_times(reading, names)) for reading in analysis.rows),
        note="Microseconds, less is better: the best time of all launches, and the mean of the "
        f"launches' medians. Ratios are those of the medians, {sides[1]} over {sides[0]}. No row "
        f"is judged: the verdict is on {ROWS_METRIC}, the geometric mean of all rows, declared "
        f"before. A row differs where p, by Holm's correction over all {len(plan.rows)} rows, is "
        f"at most {analysis.alpha:.3g}; where it does not, its scatter is too large for what it "
        "shows.",
        numeric=True,
    )


def beside(analysis: Analysis) -> Table:
    """Return what follows from the rows' times, and what was taken besides."""
    if analysis.series.session.declared.rows is None:
        return _NOTHING
    names, derived = _names(analysis), analysis.traits.derived
    sides = analysis.series.session.declared.sides.names
    directions = "".join(
        f"{figure.name} ({figure.unit}): {figure.better} is better. " for figure in derived
    )
    return Table(
        name="Beside the rows' times",
        head=(
            *names,
            *(f"{arm}, {figure.name}, {figure.unit}" for figure in derived for arm in sides),
            *(f"{arm}, {what}, s" for arm in sides for what in ("processor", "steal")),
        ),
        rows=tuple(tuple(_beside(reading, names, derived)) for reading in analysis.rows),
        note=f"{directions}Of the medians. Processor time of all ranks, and what a hypervisor "
        "kept from the node's processors meanwhile, over all repetitions of a launch (means): "
        "less is better.",
        numeric=True,
    )


def _names(analysis: Analysis) -> tuple[str, ...]:
    plan = analysis.series.session.declared.rows
    return tuple(dict.fromkeys(name for row in (plan.rows if plan else ()) for name in row))


def _parameters(reading: RowReading, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        value = reading.parameters.get(name, "")
        yield f"{value:,}" if isinstance(value, int) else value


def significant(value: float, digits: int) -> str:
    """Write so many significant digits without a power of ten, as long as that is short."""
    rounded = float(f"{value:.{digits}g}")
    return f"{rounded:,.0f}" if 10 ** (digits - 1) <= rounded < _LONG else f"{value:.{digits}g}"


def _times(reading: RowReading, names: tuple[str, ...]) -> Iterator[str]:
    yield from _parameters(reading, names)
    for side in reading.sides:
        yield significant(1e6 * side.best, 4)
        yield significant(1e6 * side.median, 4)
    interval = reading.figure.interval
    yield f"{interval.ratio:.3f}"
    yield verdict_text.low_to_high(interval)
    yield f"{reading.p_holm:.2g}"
    yield reading.direction


def _beside(
    reading: RowReading, names: tuple[str, ...], derived: tuple[DerivedFigure, ...]
) -> Iterator[str]:
    yield from _parameters(reading, names)
    for derived_figure in derived:
        for side in reading.sides:
            figure = derived_figure.of(reading.parameters, side.median)
            yield "-" if figure is None else significant(figure, 3)
    for side in reading.sides:
        yield f"{side.cpu:.3g}"
        yield f"{side.steal:.3g}"


def plain(analysis: Analysis) -> list[dict[str, object]]:
    """Return the rows for programs, one object each; units stand in the names."""
    return [_plain(reading, analysis.traits.derived) for reading in analysis.rows]


def _plain(reading: RowReading, derived: tuple[DerivedFigure, ...]) -> dict[str, object]:
    interval, is_known = reading.figure.interval, reading.figure.fitted.df > 0
    arms = {
        side.arm: {
            "best_s": side.best,
            "median_s": side.median,
            "cpu_s": side.cpu,
            "steal_s": side.steal,
            **{
                f"{figure.name}_{figure.unit}": figure.of(reading.parameters, side.median)
                for figure in derived
            },
        }
        for side in reading.sides
    }
    return {
        "parameters": dict(reading.parameters),
        "pairs": reading.figure.fitted.n,
        "arms": arms,
        "ratio": interval.ratio,
        "low": interval.low if is_known else None,
        "high": interval.high if is_known else None,
        "level": interval.level,
        "p_holm": reading.p_holm,
        "reading": reading.direction,
    }
