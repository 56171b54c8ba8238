"""Inputs of a forecast as they are drawn: ranges, choices; intervals, and the input that rules.

Draws are a Latin hypercube (McKay, Beckman and Conover 1979) with a seed: each input's range is cut
into as many equal parts as there are draws, and each part is drawn from once. Pure.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, pvariance
from typing import Literal

from dlcontainer.bench.study.forecast.estimates import Estimate, is_assumed

# Whether an input's source knows nothing of what is forecast; nobody's figure is assumed.
Independence = Literal["yes", "no", "assumed"]
# uniform: all of the range is as likely; normal: low to high holds 90 % of a normal law, and of its
# logarithm where both ends are above 0.
Law = Literal["uniform", "normal"]

SEED = 34
DRAWS = 240
# An interval of 90 % leaves this on either side.
TAIL = 0.05
_BINS = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnInput:
    """An input in SI units: `choices`, else low to high; the same twice where it is known."""

    key: str
    unit: str
    source: str
    independent: Independence
    low: float
    high: float
    choices: tuple[float, ...] = ()
    law: Law = "uniform"

    @property
    def is_known(self) -> bool:
        """Whether every draw gives the same."""
        return not self.choices and self.low == self.high

    def at(self, place: float) -> float:
        """Return the value at a place from 0 to 1 of its distribution."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        if self.is_known:
            return self.low
        if self.law == "uniform":
            return self.low + place * (self.high - self.low)
        # The range is that of 90 %.
        off = NormalDist().inv_cdf(place) / NormalDist().inv_cdf(1 - TAIL) / 2
        if self.low > 0:
            return math.exp(
                (math.log(self.low) + math.log(self.high)) / 2
                + off * (math.log(self.high) - math.log(self.low))
            )
        return max((self.low + self.high) / 2 + off * (self.high - self.low), 0.0)

    @property
    def middle(self) -> float:
        """Return the value in the middle of its distribution."""
        return self.at(0.5)


def of_estimate(estimate: Estimate, key: str = "") -> DrawnInput:
    """Return an estimate as it is drawn, by the ends of its interval; `key`: another name."""
    low, high = estimate.interval()
    return DrawnInput(
        key=key or estimate.name,
        unit="share" if estimate.share else "s",
        source=estimate.source,
        independent="assumed" if is_assumed(estimate) else "yes",
        low=low,
        high=high,
        law="normal",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """The middle of drawn or measured numbers, and an interval."""

    low: float
    middle: float
    high: float

    @property
    def width(self) -> float:
        """Return how far the ends are apart."""
        return self.high - self.low


def spread(numbers: Sequence[float], tail: float = TAIL) -> Spread:
    """Return the median and the interval that leaves `tail` of the numbers on either side."""
    ordered = sorted(numbers)
    return Spread(
        low=_quantile(ordered, tail),
        middle=_quantile(ordered, 0.5),
        high=_quantile(ordered, 1 - tail),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def draws(
    inputs: Sequence[DrawnInput], seed: int = SEED, count: int = DRAWS
) -> tuple[Mapping[str, float], ...]:
    """Draw so many times a value of each input; the same for the same inputs and seed."""
    columns: dict[str, list[float]] = {}
    for drawn_input in inputs:
        # Of its own: an input more does not change what the others draw.
        chance = random.Random(f"{seed} {drawn_input.key}")  # noqa: S311 - it draws no secret
        places = [(part + chance.random()) / count for part in range(count)]
        chance.shuffle(places)
        columns[drawn_input.key] = [
            drawn_input.at(min(max(place, 1e-9), 1 - 1e-9)) for place in places
        ]
    return tuple(
        {key: column[number] for key, column in columns.items()} for number in range(count)
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RulingInput:
    """The input that rules an interval's width; `share` of the variance is its own.

    `narrowed`: how wide the interval would be if the input were known, as a share of now.
    """

    key: str
    share: float
    narrowed: float


def ruling(
    inputs: Sequence[DrawnInput],
    drawn: Sequence[Mapping[str, float]],
    numbers: Sequence[float],
    again: Callable[[DrawnInput], Sequence[float]],
) -> RulingInput | None:
    """Return the input whose part of the variance is the largest; None where nothing varies.

    Its share is the variance of means of the numbers over bins of the input: a first-order Sobol
    index. `again` gives the numbers with an input held at its middle, to see what is left of
    the width.
    """
    whole = pvariance(numbers)
    unknown = [drawn_input for drawn_input in inputs if not drawn_input.is_known]
    if not unknown or whole <= (1e-9 * fmean(numbers)) ** 2:
        return None
    shares = {
        drawn_input.key: _share(drawn_input, drawn, numbers, whole) for drawn_input in unknown
    }
    first = max(unknown, key=lambda drawn_input: shares[drawn_input.key])
    narrow, width = again(first), spread(numbers).width
    return RulingInput(
        key=first.key,
        share=shares[first.key],
        narrowed=min(spread(narrow).width / width, 1.0) if width else 0.0,
    )


def _share(
    drawn_input: DrawnInput,
    drawn: Sequence[Mapping[str, float]],
    numbers: Sequence[float],
    whole: float,
) -> float:
    """Return the variance that an input explains by itself, as a share of the whole.

    The chance differences between bins are taken off: without effect it is 0 on average.
    """
    order = sorted(range(len(numbers)), key=lambda place: drawn[place][drawn_input.key])
    if drawn_input.choices:
        groups = [
            [numbers[place] for place in order if drawn[place][drawn_input.key] == choice]
            for choice in drawn_input.choices
        ]
    else:
        groups = [
            [
                numbers[place]
                for place in order[bin_ * len(order) // _BINS : (bin_ + 1) * len(order) // _BINS]
            ]
            for bin_ in range(_BINS)
        ]
    filled = [group for group in groups if group]
    total, mean = len(numbers), fmean(numbers)
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in filled) / total
    within = whole - between
    chance = within * (len(filled) - 1) / max(total - len(filled), 1)
    return min(max((between - chance) / whole, 0.0), 1.0)
