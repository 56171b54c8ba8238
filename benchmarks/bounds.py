"""The bounds of a count: what share of all sessions some of those that were run leave possible."""

from collections.abc import Callable
from math import comb

TAIL = 0.05


def clopper_pearson(hits: int, count: int) -> list[float]:
    """Give the exact bounds of a share, each wrong in at most one case of twenty.

    >>> [round(100 * bound, 1) for bound in clopper_pearson(0, 40)]
    [0.0, 7.2]
    >>> [round(100 * bound, 1) for bound in clopper_pearson(2, 40)]
    [0.9, 14.9]
    """
    low = _root(lambda share: _sum(share, count, hits, count) > TAIL) if hits else 0.0
    high = _root(lambda share: _sum(share, count, 0, hits) < TAIL) if hits < count else 1.0
    return [low, high]


def _sum(share: float, count: int, first: int, last: int) -> float:
    return sum(
        comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(first, last + 1)
    )


def _root(is_above: Callable[[float], bool]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return (low + high) / 2
