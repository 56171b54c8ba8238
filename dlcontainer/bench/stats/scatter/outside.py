"""Which of many values lies outside of the others, by a robust rule with a declared bound. Pure.

A baseline is the median and the scaled median deviation of logs of many nodes' values: a few odd
nodes among them move neither much. A value is outside where it is further from the median than
BOUND deviations, and than LEAST. How often it names a node of the same kind is simulated in its
test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

# With fewer, the median deviation is itself little more than chance.
FEWEST = 12
# Scaled median deviations, and a share of the value that is worth nobody's time.
BOUND, LEAST = 5.0, 0.03
SCALE = 1.4826


@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """What is usual: the middle of so many values, and the bounds on both sides of it."""

    count: int
    centre: float
    low: float
    high: float

    def side(self, value: float) -> str:
        """Return where a value lies: `above`, `below`, or empty within the bounds."""
        if value > self.high:
            return "above"
        return "below" if value < self.low else ""


def usual(values: Sequence[float]) -> Range | None:
    """Return the usual range of positive values; None for fewer than FEWEST of them."""
    if len(values) < FEWEST:
        return None
    logs = [math.log(value) for value in values]
    centre = median(logs)
    scale = SCALE * median(abs(value - centre) for value in logs)
    reach = max(BOUND * scale, math.log1p(LEAST))
    return Range(
        count=len(values),
        centre=math.exp(centre),
        low=math.exp(centre - reach),
        high=math.exp(centre + reach),
    )
