"""Statistics of paired launches: pure functions of log-ratios; no file, no clock, no random number.

One number a pair: d = log(time of the candidate / time of the reference). The model is
d = arm + order, where the launch that ran second may be slower or faster by a common factor; the
degrees of freedom are n - 2. Triples have the model of `places`.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from dlcontainer.bench.stats import student_t

# Looks at the same growing data spend alpha. A constant two-sided level per look that holds the
# whole at 0.05; simulated for a normal walk: 0.046 over either of these (0.11-0.12 without).
SPENT: dict[tuple[tuple[int, ...], float], float] = {
    ((8, 16, 32), 0.05): 0.019,
    ((12, 18, 36), 0.05): 0.020,
}

# Hodges and Lehmann's shift takes the product of the two orders' numbers; above, their medians'.
MOST_SHIFTS = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One pair: its number, d, and whether the candidate ran before the reference.

    In a triple `places` are the reference's and the candidate's, from 0.
    """

    number: int
    d: float
    candidate_first: bool
    places: tuple[int, int] | None = None


# Whether the candidate ran before the reference; in a triple also the places of both.
Ran = tuple[bool, tuple[int, int] | None]


class Differences(Sequence[Difference]):
    """Many pairs as columns, for there may be a million: numbers, d, and how each pair ran."""

    def __init__(self, numbers: Iterable[int], d: Iterable[float], ran: Sequence[Ran]) -> None:
        self.numbers, self.d, self.ran = array("Q", numbers), array("d", d), ran

    @classmethod
    def of(cls, found: Sequence[Difference]) -> "Differences":
        """Give pairs as columns."""
        if isinstance(found, Differences):
            return found
        ran = [(item.candidate_first, item.places) for item in found]
        return cls((item.number for item in found), (item.d for item in found), ran)

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Difference: ...
    @overload
    def __getitem__(self, index: slice) -> "Differences": ...
    def __getitem__(self, index: int | slice) -> "Difference | Differences":
        if isinstance(index, slice):
            return Differences(self.numbers[index], self.d[index], self.ran[index])
        first, places = self.ran[index]
        return Difference(
            number=self.numbers[index], d=self.d[index], candidate_first=first, places=places
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A ratio with its two-sided interval at `level`."""

    ratio: float
    low: float
    high: float
    level: float

    def excludes_one(self) -> bool:
        """Whether the whole interval lies on one side of 1."""
        return self.low > 1 or self.high < 1

    def within(self, margin: float) -> bool:
        """Whether the whole interval lies in [1/(1+m), 1+m]."""
        return self.low >= 1 / (1 + margin) and self.high <= 1 + margin

    def beyond(self, margin: float) -> bool:
        """Whether the whole interval lies outside of [1/(1+m), 1+m]."""
        return self.low > 1 + margin or self.high < 1 / (1 + margin)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """The model fitted; logs throughout.

    `order_effect` is the log of the factor by which running second changes a launch; `sd` that of
    one pair's d around the model; `adjusted` the d without the order effect, this one estimated
    robustly: one far launch would else shift every pair of its order. Where the model
    cannot be fitted (fewer than 3 pairs, or one order only) `df` is 0 and `se` infinite. `third` is
    the effect of running third, in triples.
    """

    numbers: Sequence[int]
    adjusted: Sequence[float]
    mean: float
    order_effect: float
    sd: float
    se: float
    df: int
    third: float | None = None

    @property
    def n(self) -> int:
        """The number of pairs."""
        return len(self.numbers)


def fit(differences: Sequence[Difference]) -> Fit:
    """Fit d ~ arm + order by least squares (each order's mean; their half sum and difference).

    Raises ValueError without any pair.
    """
    if not differences:
        raise ValueError("no pairs")
    found = Differences.of(differences)
    numbers, d, ran = found.numbers, found.d, found.ran
    after = [x for x, (first, _) in zip(d, ran, strict=True) if not first]
    before = [x for x, (first, _) in zip(d, ran, strict=True) if first]
    if not after or not before or len(d) < 3:
        nan = math.nan
        return Fit(
            numbers=numbers, adjusted=d, mean=_mean(d), order_effect=nan, sd=nan, se=math.inf, df=0
        )
    order = (_mean(after) - _mean(before)) / 2
    mean = (_mean(after) + _mean(before)) / 2
    df = len(d) - 2
    squares = (
        (x - mean + (order if first else -order)) ** 2 for x, (first, _) in zip(d, ran, strict=True)
    )
    sd = math.sqrt(math.fsum(squares) / df)
    se = sd / 2 * math.sqrt(1 / len(after) + 1 / len(before))
    robust = _shift(after, before) / 2
    adjusted = array(
        "d", (x + (robust if first else -robust) for x, (first, _) in zip(d, ran, strict=True))
    )
    return Fit(
        numbers=numbers, adjusted=adjusted, mean=mean, order_effect=order, sd=sd, se=se, df=df
    )


def _shift(after: Sequence[float], before: Sequence[float]) -> float:
    """Give Hodges and Lehmann's shift between the two orders: the median of all differences."""
    if len(after) * len(before) > MOST_SHIFTS:
        return median(sorted(after)) - median(sorted(before))
    return median(sorted(one - other for one in after for other in before))


def interval(fitted: Fit, level: float) -> Interval:
    """Give the ratio and its t interval; [0, inf] where the model could not be fitted."""
    return _t_interval(fitted.mean, fitted, level)


def order_interval(fitted: Fit, level: float) -> Interval:
    """Give the factor of running second and its t interval; of pairs, whose errors are one."""
    return _t_interval(fitted.order_effect, fitted, level)


def _t_interval(centre: float, fitted: Fit, level: float) -> Interval:
    if fitted.df < 1:
        return Interval(ratio=math.exp(centre), low=0.0, high=math.inf, level=level)
    return _bounded(centre, fitted.se, fitted.df, level)


def _bounded(centre: float, se: float, df: int, level: float) -> Interval:
    half = student_t.quantile((1 - level) / 2, df) * se
    return Interval(
        ratio=math.exp(centre),
        low=math.exp(centre - half),
        high=_exp(centre + half),
        level=level,
    )


def spent_alpha(looks: Sequence[int], alpha: float) -> float:
    """Give the level of each look: alpha for one, the table's, else Bonferroni's, always valid."""
    if len(looks) <= 1:
        return alpha
    return SPENT.get((tuple(looks), alpha), alpha / len(looks))


def p_value(fitted: Fit) -> float:
    """Give the two-sided p of a ratio of 1; 1 where the model could not be fitted."""
    if fitted.df < 1:
        return 1.0
    if fitted.se == 0:
        return 1.0 if fitted.mean == 0 else 0.0
    return 2 * student_t.tail(abs(fitted.mean) / fitted.se, fitted.df)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Give Holm's adjusted p, in the order given: at most alpha of families err when all are 1."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)


def mean_interval(values: Sequence[float], level: float) -> Interval:
    """Give the ratio of a mean of logs and its t interval, df n - 1; [0, inf] below two values."""
    centre, df = _mean(values), len(values) - 1
    if df < 1:
        return Interval(ratio=math.exp(centre), low=0.0, high=math.inf, level=level)
    sd = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / df)
    return _bounded(centre, sd / math.sqrt(len(values)), df, level)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def median(ordered: Sequence[float]) -> float:
    """Give the median of ordered values."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
