"""Axes of times: values stay in seconds, ticks are in the unit that suits the largest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.report.svg import Scale, spanning


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A unit of time: how many of it a second has."""

    name: str
    short: str
    per_second: float


_SECONDS = Unit(name="seconds", short="s", per_second=1.0)
_SMALL = (
    (1e-3, Unit(name="microseconds", short="us", per_second=1e6)),
    (1e-1, Unit(name="milliseconds", short="ms", per_second=1e3)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A scale of seconds, and the unit that its ticks are in."""

    scale: Scale
    unit: Unit


def unit(values: Sequence[float]) -> Unit:
    """Give the unit for some times, s."""
    largest = max((value for value in values if math.isfinite(value)), default=1.0)
    return next((one for bound, one in _SMALL if largest < bound), _SECONDS)


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    """Give an axis that holds all finite times, s."""
    own = unit(values)
    scaled = spanning([value * own.per_second for value in values], start, end)
    return Axis(
        scale=replace(
            scaled,
            low=scaled.low / own.per_second,
            high=scaled.high / own.per_second,
            labels=tuple((tick / own.per_second, label) for tick, label in scaled.ticks()),
        ),
        unit=own,
    )
