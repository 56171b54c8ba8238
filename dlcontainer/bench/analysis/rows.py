"""Each declared row over a session's pairs: the family is shown, none of it is judged. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum, isnan
from typing import Literal

from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.analysis.pairing import LaunchPairs, PairFigure
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.samples.rows.row_records import FIGURES, PARTS, Parameters
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair
from dlcontainer.bench.stats import paired

Told = Literal["slower", "faster", "not told apart"]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowSide:
    """A row on one side, over the launches of all pairs: seconds.

    `best` is that of all launches, `median` the mean of their medians; `cpu` and `steal` are the
    means of what a launch took for all repetitions of the row.
    """

    arm: ArmName
    best: float
    median: float
    cpu: float
    steal: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RowReading:
    """One row: the ratio of its medians over the pairs, with Holm's p over all rows."""

    parameters: Parameters
    sides: tuple[RowSide, ...]
    figure: PairFigure
    p_holm: float
    direction: Told


@dataclass(frozen=True, kw_only=True, slots=True)
class Mean:
    """The mean of a row's medians over one arm's launches, s."""

    parameters: Parameters
    seconds: float


def of(series: Series, by_role: Mapping[Role, LaunchPairs], alpha: float) -> tuple[RowReading, ...]:
    """Read every declared row; those without a whole pair are left out."""
    declared, pairs = series.session.declared, by_role["pair"]
    controls = pairing.controls_of(by_role)
    readings = []
    for number, parameters in enumerate(declared.rows.rows if declared.rows else ()):
        name = f"{FIGURES}.{number}.median"
        figure = pairing.figure(name, "pair", pairs, alpha, controls)
        if figure is not None:
            readings.append((parameters, tuple(_sides(number, pairs, declared.sides)), figure))
    adjusted = paired.holm([paired.p_value(figure.fitted) for *_, figure in readings])
    return tuple(
        RowReading(
            parameters=parameters,
            sides=sides,
            figure=figure,
            p_holm=p,
            direction=_told(figure, p, alpha),
        )
        for (parameters, sides, figure), p in zip(readings, adjusted, strict=True)
    )


def _sides(number: int, pairs: LaunchPairs, arms: ArmPair) -> Iterator[RowSide]:
    for arm, launches in zip(arms.names, (pairs.reference, pairs.candidate), strict=True):
        columns = {
            part: pairs.launches.column(f"{FIGURES}.{number}.{part}", launches) for part in PARTS
        }
        # What was not taken at all is no figure of a launch.
        seconds = {
            part: [0.0 if isnan(x) else x for x in column] for part, column in columns.items()
        }
        yield RowSide(
            arm=arm,
            best=min(seconds["best"]),
            median=_mean(seconds["median"]),
            cpu=_mean(seconds["cpu_s"]),
            steal=_mean(seconds["steal_s"]),
        )


def _mean(values: list[float]) -> float:
    return fsum(values) / len(values)


def _told(figure: PairFigure, p: float, alpha: float) -> Told:
    # Among many rows some seem to differ by chance: the correction is over all of them.
    if p > alpha or not figure.interval.excludes_one():
        return "not told apart"
    return "slower" if figure.interval.ratio > 1 else "faster"


def means(series: Series, arm: ArmName) -> Iterator[Mean]:
    """Yield each row's mean in the pairs or triples; none of a row that a launch has no time of."""
    plan, launches = series.session.declared.rows, series.launches
    used = launches.where(
        lambda kind: kind.ok and kind.arm == arm and kind.role in {"pair", "triple"}
    )
    for number, parameters in enumerate(plan.rows if plan and used else ()):
        mean = _mean(list(launches.column(f"{FIGURES}.{number}.median", used)))
        if not isnan(mean):
            yield Mean(parameters=parameters, seconds=mean)
