"""From a number of looks to a time. Pure.

Each look comes at a moment drawn within its turn: of a time the share of looks is an estimate, and
the bounds are those of drawing each look freely, which are wider.
"""

from dlcontainer.bench.stats import counts
from dlcontainer.bench.trace.watch.watch_records import TimeEstimate


def estimate(looks: int, of: int, seconds: float) -> TimeEstimate:
    """Return the time of so many looks of all that a time had."""
    if not of:
        return TimeEstimate(seconds=0.0, low_s=0.0, high_s=seconds)
    low, high = counts.rate_bounds(looks, of)
    return TimeEstimate(
        seconds=looks / of * seconds, low_s=low * seconds, high_s=high * seconds,
        looks=looks, of=of,
    )  # fmt: skip


def measured(seconds: float) -> TimeEstimate:
    """Return a time that needs no looks."""
    return TimeEstimate(seconds=seconds, low_s=seconds, high_s=seconds)


def words(time: TimeEstimate) -> str:
    """Say a time with its bounds and its number of looks.

    >>> words(TimeEstimate(seconds=0.8, low_s=0.7, high_s=0.9, looks=160, of=200))
    '0.800 s [0.700, 0.900], 160 looks'
    """
    if not time.of:
        return f"{time.seconds:.3f} s"
    looks = "look" if time.looks == 1 else "looks"
    return f"{time.seconds:.3f} s [{time.low_s:.3f}, {time.high_s:.3f}], {time.looks:,} {looks}"
