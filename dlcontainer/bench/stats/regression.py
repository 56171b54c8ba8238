"""One regression over pairs and controls: d ~ arm + place + carry-over. Pure.

d is the log-ratio of a pair. `arm` is what is asked for, and 0 in a control, where one arm runs
against itself. `place` is the effect of running second (of three: third as well). `carry` is what
a launch of another arm than the first leaves to the launch after it, whichever that is: in each
pair the candidate follows the reference or the other way round, so that half of it would count as
the arm's. Which arm ran before a pair varies; that, and the controls, tell it apart.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats import linear, neighbours
from dlcontainer.bench.stats.differences import Differences, PairDifference, PairOrder
from dlcontainer.bench.stats.linear import LinearSolution
from dlcontainer.bench.stats.neighbours import Rule

# Carry-over takes as many pairs as a verdict; of fewer it has no interval worth the degree.
FEWEST_CARRY = 8
# Controls of fewer than this have no variance of their own.
_FEWEST_OWN = 4
# Above, no rank interval is drawn (hodges_lehmann.MOST): the plain effects are taken out.
_MOST_ROBUST = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """A log of a factor, with its standard error and degrees of freedom."""

    value: float
    se: float
    df: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RegressionFit:
    """The model fitted; logs throughout.

    `mean` is the arm's effect, `sd` that of one pair's d around the model; `adjusted` the d without
    place and carry-over, these estimated robustly: one far launch would else shift every pair of
    its kind. Where the model cannot be fitted (fewer than 3 pairs, or one order only) `df` is 0 and
    `se` infinite. `place` is the effect of running second, `third` that of running third (triples);
    `carry` that of each further arm on the launch after it, None where it cannot be told apart.
    `lag` is the correlation of neighbouring pairs that `se` and `df` are corrected for, by `rule`.
    """

    numbers: Sequence[int]
    adjusted: Sequence[float]
    mean: float
    sd: float
    se: float
    df: float
    place: Effect | None = None
    third: float | None = None
    carry: tuple[Effect | None, ...] = ()
    lag: float = 0.0
    rule: Rule = "launches"

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.numbers)

    @property
    def order_effect(self) -> float:
        """The log of the factor by which running second changes a launch."""
        return self.place.value if self.place else math.nan

    @property
    def unit_sd(self) -> float:
        """The sd of a pair that alone would give this standard error: what planning needs."""
        return self.se * math.sqrt(self.n)


def fit(
    pairs: Sequence[PairDifference], *controls: Sequence[PairDifference], rule: Rule = "launches"
) -> RegressionFit:
    """Fit the model; each control is a series with a variance of its own.

    `rule` is how neighbouring pairs are taken to resemble each other. Raises ValueError without
    any pair.
    """
    if not pairs:
        raise ValueError("no pairs")
    series = [
        Differences.of(pairs),
        *(Differences.of(pairs_of) for pairs_of in controls if pairs_of),
    ]
    kept = columns_of([set(column.ran) for column in series], len(pairs))
    # Arm and place at least, and something left to tell the scatter by.
    if kept[:2] != (0, 1) or len(pairs) < 3 or sum(map(len, series)) <= len(kept):
        return _unfitted(series[0], rule)
    return _fitted(series, kept, rule)


def columns_of(orders: Sequence[set[PairOrder]], pairs: int) -> tuple[int, ...]:
    """Name the columns of `row` that can be told apart: arm, second, third, and the carries."""
    rows = [
        row(ran, of_pair=not i) for i, orders_of in enumerate(orders) for ran in sorted(orders_of)
    ]
    width = max(map(len, rows)) if pairs >= FEWEST_CARRY else 3
    padded = [(*padded_row, *([0.0] * width))[:width] for padded_row in rows]
    return linear.independent(padded, [1.0] * len(padded))


def row(ran: PairOrder, *, of_pair: bool) -> tuple[float, ...]:
    """Return the columns of a pair, or of a control's pair."""
    reference, candidate = ran.places
    second, third = (float(candidate == k) - float(reference == k) for k in (1, 2))
    return (float(of_pair), second, third, *map(float, ran.carry))


def _unfitted(pairs: Differences, rule: Rule) -> RegressionFit:
    mean = math.fsum(pairs.d) / len(pairs)
    return RegressionFit(
        numbers=pairs.numbers,
        adjusted=pairs.d,
        mean=mean,
        sd=math.nan,
        se=math.inf,
        df=0,
        rule=rule,
    )


@dataclass(frozen=True, slots=True)
class _Cell:
    """The differences of one series that ran alike: their columns, count and sum."""

    series: int
    columns: tuple[float, ...]
    count: int
    total: float


