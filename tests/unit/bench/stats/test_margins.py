"""What a margin means."""

import math

import pytest

from dlcontainer.bench.stats import margins
from dlcontainer.bench.stats.paired import Interval


def interval(low: float, high: float) -> Interval:
    return Interval(ratio=math.sqrt(low * high), low=low, high=high, level=0.95)


@pytest.mark.parametrize("margin", [0.001, 0.02, 0.05, 0.5])
def test_the_band_is_the_same_whichever_arm_is_the_reference(margin: float) -> None:
    band = margins.band(margin)
    assert band.high == 1 + margin
    assert math.log(band.low) == pytest.approx(-math.log(band.high))
    assert band.half_width == pytest.approx(math.log1p(margin))
    # Stricter than [1-m, 1+m].
    assert band.low > 1 - margin


def test_an_interval_is_held_against_the_stricter_end() -> None:
    assert interval(1 / 1.02, 1.02).within(0.02)
    assert not interval(0.9802, 1.01).within(0.02)  # inside 1-m, and yet not within
    assert interval(0.97, 0.9803).beyond(0.02)
    assert not interval(0.97, 0.9804).beyond(0.02)


def test_narrow_is_half_of_the_band() -> None:
    assert interval(1.001, 1.001 * 1.0199).is_narrow(0.02)
    assert not interval(1.001, 1.001 * 1.0201).is_narrow(0.02)
