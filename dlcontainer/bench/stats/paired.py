"""Ratios of paired launches: intervals, p, levels of looks. No file, no clock, no random number.

One number a pair: d = log(time of the candidate / time of the reference). See `regression`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats import margins, student_t
from dlcontainer.bench.stats.regression import Effect, RegressionFit

# Looks at the same growing data spend alpha. A constant two-sided level per look that holds the
# whole at 0.05; simulated for a normal walk: 0.046 over either of these (0.11-0.12 without).
SPENT: dict[tuple[tuple[int, ...], float], float] = {
    ((8, 16, 32), 0.05): 0.019,
    ((12, 18, 36), 0.05): 0.020,
}


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
        """Whether the whole interval lies in the margin's band."""
        return margins.band(margin).holds(self.low, self.high)

    def beyond(self, margin: float) -> bool:
        """Whether the whole interval lies outside of the margin's band."""
        band = margins.band(margin)
        return self.low > band.high or self.high < band.low

    def widened(self, factor: float) -> "Interval":
        """Return the same interval so many times as wide, in logs."""
        return Interval(
            ratio=self.ratio,
            low=self.ratio * (self.low / self.ratio) ** factor,
            high=self.ratio * (self.high / self.ratio) ** factor,
            level=self.level,
        )

    def is_narrow(self, margin: float) -> bool:
        """Whether the interval is no wider than the margin: than half of its band, in logs."""
        return self.low > 0 and self.high / self.low <= margins.band(margin).high


def interval(fitted: RegressionFit, level: float) -> Interval:
    """Return the ratio and its t interval; [0, inf] where the model could not be fitted."""
    return _t_interval(Effect(value=fitted.mean, se=fitted.se, df=fitted.df), level)


def effect_interval(effect: Effect, level: float) -> Interval:
    """Return the factor of an effect beside the arm's, and its t interval."""
    return _t_interval(effect, level)


def _t_interval(effect: Effect, level: float) -> Interval:
    if effect.df < 1:
        return Interval(ratio=math.exp(effect.value), low=0.0, high=math.inf, level=level)
    return _bounded(effect.value, effect.se, effect.df, level)


def _bounded(centre: float, se: float, df: float, level: float) -> Interval:
    half = student_t.quantile((1 - level) / 2, df) * se
    return Interval(
        ratio=math.exp(centre),
        low=math.exp(centre - half),
        high=_exp(centre + half),
        level=level,
    )


def spent_alpha(looks: Sequence[int], alpha: float) -> float:
    """Return the level of each look: alpha for one, the table's, else Bonferroni's, always
    valid.
    """
    if len(looks) <= 1:
        return alpha
    return SPENT.get((tuple(looks), alpha), alpha / len(looks))


def p_value(fitted: RegressionFit) -> float:
    """Return the two-sided p of a ratio of 1; 1 where the model could not be fitted."""
    if fitted.df < 1:
        return 1.0
    if fitted.se == 0:
        return 1.0 if fitted.mean == 0 else 0.0
    return 2 * student_t.tail(abs(fitted.mean) / fitted.se, fitted.df)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return Holm's adjusted p, in the order given: at most alpha of families err when all are
    1.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return tuple(adjusted)


def mean_interval(values: Sequence[float], level: float) -> Interval:
    """Return the ratio of a mean of logs and its t interval, df n - 1; [0, inf] below two
    values.
    """
    centre, df = _mean(values), len(values) - 1
    if df < 1:
        return Interval(ratio=math.exp(centre), low=0.0, high=math.inf, level=level)
    sd = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / df)
    return _bounded(centre, sd / math.sqrt(len(values)), df, level)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