def _cells(series: Sequence[Differences], kept: tuple[int, ...]) -> Iterator[_Cell]:
    for number, differences in enumerate(series):
        sums: dict[PairOrder, list[float]] = {}
        for ran, d in zip(differences.ran, differences.d, strict=True):
            sums.setdefault(ran, []).append(d)
        for ran, values in sums.items():
            yield _Cell(number, _columns(ran, kept, number), len(values), math.fsum(values))


def _columns(ran: PairOrder, kept: tuple[int, ...], series: int) -> tuple[float, ...]:
    every = row(ran, of_pair=not series)
    return tuple(every[i] if i < len(every) else 0.0 for i in kept)


def _fitted(series: Sequence[Differences], kept: tuple[int, ...], rule: Rule) -> RegressionFit:
    cells = list(_cells(series, kept))
    rows, counts = [cell.columns for cell in cells], [cell.count for cell in cells]
    solved = linear.solve(rows, counts, [cell.total for cell in cells])
    residuals = [
        _left(differences, kept, number, solved.effects)
        for number, differences in enumerate(series)
    ]
    variances, freedoms = _variances(cells, solved, residuals)
    lag = neighbours.correlation(neighbours.seen(residuals[0]), len(residuals[0]), rule)
    freedoms[0] = neighbours.freedom(freedoms[0], lag, rule)
    spread = _Spread(cells, solved, variances, freedoms, lag)
    named = {column: spread.effect(i) for i, column in enumerate(kept)}
    arm, carries = (
        named[0],
        max(len(ran.carry) for differences in series for ran in set(differences.ran)),
    )
    third = named.get(2)
    return RegressionFit(
        numbers=series[0].numbers,
        adjusted=_adjusted(series, kept, solved.effects),
        mean=arm.value,
        sd=math.sqrt(variances[0]),
        se=arm.se,
        df=arm.df,
        place=named[1],
        third=third.value if third else None,
        carry=tuple(named.get(3 + i) for i in range(carries)),
        lag=lag,
        rule=rule,
    )


def _left(
    differences: Differences, kept: tuple[int, ...], series: int, effects: Sequence[float]
) -> "array[float]":
    expected = {
        ran: linear.dot(_columns(ran, kept, series), effects) for ran in set(differences.ran)
    }
    return array(
        "d", (d - expected[ran] for d, ran in zip(differences.d, differences.ran, strict=True))
    )


def _variances(
    cells: Sequence[_Cell], solved: LinearSolution, residuals: Sequence["array[float]"]
) -> tuple[list[float], list[float]]:
    """Return each series' variance and degrees of freedom; small controls share the pairs'."""
    squares = [math.fsum(x * x for x in of_series) for of_series in residuals]
    freedoms = [float(len(of_series)) for of_series in residuals]
    for cell in cells:
        freedoms[cell.series] -= cell.count * linear.dot(cell.columns, solved.weights(cell.columns))
    shared = [i for i, of_series in enumerate(residuals) if not i or len(of_series) < _FEWEST_OWN]
    if freedoms[0] < 1:
        shared = list(range(len(residuals)))
    joint = sum(freedoms[i] for i in shared)
    variance = math.fsum(squares[i] for i in shared) / joint
    return (
        [variance if i in shared else squares[i] / freedoms[i] for i in range(len(residuals))],
        [joint if i in shared else freedoms[i] for i in range(len(residuals))],
    )


@dataclass(frozen=True, slots=True)
class _Spread:
    """Standard errors by series; the pairs' share is corrected for their correlation in time."""

    cells: Sequence[_Cell]
    solved: LinearSolution
    variances: Sequence[float]
    freedoms: Sequence[float]
    lag: float

    def effect(self, column: int) -> Effect:
        """Return one coefficient; degrees of freedom by Welch and Satterthwaite."""
        parts = [0.0] * len(self.variances)
        inflated = neighbours.inflation(self.lag)
        for cell in self.cells:
            weight = self.solved.weights(cell.columns)[column]
            part = self.variances[cell.series] * cell.count * weight * weight
            parts[cell.series] += part if cell.series else part * inflated
        whole = math.fsum(parts)
        degrees = math.fsum(v * v / df for v, df in zip(parts, self.freedoms, strict=True))
        return Effect(
            value=self.solved.effects[column],
            se=math.sqrt(whole),
            df=whole * whole / degrees if degrees else self.freedoms[0],
        )


def _adjusted(
    series: Sequence[Differences], kept: tuple[int, ...], effects: tuple[float, ...]
) -> "array[float]":
    rows = [
        _columns(ran, kept, i) for i, differences in enumerate(series) for ran in differences.ran
    ]
    if len(rows) <= _MOST_ROBUST:
        effects = linear.huber(rows, [d for differences in series for d in differences.d], effects)
    apart = (0.0, *effects[1:])
    taken = {ran: linear.dot(_columns(ran, kept, 0), apart) for ran in set(series[0].ran)}
    pairs = series[0]
    return array("d", (d - taken[ran] for d, ran in zip(pairs.d, pairs.ran, strict=True)))
