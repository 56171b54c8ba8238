"""Ratios of means of independent launches, and shares of a mean, with intervals. Pure.

A mean is the arithmetic one: a job pays its stalls. Variances are the delta method's (of the log of
a ratio, and of a share as it stands); degrees of freedom are Welch's, by Satterthwaite's formula
(Welch, Biometrika 34, 1947). Launches that follow each other may resemble each other: each variance
is raised by the rule of launches in `neighbours`, which shrinks its degrees of freedom too.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats import neighbours, student_t
from dlcontainer.bench.stats.paired import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """A share, negative ones too, with its two-sided interval; infinite where nothing bounds it."""

    share: float
    low: float
    high: float

    @property
    def is_told_apart(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class WeightedMean:
    """Launches of another measurement, and what a second of their mean adds to a numerator."""

    values: Sequence[float]
    weight: float


@dataclass(frozen=True, slots=True)
class _Variance:
    """The variance of a mean, and its degrees of freedom; 0 of these where nothing is known."""

    square: float
    df: float


def ratio(above: Sequence[float], below: Sequence[float], level: float) -> Interval:
    """Return the ratio of two means of positive values; [0, inf] where a side has one launch."""
    top, bottom = mean(above), mean(below)
    parts = (_variance([x / top for x in above]), _variance([x / bottom for x in below]))
    half = _half_width(parts, level)
    centre = top / bottom
    spread = math.exp(half) if half < 700 else math.inf
    return Interval(ratio=centre, low=centre / spread, high=centre * spread, level=level)


def share(
    part: Sequence[float], whole: Sequence[float], extras: Iterable[WeightedMean], level: float
) -> Share:
    """Return (mean of `part` + weighted means of `extras`) / mean of `whole`.

    `part` and `whole` are of the same launches, in their order.
    """
    total, besides = mean(whole), tuple(extras)
    top = mean(part) + math.fsum(extra.weight * mean(extra.values) for extra in besides)
    centre = top / total
    residuals = [(x - centre * w) / total for x, w in zip(part, whole, strict=True)]
    # Of one launch the residual is 0 by its making, and tells nothing.
    parts = [_variance(residuals) if len(whole) > 1 else _Variance(0.0, 0.0)]
    parts += [_variance([extra.weight * x / total for x in extra.values]) for extra in besides]
    half = _half_width(parts, level)
    return Share(share=centre, low=centre - half, high=centre + half)


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean."""
    return math.fsum(values) / len(values)


def _variance(values: Sequence[float]) -> _Variance:
    n = len(values)
    if not any(values):
        # A part that is nothing by definition: known, whatever the number of launches.
        return _Variance(0.0, math.inf)
    if n < 2:
        return _Variance(0.0, 0.0)
    centre = mean(values)
    residuals = [x - centre for x in values]
    square = math.fsum(x * x for x in residuals) / (n - 1) / n
    lag = neighbours.correlation(neighbours.seen(residuals), n, "launches")
    df = neighbours.freedom(n - 1, lag, "launches")
    return _Variance(square * neighbours.inflation(lag), df)


def _half_width(parts: Sequence[_Variance], level: float) -> float:
    if any(part.df < 1 for part in parts):
        return math.inf
    square = math.fsum(part.square for part in parts)
    if not square:
        return 0.0
    df = square**2 / math.fsum(part.square**2 / part.df for part in parts)
    return student_t.quantile((1 - level) / 2, df) * math.sqrt(square)
