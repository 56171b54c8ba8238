"""The power of a session against simulation and other people's programs."""

import math

import pytest

from dlcontainer.bench.stats import paired, power
from tests.unit.bench.stats.test_paired import fit


@pytest.mark.parametrize(
    ("sd", "pairs"), [(0.01, 5), (0.02, 13)]  # the protocol's table, at a true ratio of 1
)  # fmt: skip
def test_the_power_is_that_of_the_protocols_table(sd: float, pairs: int) -> None:
    assert power.equivalent(pairs, sd, 0.02, 0.05, 0.0) >= 0.9
    assert power.equivalent(pairs - 1, sd, 0.02, 0.05, 0.0) < 0.9


def test_the_power_at_half_a_percent_is_that_of_the_protocol() -> None:
    assert round(power.equivalent(8, 0.014, 0.02, 0.05, math.log(1.005)), 2) == 0.84


@pytest.mark.parametrize(("n", "sd", "truth"), [(8, 0.014, 0.005), (12, 0.02, 0.0), (32, 0.05, 0)])
def test_the_power_is_that_of_a_simulation(n: int, sd: float, truth: float) -> None:
    import numpy

    count = 1000
    drawn = numpy.random.default_rng(7).normal(truth, sd, (count, n))
    won = sum(paired.interval(fit(row), 0.9).within(0.02) for row in drawn.tolist())
    assert won / count == pytest.approx(
        power.equivalent(n, sd * power.lag_cost(n), 0.02, 0.05, truth), abs=0.06
    )


def test_the_power_of_a_difference_is_statsmodels() -> None:
    from statsmodels.stats.power import TTestPower

    # One-sample t with df n - 1; ours has one more parameter, hence n + 1 pairs are close to n.
    wanted = TTestPower().power(0.5, 101, 0.05, alternative="larger")
    two_sided = TTestPower().power(0.5, 101, 0.025, alternative="larger")
    ours = power.different(101, 0.02, 0.05, 0.01)
    assert two_sided == pytest.approx(ours, abs=0.002)
    assert ours < wanted


@pytest.mark.parametrize("sd", [0.01, 0.03, 0.08])
def test_the_smallest_margin_is_what_so_many_pairs_are_needed_for(sd: float) -> None:
    for n in (8, 32):
        margin = power.smallest_margin(n, sd, 0.019)
        assert margin is not None
        needed = power.pairs_needed(sd, margin, 0.019, equivalence=True)
        more = power.pairs_needed(sd, margin * 0.98, 0.019, equivalence=True)
        assert needed is not None
        assert more is not None
        assert needed <= n < more


def test_no_margin_is_supported_by_chaos() -> None:
    assert power.smallest_margin(8, 2.0, 0.019) is None
    assert power.smallest_margin(2, 0.01, 0.019) is None


def test_pairs_needed() -> None:
    def needed(sd: float, *, equivalence: bool = True) -> int | None:
        return power.pairs_needed(sd, 0.02, 0.05, equivalence=equivalence)

    assert needed(0.0) == needed(0.005) == 8
    assert [needed(sd) for sd in (0.014, 0.02, 0.03)] == [15, 23, 44]
    assert needed(5.0) is None
    for equivalence in (True, False):
        found = needed(0.05, equivalence=equivalence)
        assert found is not None
        truth = math.log(1.005) if equivalence else math.log(1.02)
        spread = 0.05 * power.lag_cost(found)
        found_power = (
            power.equivalent(found, spread, 0.02, 0.05, truth)
            if equivalence
            else power.different(found, spread, 0.05, truth)
        )
        assert found_power == pytest.approx(0.9, abs=0.01)
