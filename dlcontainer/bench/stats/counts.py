"""Counts of events and the rates that they leave open. Pure."""

from dlcontainer.bench.stats import student_t

_LEVEL = 0.95
_EACH_SIDE = 0.975


def rate_not_excluded(events: int, count: int) -> float:
    """Return the largest rate that so many events of `count` do not exclude, at 95 %, one-sided.

    Clopper and Pearson's bound: of a rate above it so few would come in less than 5 % of cases.
    """
    return _highest(events, count, _LEVEL)


def rate_bounds(events: int, count: int) -> tuple[float, float]:
    """Return Clopper and Pearson's 95 % interval of the rate of so many events of `count`."""
    low = 1 - _highest(count - events, count, _EACH_SIDE)
    return low, _highest(events, count, _EACH_SIDE)


def _highest(events: int, count: int, level: float) -> float:
    if events >= count:
        return 1.0
    low, high = 0.0, 1.0
    # The chance of at most `events` falls as the rate grows.
    while low < (middle := (low + high) / 2) < high:
        few = student_t.incomplete_beta(count - events, events + 1, 1 - middle, middle)
        low, high = (middle, high) if few > 1 - level else (low, middle)
    return high
