"""Counts of events and the rates that they leave open. Pure."""

from dlcontainer.bench.stats import student_t

_LEVEL = 0.95


def rate_not_excluded(events: int, count: int) -> float:
    """Return the largest rate that so many events of `count` do not exclude, at 95 %, one-sided.

    Clopper and Pearson's bound: of a rate above it so few would come in less than 5 % of cases.
    """
    if events >= count:
        return 1.0
    low, high = 0.0, 1.0
    # The chance of at most `events` falls as the rate grows.
    while low < (middle := (low + high) / 2) < high:
        few = student_t.incomplete_beta(count - events, events + 1, 1 - middle, middle)
        low, high = (middle, high) if few > 1 - _LEVEL else (low, middle)
    return high
