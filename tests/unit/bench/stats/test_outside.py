"""Nodes outside of the usual: found beside others that are odd, equal ones hardly ever named."""

import math
import random

import pytest

from dlcontainer.bench.stats import counts
from dlcontainer.bench.stats.scatter import outside

SEED = 20261124


def draw(chance: random.Random, count: int, sd: float) -> list[float]:
    return [math.exp(chance.gauss(0, sd)) for _ in range(count)]


def test_too_few_have_no_range() -> None:
    assert outside.usual([1.0] * (outside.FEWEST - 1)) is None
    assert outside.usual([1.0] * outside.FEWEST) is not None


def test_equal_values_still_have_the_least_range() -> None:
    usual = outside.usual([2.0] * 12)
    assert usual is not None
    assert (usual.centre, usual.count) == (2.0, 12)
    assert usual.high == pytest.approx(2 * (1 + outside.LEAST))
    assert usual.low == pytest.approx(2 / (1 + outside.LEAST))
    assert [usual.side(value) for value in (2.05, 2.07, 1.95, 1.93)] == ["", "above", "", "below"]


def test_a_third_of_odd_nodes_hides_none_of_them() -> None:
    values = [*draw(random.Random(SEED), 12, 0.005), 1.2, 1.3, 0.7, 1.25, 1.4]
    usual = outside.usual(values)
    assert usual is not None
    assert [value for value in values if usual.side(value)] == [1.2, 1.3, 0.7, 1.25, 1.4]


# A further node of the same kind, and any of the nodes: docs/measurements/probes.md states it.
@pytest.mark.parametrize(("count", "further", "own"), [(12, 0.01, 0.04), (32, 0.003, 0.01)])
def test_how_often_an_equal_node_is_named(count: int, further: float, own: float) -> None:
    chance, trials, missed, within = random.Random(SEED), 2000, 0, 0
    for _ in range(trials):
        values = draw(chance, count, 0.05)
        usual = outside.usual(values)
        assert usual is not None
        missed += bool(usual.side(draw(chance, 1, 0.05)[0]))
        within += any(usual.side(value) for value in values)
    assert counts.rate_not_excluded(missed, trials) < further + 0.005
    assert counts.rate_not_excluded(within, trials) < own + 0.01


# Twelve nodes in the baseline: how often a node so much slower is found.
@pytest.mark.parametrize(("sd", "factor", "least"), [(0.005, 1.05, 0.97), (0.01, 1.1, 0.97)])
def test_how_often_a_slow_node_is_found(sd: float, factor: float, least: float) -> None:
    chance, trials, found = random.Random(SEED), 1000, 0
    for _ in range(trials):
        usual = outside.usual(draw(chance, 12, sd))
        assert usual is not None
        found += usual.side(factor * draw(chance, 1, sd)[0]) == "above"
    assert found / trials >= least
