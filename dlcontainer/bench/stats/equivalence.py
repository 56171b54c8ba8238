"""Two one-sided tests: whether differences are too small to matter. Pure.

Schuirmann, J. Pharmacokinet. Biopharm. 15 (1987): a mean of differences is equivalent to none at
alpha where its interval at 1 - 2 alpha lies within the margin.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.stats import student_t

Reading = Literal["equivalent", "different", "not shown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tost:
    """A mean of differences with its interval at 1 - 2 alpha; `p` is the larger of the two tests'.

    `different`: the whole interval lies outside of the margin.
    """

    mean: float
    low: float
    high: float
    p: float
    reading: Reading


def tost(differences: Sequence[float], margin: float, alpha: float) -> Tost:
    """Test differences of pairs, in their own unit, as the margin; raises ValueError for no pair.

    One pair shows nothing. Where all pairs differ by the same, the interval is that one number.
    """
    n = len(differences)
    if not n or not margin > 0:
        raise ValueError(f"{n} differences, a margin of {margin}")
    mean = math.fsum(differences) / n
    if n == 1:
        return Tost(mean=mean, low=-math.inf, high=math.inf, p=1.0, reading="not shown")
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (n - 1)
    se = math.sqrt(variance / n)
    half = student_t.quantile(alpha, n - 1) * se
    low, high = mean - half, mean + half
    reading: Reading = "not shown"
    if -margin < low and high < margin:
        reading = "equivalent"
    elif low > margin or high < -margin:
        reading = "different"
    return Tost(mean=mean, low=low, high=high, p=_p(mean, se, margin, n - 1), reading=reading)


def _p(mean: float, se: float, margin: float, df: int) -> float:
    nearest = margin - abs(mean)
    if se == 0:
        return 0.0 if nearest > 0 else 1.0
    return student_t.tail(nearest / se, df)
