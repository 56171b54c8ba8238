"""Student's distribution without SciPy: a compute node that measures has the core alone."""

import math
from functools import cache

_TINY = 1e-300
_TERMS = 500


def tail(t: float, df: float) -> float:
    """Return the probability above t, for either sign of t; df may be any positive number."""
    square = t * t
    half = incomplete_beta(df / 2, 0.5, df / (df + square), square / (df + square)) / 2
    return half if t >= 0 else 1 - half


@cache
def quantile(above: float, df: float) -> float:
    """Return the t that has this probability above it; raises ValueError outside of (0, 1)."""
    if not 0 < above < 1:
        raise ValueError(f"a probability of {above}")
    if above > 0.5:
        return -quantile(1 - above, df)
    low, high = 0.0, 1.0
    while tail(high, df) > above:
        low, high = high, high * 2
    # Bisection to the last bit: about 60 rounds, once for each level and df of a process.
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if tail(middle, df) > above else (low, middle)
    return high


def incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function; `rest` is 1 - x, without its rounding.

    Lentz's continued fraction; Press et al., Numerical Recipes, 3rd edition, 6.4.
    """
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, rest, x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(front + a * math.log(x) + b * math.log(rest)) / a
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away(1 + term * d)
            c = _away(1 + term / c)
            fraction *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return front * fraction


def _away(x: float) -> float:
    return x if abs(x) > _TINY else _TINY
