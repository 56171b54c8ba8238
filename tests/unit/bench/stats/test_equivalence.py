"""Two one-sided tests against statsmodels, and where there is little to test."""

import math
import random

import pytest

from dlcontainer.bench.stats.equivalence import tost


@pytest.mark.parametrize("n", [2, 3, 8, 30])
@pytest.mark.parametrize("shift", [0.0, 0.7, -1.4])
def test_as_statsmodels_has_it(n: int, shift: float) -> None:
    from statsmodels.stats.weightstats import DescrStatsW

    drawn = random.Random(n)
    values = [drawn.gauss(shift, 0.5) for _ in range(n)]
    found, other = tost(values, 1.0, 0.05), DescrStatsW(values)
    p, _, _ = other.ttost_mean(-1.0, 1.0)
    assert found.p == pytest.approx(p, rel=1e-9)
    assert (found.low, found.high) == pytest.approx(other.tconfint_mean(alpha=0.1), rel=1e-9)
    assert (found.reading == "equivalent") == (p < 0.05)


def test_readings() -> None:
    assert tost([0.1, -0.1, 0.2, -0.2], 1.0, 0.05).reading == "equivalent"
    assert tost([2.1, 1.9, 2.2, 1.8], 1.0, 0.05).reading == "different"
    assert tost([-2.1, -1.9, -2.2, -1.8], 1.0, 0.05).reading == "different"
    assert tost([3.0, -3.0, 2.0, -2.0], 1.0, 0.05).reading == "not shown"


def test_pairs_that_all_differ_by_the_same() -> None:
    same = tost([0.0] * 8, 1.0, 0.05)
    assert (same.low, same.high, same.p, same.reading) == (0.0, 0.0, 0.0, "equivalent")
    assert tost([2.0] * 8, 1.0, 0.05).reading == "different"
    # At the margin it is not within.
    edge = tost([1.0] * 8, 1.0, 0.05)
    assert (edge.p, edge.reading) == (1.0, "not shown")


def test_one_pair_shows_nothing_and_none_is_a_mistake() -> None:
    one = tost([0.0], 1.0, 0.05)
    assert (one.low, one.high, one.reading) == (-math.inf, math.inf, "not shown")
    for values, margin in (([], 1.0), ([0.0], 0.0)):
        with pytest.raises(ValueError, match="differences, a margin"):
            tost(values, margin, 0.05)
