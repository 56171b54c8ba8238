"""Stragglers: a slow rank is named, equal ones hardly ever; the rates that the docs state."""

import math
import random

import pytest

from dlcontainer.bench.stats import counts
from dlcontainer.bench.stats.scatter import stragglers

SEED = 20261124


def draw(chance: random.Random, ranks: int, launches: int, sd: float) -> dict[int, list[float]]:
    """Give the medians of ranks that are all alike, beside what all ranks of a launch have."""
    common = [chance.gauss(0, 0.2) for _ in range(launches)]
    return {
        rank: [math.exp(shift + chance.gauss(0, sd)) for shift in common] for rank in range(ranks)
    }


@pytest.mark.parametrize("ranks", [3, 4, 16])
@pytest.mark.parametrize("slow", [0, 2])
def test_a_slow_rank_is_named(ranks: int, slow: int) -> None:
    medians = draw(random.Random(SEED), ranks, 8, 0.01)
    medians[slow] = [1.2 * value for value in medians[slow]]
    verdict = stragglers.named(medians)
    assert [one.rank for one in verdict.stragglers] == [slow]
    assert verdict.stragglers[0].ratio == pytest.approx(1.2, rel=0.03)
    assert verdict.stragglers[0].ratio > verdict.stragglers[0].bound >= 1 + stragglers.LEAST


def test_a_quick_rank_makes_nobody_slow() -> None:
    medians = draw(random.Random(SEED), 4, 8, 0.01)
    medians[1] = [0.5 * value for value in medians[1]]
    assert stragglers.named(medians).stragglers == ()


def test_two_of_five_are_named_the_slowest_first() -> None:
    medians = draw(random.Random(SEED), 5, 8, 0.005)
    for rank, factor in ((1, 1.3), (4, 1.5)):
        medians[rank] = [factor * value for value in medians[rank]]
    assert [one.rank for one in stragglers.named(medians).stragglers] == [4, 1]


def test_one_slow_launch_names_nobody() -> None:
    medians = draw(random.Random(SEED), 4, 8, 0.01)
    medians[2][3] *= 5
    assert stragglers.named(medians).stragglers == ()


def test_less_than_declared_names_nobody() -> None:
    medians = {rank: [1.0] * 8 for rank in range(4)}
    medians[3] = [1.0499] * 8
    assert stragglers.named(medians).stragglers == ()
    medians[3] = [1.0501] * 8
    assert [one.rank for one in stragglers.named(medians).stragglers] == [3]


def test_too_few_to_say() -> None:
    assert "fewer than 3 ranks" in stragglers.named({0: [1.0] * 8, 1: [2.0] * 8}).refused
    assert "fewer than 8 launches" in stragglers.named({r: [1.0] * 7 for r in range(4)}).refused
    assert stragglers.named({}).refused


# Sessions in which equal ranks had one named: of how many, at most (docs/measurements/probes.md).
@pytest.mark.parametrize(
    ("ranks", "launches", "sd", "most"),
    [(3, 8, 0.02, 0.001), (3, 8, 0.1, 0.04), (4, 8, 0.1, 0.01), (8, 8, 0.1, 0.01)],
)
def test_how_often_an_equal_rank_is_named(
    ranks: int, launches: int, sd: float, most: float
) -> None:
    chance, sessions = random.Random(SEED), 1000
    named = sum(
        bool(stragglers.named(draw(chance, ranks, launches, sd)).stragglers)
        for _ in range(sessions)
    )
    assert named / sessions <= most
    assert counts.rate_not_excluded(named, sessions) < most + 0.015


# Ranks that do differ, by as much as their processes: none of them is beyond the others.
@pytest.mark.parametrize(("ranks", "most"), [(4, 0.03), (8, 0.015)])
def test_how_often_a_rank_of_unequal_ones_is_named(ranks: int, most: float) -> None:
    chance, sessions, named = random.Random(SEED), 500, 0
    for _ in range(sessions):
        places = [chance.gauss(0, 0.05) for _ in range(ranks)]
        medians = {
            rank: [math.exp(place + chance.gauss(0, 0.05)) for _ in range(8)]
            for rank, place in enumerate(places)
        }
        named += bool(stragglers.named(medians).stragglers)
    assert named / sessions <= most


# Processes that scatter by 2 %, eight launches: how often a rank so much slower is the one named.
@pytest.mark.parametrize(
    ("ranks", "factor", "least"), [(3, 1.1, 0.97), (8, 1.1, 0.93), (8, 1.15, 0.99)]
)
def test_how_often_a_slow_rank_is_found(ranks: int, factor: float, least: float) -> None:
    chance, sessions, found = random.Random(SEED), 500, 0
    for _ in range(sessions):
        medians = draw(chance, ranks, 8, 0.02)
        medians[0] = [factor * value for value in medians[0]]
        found += [one.rank for one in stragglers.named(medians).stragglers] == [0]
    assert found / sessions >= least
