"""The bounds of a count: what share of all sessions some of those that were run leave possible."""

from dlcontainer.bench.stats.counts import rate_not_excluded


def clopper_pearson(hits: int, count: int) -> list[float]:
    """Give the exact bounds of a share, each wrong in at most one case of twenty.

    >>> [round(100 * bound, 1) for bound in clopper_pearson(0, 40)]
    [0.0, 7.2]
    >>> [round(100 * bound, 1) for bound in clopper_pearson(2, 40)]
    [0.9, 14.9]
    """
    # Of the share that is no hit, the upper bound is the lower one of the share that is.
    return [1 - rate_not_excluded(count - hits, count), rate_not_excluded(hits, count)]
