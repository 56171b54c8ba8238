"""Hodges and Lehmann's estimate and its interval: robust to outliers. Pure.

Source: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3.2-3.3.
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from dlcontainer.bench.stats.linear import median
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.stats.regression import RegressionFit

FEWEST = 6  # no signed-rank interval at 95 % exists below
# The Walsh averages are n(n+1)/2 numbers: a diagnostic for sessions, not for archives.
MOST = 2000
_EXACT = 60  # above, the signed-rank distribution is as good as normal


def walsh(values: Sequence[float]) -> tuple[float, ...]:
    """Return the ordered means of all pairs of values, each with itself too; empty above 2,000."""
    n = len(values)
    if n > MOST:
        return ()
    return tuple(sorted((values[i] + values[j]) / 2 for i in range(n) for j in range(i, n)))


def interval(averages: Sequence[float], n: int, level: float) -> Interval | None:
    """Return the Hodges-Lehmann ratio and its signed-rank interval from n values' Walsh averages.

    The attainable level nearest to the asked one is taken: the interval is a diagnostic. None
    below 6 pairs, above 2,000, and where no interval reaches the level.
    """
    if not averages or n < FEWEST or 1 - 2.0 ** (1 - n) < level:
        return None
    below, attained = cut(n, (1 - level) / 2)
    return Interval(
        ratio=math.exp(median(averages)),
        low=math.exp(averages[below]),
        high=math.exp(averages[-1 - below]),
        level=attained,
    )


@cache
def cut(n: int, tail: float) -> tuple[int, float]:
    """Return how many Walsh averages lie outside at each end, and the level that this attains."""
    if n > _EXACT:
        mean, sd = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(0, round(mean + NormalDist().inv_cdf(tail) * sd - 0.5)), 1 - 2 * tail
    # counts[w]: how many of the 2^n sign patterns have the rank sum w.
    counts = [1]
    for rank in range(1, n + 1):
        counts = [
            (counts[w] if w < len(counts) else 0) + (counts[w - rank] if w >= rank else 0)
            for w in range(len(counts) + rank)
        ]
    below, best = 0, (0, 0.0)
    for w, count in enumerate(counts):
        below += count
        share = below / 2**n
        if abs(share - tail) < abs(best[1] - tail) or w == 0:
            best = (w, share)
        if share > tail:
            break
    return best[0], 1 - 2 * best[1]


def outlying(fitted: RegressionFit) -> tuple[int, ...]:
    """Name the pairs more than 3 robust sd from the median, of whom there may be none."""
    middle = median(sorted(fitted.adjusted))
    away = [abs(d - middle) for d in fitted.adjusted]
    spread = 1.4826 * median(sorted(away))  # the MAD of a normal sample, as its sd
    return tuple(n for n, size in zip(fitted.numbers, away, strict=True) if size > 3 * spread)
