"""The statistics against other people's programs, known tables and simulation."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcontainer.bench.stats import hodges_lehmann, paired, regression
from dlcontainer.bench.stats.differences import PairDifference
from dlcontainer.bench.stats.regression import RegressionFit

finite = st.floats(-1, 1, allow_nan=False)
pairs_of = st.lists(st.tuples(finite, st.booleans()), min_size=3, max_size=40).filter(
    lambda items: len({first for _, first in items}) == 2
)


def differences(
    values: Sequence[float], first: Sequence[bool] | None = None
) -> list[PairDifference]:
    order = first or [index % 2 == 1 for index in range(len(values))]
    return [
        PairDifference(number=index + 1, d=value, candidate_first=candidate_first)
        for index, (value, candidate_first) in enumerate(zip(values, order, strict=True))
    ]


def normal(n: int, mean: float, sd: float, seed: int = 1) -> list[float]:
    drawn = random.Random(seed)
    return [drawn.gauss(mean, sd) for _ in range(n)]


def fit(values: Sequence[float]) -> RegressionFit:
    return regression.fit(differences(values))


@given(pairs_of)
@settings(max_examples=60)
def test_the_fit_is_statsmodels_linear_model(items: list[tuple[float, bool]]) -> None:
    import numpy
    import scipy.stats
    from statsmodels.api import OLS

    d = numpy.array([value for value, _ in items])
    second = numpy.array([-1.0 if first else 1.0 for _, first in items])
    oracle = OLS(d, numpy.column_stack([numpy.ones(len(d)), second])).fit()
    fitted = regression.fit(differences([v for v, _ in items], [first for _, first in items]))
    assert fitted.mean == pytest.approx(oracle.params[0], abs=1e-9)
    assert fitted.order_effect == pytest.approx(oracle.params[1], abs=1e-9)
    # What the correlation of neighbours adds stands apart: without it the model is the oracle's.
    inflated = (1 + fitted.lag) / (1 - fitted.lag)
    assert oracle.df_resid == len(d) - 2
    assert fitted.df == pytest.approx(max(min(2, len(d) - 2), (len(d) - 2) / inflated))
    assert fitted.sd == pytest.approx(math.sqrt(max(oracle.mse_resid, 0)), abs=1e-9)
    assert fitted.se == pytest.approx(oracle.bse[0] * math.sqrt(inflated), abs=1e-9)
    for level in (0.9, 0.95, 0.962, 0.99):
        found = paired.interval(fitted, level)
        half = scipy.stats.t.isf((1 - level) / 2, fitted.df) * fitted.se
        assert math.log(found.low) == pytest.approx(fitted.mean - half, abs=1e-8)
        assert math.log(found.high) == pytest.approx(fitted.mean + half, abs=1e-8)


def test_equivalence_is_statsmodels_two_one_sided_tests() -> None:
    # Without an order effect to fit, TOST on d has df n - 1; the interval form is compared at
    # that df, so that only the equivalence of interval and two tests is at stake.
    import numpy
    from statsmodels.stats.weightstats import DescrStatsW

    margin = math.log1p(0.02)
    for seed in range(40):
        d = numpy.array(normal(10, 0.006, 0.012, seed))
        p, _, _ = DescrStatsW(d).ttost_mean(-margin, margin)
        centre, se = float(d.mean()), float(d.std(ddof=1) / math.sqrt(len(d)))
        ours = RegressionFit(
            numbers=tuple(range(10)), adjusted=tuple(d), mean=centre,
            sd=float(d.std(ddof=1)), se=se, df=9,
        )  # fmt: skip
        assert paired.interval(ours, 0.9).within(0.02) == (p < 0.05)


@given(st.lists(finite, min_size=6, max_size=20), st.floats(-0.5, 0.5))
@settings(max_examples=50)
def test_a_shift_moves_every_figure_and_nothing_else(values: list[float], shift: float) -> None:
    one, other = fit(values), fit([value + shift for value in values])
    assert other.mean == pytest.approx(one.mean + shift, abs=1e-9)
    assert other.sd == pytest.approx(one.sd, abs=1e-9)
    assert other.order_effect == pytest.approx(one.order_effect, abs=1e-9)


@given(pairs_of)
@settings(max_examples=50)
def test_swapping_the_sides_inverts_the_ratio(items: list[tuple[float, bool]]) -> None:
    there = regression.fit(differences([v for v, _ in items], [f for _, f in items]))
    back = regression.fit(differences([-v for v, _ in items], [not f for _, f in items]))
    one, other = paired.interval(there, 0.95), paired.interval(back, 0.95)
    assert one.ratio == pytest.approx(1 / other.ratio)
    assert one.low == pytest.approx(1 / other.high)
    assert there.order_effect == pytest.approx(back.order_effect, abs=1e-12)


@given(st.lists(finite, min_size=8, max_size=8), finite)
@settings(max_examples=50)
def test_a_pure_order_effect_leaves_the_ratio_alone(noise: list[float], effect: float) -> None:
    first = [index % 2 == 1 for index in range(8)]
    moved = [d + (-effect if f else effect) for d, f in zip(noise, first, strict=True)]
    one, other = fit(noise), fit(moved)
    assert other.mean == pytest.approx(one.mean, abs=1e-9)
    assert other.sd == pytest.approx(one.sd, abs=1e-9)
    assert other.order_effect == pytest.approx(one.order_effect + effect, abs=1e-9)


@given(st.lists(finite, min_size=3, max_size=20), st.floats(0.5, 0.99), st.floats(0.5, 0.99))
@settings(max_examples=50)
def test_a_higher_level_is_a_wider_interval(values: list[float], one: float, two: float) -> None:
    narrow, wide = (paired.interval(fit(values), level) for level in sorted((one, two)))
    assert wide.low <= narrow.low <= narrow.ratio <= narrow.high <= wide.high


def test_too_little_to_fit() -> None:
    with pytest.raises(ValueError, match="no pairs"):
        regression.fit([])
    for items in (
        differences([0.1]),
        differences([0.1, 0.2]),
        differences([0.1] * 8, [True] * 8),
    ):
        fitted = regression.fit(items)
        assert fitted.df == 0
        found = paired.interval(fitted, 0.95)
        assert (found.low, found.high) == (0.0, math.inf)
        assert not found.excludes_one()
        assert not found.within(0.5)


def test_unbalanced_orders_are_weighted() -> None:
    fitted = regression.fit(differences([0.1, 0.1, 0.1, 0.3], [False, False, False, True]))
    assert fitted.mean == pytest.approx(0.2)
    assert fitted.order_effect == pytest.approx(-0.1)


@pytest.mark.parametrize(("schedule", "level"), list(paired.SPENT.items()))
def test_the_spent_levels_hold_the_whole(
    schedule: tuple[tuple[int, ...], float], level: float
) -> None:
    import numpy
    import scipy.stats

    looks, alpha = schedule
    count = 20_000
    walk = numpy.random.default_rng(5).normal(0, 1, (count, looks[-1])).cumsum(axis=1)
    wrong = numpy.zeros(count, dtype=bool)
    for n in looks:
        t = float(scipy.stats.norm.isf(level / 2))
        wrong |= numpy.abs(walk[:, n - 1]) / math.sqrt(n) > t
    assert wrong.mean() <= alpha
    assert wrong.mean() > 0.8 * alpha


def test_levels_of_looks() -> None:
    assert paired.spent_alpha((12,), 0.05) == 0.05
    assert paired.spent_alpha((), 0.01) == 0.01
    assert paired.spent_alpha((8, 16, 32), 0.05) == 0.019
    assert paired.spent_alpha((8, 16), 0.05) == 0.025


def test_outlying_pairs_are_named() -> None:
    assert hodges_lehmann.outlying(fit([0.01, 0.011, 0.012, 0.009, 0.01, 0.011, 0.9, 0.01])) == (7,)
    assert hodges_lehmann.outlying(fit([0.0, 0.1, 0.0, 0.1, 0.0, 0.1, 0.0, 0.12])) != ()


def test_an_interval_and_a_margin() -> None:
    edge = paired.Interval(ratio=1.0, low=1 / 1.02, high=1.02, level=0.9)
    assert edge.within(0.02)
    assert not edge.within(0.0199)
    assert not edge.excludes_one()
    # As much slower as faster: 1/(1+m) is nearer to 1 than 1-m.
    low = paired.Interval(ratio=0.99, low=0.9802, high=1.0, level=0.9)
    assert 1 - 0.02 < low.low < 1 / 1.02
    assert not low.within(0.02)
    assert paired.Interval(ratio=0.97, low=0.96, high=0.9802, level=0.95).beyond(0.02)
    above = paired.Interval(ratio=1.03, low=1.0201, high=1.04, level=0.95)
    assert above.beyond(0.02)
    assert not paired.Interval(ratio=1.03, low=1.01, high=1.04, level=0.95).beyond(0.02)
    assert paired.Interval(ratio=0.9, low=0.8, high=0.95, level=0.95).beyond(0.02)


def test_the_order_effect_has_an_interval() -> None:
    place = fit([0.05, -0.05, 0.051, -0.049, 0.05, -0.051]).place
    assert place is not None
    found = paired.effect_interval(place, 0.95)
    assert found.ratio == pytest.approx(math.exp(0.05), rel=0.01)
    assert found.excludes_one()
