"""The correlation of neighbours, and what it does to an interval."""

import math

import pytest

from dlcontainer.bench.stats import neighbours, paired, power, regression
from dlcontainer.bench.stats.differences import PairDifference


def test_what_is_seen_is_numpy_s() -> None:
    import numpy

    left = numpy.random.default_rng(1).normal(size=20)
    left -= left.mean()
    wanted = float((left[1:] * left[:-1]).sum() / (left**2).sum())
    assert neighbours.seen(left.tolist()) == pytest.approx(wanted)
    assert neighbours.seen([0.0] * 8) == -1


@pytest.mark.parametrize(("rho", "n"), [(0.0, 8), (0.3, 8), (0.6, 8), (0.3, 16), (0.6, 32)])
def test_the_bias_is_marriott_and_pope_s(rho: float, n: int) -> None:
    import numpy

    draw, count = numpy.random.default_rng(3), 20_000
    d = draw.normal(size=(count, n))
    for i in range(1, n):
        d[:, i] = rho * d[:, i - 1] + math.sqrt(1 - rho**2) * d[:, i]
    d -= d.mean(axis=1, keepdims=True)
    mean = ((d[:, 1:] * d[:, :-1]).sum(axis=1) / (d**2).sum(axis=1)).mean()
    assert mean == pytest.approx(rho - (1 + 4 * rho) / n, abs=0.02)


@pytest.mark.parametrize(
    ("raw", "n", "launches", "groups"),
    [
        (-1.0, 8, 0.0, 0.3),
        (-0.13, 8, 0.0, 0.3),
        (0.0, 8, 0.25, 0.3),
        (0.3, 8, 0.6625, 0.425),
        (0.3, 32, 0.390625, 0.33125),
        (-1.0, 32, 0.0, 0.1125),
        (0.95, 16, 0.9, 0.9),
        (0.5, 3, 0.0, 0.0),
    ],
)
def test_the_rules(raw: float, n: int, launches: float, groups: float) -> None:
    assert neighbours.correlation(raw, n, "launches") == pytest.approx(launches)
    assert neighbours.correlation(raw, n, "groups") == pytest.approx(groups)


def test_groups_keep_their_degrees_of_freedom() -> None:
    values = [0.01, -0.02, 0.015, 0.0, -0.01, 0.005, 0.02, -0.005]
    pairs = [
        PairDifference(number=i + 1, d=value, candidate_first=i % 4 in {1, 2})
        for i, value in enumerate(values)
    ]
    fitted = regression.fit(pairs, rule="groups")
    assert fitted.lag == neighbours.floor(8) == 0.3
    assert fitted.df == pytest.approx(6)
    assert fitted.se == pytest.approx(fitted.sd / math.sqrt(8) * neighbours.widening(0.3))
    assert neighbours.freedom(6.0, 0.5, "launches") == 2
    assert neighbours.freedom(30.0, 0.5, "launches") == 10
    assert neighbours.freedom(6.0, 0.0, "launches") == 6


@pytest.mark.parametrize(("n", "sd"), [(8, 0.01), (12, 0.014), (32, 0.022)])
def test_the_power_of_groups_is_that_of_a_simulation(n: int, sd: float) -> None:
    import numpy

    count = 600
    drawn = numpy.random.default_rng(7).normal(0.005, sd, (count, n))
    won = 0
    for row in drawn.tolist():
        pairs = [
            PairDifference(number=i + 1, d=value, candidate_first=i % 4 in {1, 2})
            for i, value in enumerate(row)
        ]
        won += paired.interval(regression.fit(pairs, rule="groups"), 0.9).within(0.02)
    foreseen = power.equivalent(n, sd * power.lag_cost(n, "groups"), 0.02, 0.05, 0.005)
    assert won / count == pytest.approx(foreseen, abs=0.08)
