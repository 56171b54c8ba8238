"""A constant of a machine with its uncertainty: its value, interval and draws. Pure."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev
from typing import Literal, Self

from dlcontainer.bench.stats import student_t

LEVEL = 0.90
# Scatter whose degrees of freedom nobody counted.
MANY = 30.0
# Of one launch alone the spread is unknown: this is taken.
LONE_SPREAD = 0.05

ConstantName = Literal[
    "seconds of a sample",
    "seconds of a pass",
    "input of a sample",
    "idle neighbours",
    "scatter of ranks",
    "overlap",
    "latency in a node",
    "bandwidth in a node",
    "latency between nodes",
    "bandwidth between nodes",
    "stage latency in a node",
    "stage bandwidth in a node",
    "stage latency between nodes",
    "stage bandwidth between nodes",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A constant: its value, its standard error with degrees of freedom, and where it comes from.

    The error is that of the logarithm, or of the value itself where it is a share. A bandwidth's
    value is in seconds a byte.
    """

    name: ConstantName
    value: float
    se: float
    df: float
    source: str
    share: bool = False
    least: float = 0.0
    most: float = math.inf

    @classmethod
    def of(cls, name: ConstantName, values: Sequence[float], floor: float, source: str) -> Self:
        """Estimate a constant by the median of launches; `floor`: the least error it may have."""
        if len(values) < 2:
            return cls(name=name, value=median(values), se=LONE_SPREAD, df=MANY, source=source)
        logs = [math.log(max(value, 1e-12)) for value in values]
        deviation = stdev(logs) / math.sqrt(len(logs))
        se, df = combined(((deviation, len(logs) - 1.0), (floor, MANY)))
        return cls(name=name, value=median(values), se=se, df=df, source=source)

    @classmethod
    def of_share(cls, name: ConstantName, values: Sequence[float], source: str) -> Self:
        """Estimate a share by the mean of launches, kept within 0 and 1."""
        se = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else LONE_SPREAD
        value = min(max(mean(values), 0.0), 1.0)
        df = max(1.0, len(values) - 1.0)
        return cls(name=name, value=value, se=se, df=df, source=source, share=True, most=1.0)

    @classmethod
    def within(cls, name: ConstantName, low: float, high: float, source: str) -> Self:
        """Assume a share anywhere from low to high: they are the ends of its 90 % interval."""
        se = (high - low) / 2 / student_t.quantile((1 - LEVEL) / 2, MANY)
        return cls(
            name=name, value=(low + high) / 2, se=se, df=MANY, source=source, share=True, most=1.0
        )  # fmt: skip

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval that holds the true value at this level."""
        if self.se == 0:
            return self.value, self.value
        reach = student_t.quantile((1 - level) / 2, self.df) * self.se
        return self._moved(-reach), self._moved(reach)

    def drawn(self, chance: random.Random) -> float:
        """Return a draw, of Student's distribution."""
        if self.se == 0:
            return self.value
        scale = math.sqrt(self.df / (2 * chance.gammavariate(self.df / 2, 1)))
        return self._moved(chance.gauss(0, 1) * scale * self.se)

    def _moved(self, by: float) -> float:
        moved = self.value + by if self.share else self.value * math.exp(min(by, 50))
        return min(max(moved, self.least), self.most)


def is_assumed(estimate: Estimate) -> bool:
    """Tell whether nobody measured it."""
    return "assumed" in estimate.source


def combined(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the error of a sum of independent errors, each with its degrees of freedom.

    Welch and Satterthwaite's degrees of freedom.
    """
    variance = sum(se**2 for se, _ in parts)
    if variance == 0:
        return 0.0, MANY
    shares = sum(se**4 / df for se, df in parts if se > 0)
    return math.sqrt(variance), max(1.0, variance**2 / shares)
