"""Ratios of means and shares: intervals hold the truth as often as they say, and no less."""

import math
import random

import pytest

from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.stats.mean_ratios import WeightedMean

LEVEL = 0.95
SESSIONS = 500


def drawn(rng: random.Random, count: int, mean: float, sd: float, lag: float) -> list[float]:
    """Draw launches of one arm, each like the one before by `lag`."""
    noise, launches = rng.gauss(0, 1), []
    for _ in range(count):
        launches.append(mean * (1 + sd * noise))
        noise = lag * noise + math.sqrt(1 - lag * lag) * rng.gauss(0, 1)
    return launches


@pytest.mark.parametrize(("base", "last"), [(3, 8), (4, 16), (8, 32)])
@pytest.mark.parametrize("sd", [(0.015, 0.015), (0.01, 0.05)])
@pytest.mark.parametrize(("lag", "least"), [(0.0, 0.93), (0.5, 0.87)])
def test_the_interval_of_an_efficiency_holds_the_truth(
    base: int, last: int, sd: tuple[float, float], lag: float, least: float
) -> None:
    rng = random.Random(f"{base} {last} {sd} {lag}")
    truth, hits = 1 / 1.07, 0
    for _ in range(SESSIONS):
        alone, together = drawn(rng, base, 1.0, sd[0], lag), drawn(rng, last, 1.07, sd[1], lag)
        interval = mean_ratios.ratio(alone, together, LEVEL)
        hits += interval.low <= truth <= interval.high
    assert hits / SESSIONS >= least


@pytest.mark.parametrize(("base", "last"), [(3, 8), (8, 16)])
def test_the_interval_of_a_share_holds_the_truth(base: int, last: int) -> None:
    rng = random.Random(f"{base} {last}")
    hits = 0
    for _ in range(SESSIONS):
        alone = drawn(rng, base, 1.0, 0.015, 0.0)
        own = drawn(rng, last, 1.03, 0.015, 0.0)
        steps = [compute + 0.07 for compute in own]
        share = mean_ratios.share(own, steps, [WeightedMean(values=alone, weight=-1.0)], LEVEL)
        hits += share.low <= 0.03 / 1.1 <= share.high
    assert hits / SESSIONS >= 0.93


def test_neither_is_wider_than_it_must_be() -> None:
    # An interval of any width would pass the tests above: Welch's, without correlation.
    rng = random.Random(4)
    widths = []
    for _ in range(200):
        interval = mean_ratios.ratio(drawn(rng, 8, 1, 0.015, 0), drawn(rng, 32, 1, 0.015, 0), LEVEL)
        widths.append(interval.high - interval.low)
    least = 2 * 2.1 * 0.015 * math.sqrt(1 / 8 + 1 / 32)
    assert least < sum(widths) / len(widths) < 2 * least


def test_one_launch_has_no_interval() -> None:
    interval = mean_ratios.ratio([1.0], [1.1, 1.2], LEVEL)
    assert (interval.low, interval.high) == (0.0, math.inf)
    share = mean_ratios.share([0.1], [1.0], [], LEVEL)
    assert (share.share, share.low, share.high) == (0.1, -math.inf, math.inf)
    assert not share.is_told_apart


def test_a_part_that_is_nothing_needs_no_launches() -> None:
    alone = WeightedMean(values=[0.0], weight=-1.0)
    share = mean_ratios.share([0.1, 0.11], [1.0, 1.0], [alone], LEVEL)
    assert share.share == pytest.approx(0.105)
    assert share.high < math.inf
