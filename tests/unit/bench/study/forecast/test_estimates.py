"""Estimates: intervals, draws, degrees of freedom."""

import math
import random

import pytest

from dlcontainer.bench.stats import student_t
from dlcontainer.bench.study.forecast import estimates
from dlcontainer.bench.study.forecast.estimates import Estimate


def test_draws_lie_where_the_interval_says() -> None:
    one = Estimate(name="overlap", value=0.5, se=0.05, df=6, source="", share=True, most=1.0)
    low, high = one.interval()
    assert low == pytest.approx(0.5 - 0.05 * student_t.quantile(0.05, 6))
    chance = random.Random(1)
    inside = sum(low <= one.drawn(chance) <= high for _ in range(4000)) / 4000
    assert inside == pytest.approx(0.9, abs=0.02)


def test_a_factor_stays_positive_and_a_share_a_share() -> None:
    chance = random.Random(2)
    factor = Estimate(name="seconds of a sample", value=2.0, se=1.0, df=3, source="")
    assert all(factor.drawn(chance) > 0 for _ in range(500))
    share = Estimate.within("overlap", 0.3, 1.0, "assumed")
    assert all(0 <= share.drawn(chance) <= 1 for _ in range(500))
    assert share.interval() == pytest.approx((0.3, 1.0))


def test_launches_narrow_it_down_to_the_floor() -> None:
    values = [1.0, 1.02, 0.98, 1.01, 0.99]
    few, many = (Estimate.of("seconds of a sample", values * times, 0.01, "") for times in (1, 100))
    assert few.se > many.se > 0.01
    assert few.value == pytest.approx(1.0)
    alone = Estimate.of("seconds of a sample", [3.0], 0.01, "")
    assert (alone.value, alone.se) == (3.0, estimates.LONE_SPREAD)


def test_errors_combine_with_their_degrees_of_freedom() -> None:
    se, df = estimates.combined(((3.0, 10.0), (4.0, 10.0)))
    assert se == pytest.approx(5.0)
    assert df == pytest.approx(5.0**4 / (3.0**4 / 10 + 4.0**4 / 10))
    assert estimates.combined(((0.0, 5.0),)) == (0.0, estimates.MANY)
    assert not math.isnan(estimates.combined(((0.0, 5.0), (1.0, 2.0)))[1])
