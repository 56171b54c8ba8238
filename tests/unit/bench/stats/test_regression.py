"""One regression over pairs and controls: against statsmodels, and where the arms' own noise is."""

import math
import random
from dataclasses import replace

import pytest

from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages
from dlcontainer.bench.stats import linear, paired, regression
from dlcontainer.bench.stats.differences import Differences, PairDifference

LETTERS = {"control": "nn", "candidate_control": "cc"}


def drawn(
    seed: int, *, arm: float = 0.0, second: float = 0.0, carry: float = 0.0, sd: float = 0.01,
    controls: int = 8, own: int = 0, pairs: int = 8, own_sd: float | None = None,
) -> dict[str, list[PairDifference]]:  # fmt: skip
    """Draw a session launch by launch; a launch after a container takes `carry` longer."""
    random_ = random.Random(seed)
    counts = LaunchCounts(controls=controls, candidate_controls=own)
    found: dict[str, list[PairDifference]] = {name: [] for name in ("pair", *LETTERS)}
    before = 0
    for group in plan_stages(looks=(pairs,), counts=counts, seed=seed)[0]:
        letters = LETTERS.get(group.series, group.order)
        times, follows = [], []
        for place, letter in enumerate(letters):
            noise = random_.gauss(0, (own_sd or sd) if letter == "c" else sd) / math.sqrt(2)
            times.append(arm * (letter == "c") + second * place + carry * before + noise)
            follows.append(before)
            before = int(letter == "c")
        sign = 1 if group.order == "nc" else -1
        found[group.series].append(
            PairDifference(
                number=group.number, d=sign * (times[1] - times[0]), candidate_first=sign < 0,
                carry=(sign * (follows[1] - follows[0]),),
            )
        )  # fmt: skip
    return found


def fit(found: dict[str, list[PairDifference]]) -> regression.RegressionFit:
    return regression.fit(*found.values())


@pytest.mark.parametrize("seed", range(5))
def test_arm_place_and_carry_are_those_of_statsmodels(seed: int) -> None:
    import numpy
    import statsmodels.api

    found = drawn(seed, arm=0.03, second=0.01, carry=0.02, controls=12, own=8, pairs=16)
    rows, values, series = [], [], []
    for number, (name, group) in enumerate(found.items()):
        for item in group:
            rows.append([name == "pair", -1 if item.candidate_first else 1, item.carry[0]])
            values.append(item.d)
            series.append(number)
    columns = numpy.array(rows, dtype=float)
    theirs = statsmodels.api.OLS(values, columns).fit()
    ours = fit(found)
    carry = ours.carry[0]
    assert carry is not None
    assert [ours.mean, ours.order_effect, carry.value] == pytest.approx(list(theirs.params))
    # Each series has the variance of its own residuals, over their own degrees of freedom.
    inverse = numpy.linalg.inv(columns.T @ columns)
    hat = numpy.einsum("ij,jk,ik->i", columns, inverse, columns)
    weights, known, wanted = inverse[0] @ columns.T, numpy.array(series), 0.0
    for number in range(3):
        own = known == number
        variance = (theirs.resid[own] ** 2).sum() / (own.sum() - hat[own].sum())
        inflated = 1 if number else (1 + ours.lag) / (1 - ours.lag)
        wanted += inflated * variance * (weights[own] ** 2).sum()
    assert ours.se == pytest.approx(math.sqrt(wanted))
    assert ours.numbers == Differences.of(found["pair"]).numbers


def test_what_is_carried_over_is_not_the_container_s() -> None:
    # A launch after a container takes 4 % longer: half of that would count as the container's.
    ratios, carries = [], []
    for seed in range(40):
        found = drawn(seed, carry=0.04, controls=8)
        fitted = fit(found)
        carry = fitted.carry[0]
        assert carry is not None
        ratios.append(fitted.mean)
        carries.append(carry.value)
    assert sum(ratios) / 40 == pytest.approx(0, abs=0.004)
    assert sum(carries) / 40 == pytest.approx(0.04, abs=0.004)
    plain = [
        regression.fit([replace(item, carry=()) for item in drawn(seed, carry=0.04)["pair"]]).mean
        for seed in range(40)
    ]
    assert sum(plain) / 40 == pytest.approx(-0.02, abs=0.004)


def test_the_intervals_cover_where_one_arm_is_noisier() -> None:
    # One variance for all would be that of quiet controls.
    missed = 0
    for seed in range(400):
        fitted = fit(drawn(seed, sd=0.004, own_sd=0.02, controls=32, pairs=32))
        interval = paired.interval(fitted, 0.95)
        missed += interval.excludes_one()
    assert missed <= 0.05 * 400 + 3 * math.sqrt(0.05 * 0.95 * 400)


def test_pairs_that_drift_together_widen_the_interval() -> None:
    still = [0.01, -0.01, -0.01, 0.01, 0.01, -0.01, -0.01, 0.01] * 2
    slow = sorted(still)
    one, other = (
        regression.fit(
            [
                PairDifference(number=i + 1, d=value, candidate_first=i % 2 == 1)
                for i, value in enumerate(values)
            ]
        )
        for values in (still, slow)
    )
    assert other.lag > one.lag
    assert other.lag > 0.6
    assert other.se > 1.5 * one.se
    assert other.df < one.df


def test_few_pairs_have_no_carry_over_and_few_controls_no_variance_of_their_own() -> None:
    found = drawn(3, pairs=4, controls=2)
    fitted = fit(found)
    assert fitted.carry == (None,)
    assert fitted.df > 0
    assert fitted.place is not None


def test_one_launch_far_off_does_not_move_what_is_taken_out() -> None:
    found = drawn(5, sd=0.002, second=0.01, pairs=12, controls=12)
    found["pair"][3] = replace(found["pair"][3], d=0.9)
    calm = fit(found).adjusted
    others = [d for i, d in enumerate(calm) if i != 3]
    assert max(map(abs, others)) < 0.01
    assert calm[3] > 0.8


def test_columns_that_others_make_up_are_left_out() -> None:
    rows = [(1.0, 1.0, 0.0, 2.0), (1.0, -1.0, 0.0, 0.0), (1.0, 1.0, 0.0, 2.0)]
    assert linear.independent(rows, [1.0] * 3) == (0, 1)


def test_the_solution_is_numpys() -> None:
    import numpy

    random_ = random.Random(4)
    rows = [[1.0, random_.random(), random_.random()] for _ in range(20)]
    values = [random_.random() for _ in rows]
    wanted, *_ = numpy.linalg.lstsq(numpy.array(rows), numpy.array(values), rcond=None)
    assert linear.solve(rows, [1.0] * 20, values).effects == pytest.approx(list(wanted))
    assert linear.huber(rows, values, wanted) == pytest.approx(list(wanted), abs=0.1)
