"""What a margin means: the one place that turns a share into ratios. Pure.

A margin m is the factor 1+m: the ratios [1/(1+m), 1+m], symmetric in logs, so that the verdict is
the same whichever arm is called the reference. It is the stricter reading: [1-m, 1+m] would allow
a candidate to be faster by more than it may be slower.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class MarginBand:
    """The ratios of a margin; `half_width` is that of their logs."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the band in logs, which is also what a narrow interval may be wide."""
        return math.log(self.high)

    def holds(self, low: float, high: float) -> bool:
        """Whether all ratios from one to another lie in the band, its ends included."""
        return self.low <= low and high <= self.high


def band(margin: float) -> MarginBand:
    """Return the band of a margin."""
    return MarginBand(low=1 / (1 + margin), high=1 + margin)
