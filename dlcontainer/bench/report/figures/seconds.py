"""Axes of times: values stay in seconds, ticks are in the unit that suits the largest."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.report.svg import AxisScale, spanning


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeUnit:
    """A unit of time: how many of it a second has."""

    name: str
    short: str
    per_second: float


_SECONDS = TimeUnit(name="seconds", short="s", per_second=1.0)
_SMALL = (
    (1e-3, TimeUnit(name="microseconds", short="us", per_second=1e6)),
    (1e-1, TimeUnit(name="milliseconds", short="ms", per_second=1e3)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """A scale of seconds, and the unit that its ticks are in."""

    scale: AxisScale
    unit: TimeUnit


def unit(values: Sequence[float]) -> TimeUnit:
    """Return the unit for some times, s."""
    largest = max((value for value in values if math.isfinite(value)), default=1.0)
    return next((unit for bound, unit in _SMALL if largest < bound), _SECONDS)


def axis(values: Sequence[float], start: float, end: float) -> Axis:
    """Return an axis that holds all finite times, s."""
    time_unit = unit(values)
    scaled = spanning([value * time_unit.per_second for value in values], start, end)
    return Axis(
        scale=replace(
            scaled,
            low=scaled.low / time_unit.per_second,
            high=scaled.high / time_unit.per_second,
            labels=tuple((tick / time_unit.per_second, label) for tick, label in scaled.ticks()),
        ),
        unit=time_unit,
    )
