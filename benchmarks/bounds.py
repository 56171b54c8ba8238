"""The bounds of a count of sessions, and of a mean over them."""

from collections.abc import Sequence
from math import sqrt
from statistics import stdev

from dlcontainer.bench.stats import student_t
from dlcontainer.bench.stats.counts import rate_not_excluded


def clopper_pearson(hits: int, count: int) -> list[float]:
    """Return the exact bounds of a share, each wrong in at most one case of twenty.

    >>> [round(100 * bound, 1) for bound in clopper_pearson(0, 40)]
    [0.0, 7.2]
    >>> [round(100 * bound, 1) for bound in clopper_pearson(2, 40)]
    [0.9, 14.9]
    """
    # Of the share that is no hit, the upper bound is the lower one of the share that is.
    return [1 - rate_not_excluded(count - hits, count), rate_not_excluded(hits, count)]


def half_of_mean(values: Sequence[float]) -> float | None:
    """Return half of the 95 % t interval of a mean over sessions; None for fewer than three."""
    if len(values) < 3:
        return None
    return student_t.quantile(0.025, len(values) - 1) * stdev(values) / sqrt(len(values))
