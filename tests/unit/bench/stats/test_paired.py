"""The statistics against other people's programs, known tables and simulation."""

import math
import random
import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlcontainer.bench.stats import hodges_lehmann, paired, power
from dlcontainer.bench.stats.paired import Difference, Fit

finite = st.floats(-1, 1, allow_nan=False)
pairs_of = st.lists(st.tuples(finite, st.booleans()), min_size=3, max_size=40).filter(
    lambda items: len({first for _, first in items}) == 2
)


def differences(values: Sequence[float], first: Sequence[bool] | None = None) -> list[Difference]:
    order = first or [index % 2 == 1 for index in range(len(values))]
    return [
        Difference(number=index + 1, d=value, candidate_first=candidate_first)
        for index, (value, candidate_first) in enumerate(zip(values, order, strict=True))
    ]


def normal(n: int, mean: float, sd: float, seed: int = 1) -> list[float]:
    drawn = random.Random(seed)
    return [drawn.gauss(mean, sd) for _ in range(n)]


def fit(values: Sequence[float]) -> Fit:
    return paired.fit(differences(values))


def robust(values: Sequence[float], level: float) -> paired.Interval | None:
    return hodges_lehmann.interval(hodges_lehmann.walsh(values), len(values), level)


@given(pairs_of)
@settings(max_examples=60)
def test_the_fit_is_statsmodels_linear_model(items: list[tuple[float, bool]]) -> None:
    import numpy
    from statsmodels.api import OLS

    d = numpy.array([value for value, _ in items])
    second = numpy.array([-1.0 if first else 1.0 for _, first in items])
    oracle = OLS(d, numpy.column_stack([numpy.ones(len(d)), second])).fit()
    fitted = paired.fit(differences([v for v, _ in items], [first for _, first in items]))
    assert fitted.mean == pytest.approx(oracle.params[0], abs=1e-9)
    assert fitted.order_effect == pytest.approx(oracle.params[1], abs=1e-9)
    assert fitted.df == oracle.df_resid == len(d) - 2
    assert fitted.sd == pytest.approx(math.sqrt(max(oracle.mse_resid, 0)), abs=1e-9)
    assert fitted.se == pytest.approx(oracle.bse[0], abs=1e-9)
    for level in (0.9, 0.95, 0.962, 0.99):
        low, high = oracle.conf_int(1 - level)[0]
        found = paired.interval(fitted, level)
        assert math.log(found.low) == pytest.approx(low, abs=1e-8)
        assert math.log(found.high) == pytest.approx(high, abs=1e-8)


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
        ours = Fit(
            numbers=tuple(range(10)), adjusted=tuple(d), mean=centre, order_effect=0.0,
            sd=float(d.std(ddof=1)), se=se, df=9,
        )  # fmt: skip
        assert paired.interval(ours, 0.9).within(0.02) == (p < 0.05)


@pytest.mark.parametrize("n", [6, 7, 8, 12, 20, 32])
def test_the_rank_interval_inverts_scipys_signed_rank_test(n: int) -> None:
    import numpy
    import scipy.stats

    values = normal(n, 0.01, 0.02, n)
    found = robust(values, 0.9)
    assert found is not None

    def p(shift: float) -> float:
        return float(scipy.stats.wilcoxon(numpy.array(values) - shift, method="exact").pvalue)

    tail = 1 - found.level
    nudge = 1e-9
    for bound, inward in ((math.log(found.low), nudge), (math.log(found.high), -nudge)):
        assert p(bound + inward) > tail * (1 + 1e-9)
        assert p(bound - inward) <= tail * (1 + 1e-9)
    walsh = [(a + b) / 2 for i, a in enumerate(values) for b in values[i:]]
    assert found.ratio == pytest.approx(math.exp(float(numpy.median(walsh))))


@pytest.mark.parametrize("tail", [0.05, 0.025, 0.019, 0.0095])
def test_of_many_pairs_the_rank_interval_is_normal(
    tail: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (30, 60):
        exact, _ = hodges_lehmann.cut.__wrapped__(n, tail)
        monkeypatch.setattr(hodges_lehmann, "_EXACT", 10)
        normal_cut, level = hodges_lehmann.cut.__wrapped__(n, tail)
        monkeypatch.undo()
        assert abs(exact - normal_cut) <= 2
        assert level == 1 - 2 * tail


def test_of_very_many_pairs_there_is_no_rank_interval() -> None:
    values = normal(hodges_lehmann.MOST + 1, 0.01, 0.02)
    assert hodges_lehmann.walsh(values) == ()
    assert robust(values, 0.9) is None
    fitted = fit(values)
    assert statistics.median(fitted.adjusted) == pytest.approx(0.01, abs=0.002)


def test_of_hundreds_of_normal_pairs_ranks_and_mean_agree() -> None:
    found = robust(normal(400, 0.01, 0.02), 0.95)
    assert found is not None
    assert found.low < math.exp(0.01) < found.high
    oracle = paired.interval(fit(normal(400, 0.01, 0.02)), 0.95)
    assert found.low == pytest.approx(oracle.low, abs=5e-4)


def test_there_is_no_rank_interval_of_few_pairs() -> None:
    assert robust(normal(5, 0, 1), 0.9) is None
    assert robust(normal(6, 0, 1), 0.981) is None
    assert robust(normal(8, 0, 1), 0.981) is not None


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
    there = paired.fit(differences([v for v, _ in items], [f for _, f in items]))
    back = paired.fit(differences([-v for v, _ in items], [not f for _, f in items]))
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
        paired.fit([])
    for items in (
        differences([0.1]),
        differences([0.1, 0.2]),
        differences([0.1] * 8, [True] * 8),
    ):
        fitted = paired.fit(items)
        assert fitted.df == 0
        found = paired.interval(fitted, 0.95)
        assert (found.low, found.high) == (0.0, math.inf)
        assert not found.excludes_one()
        assert not found.within(0.5)


def test_unbalanced_orders_are_weighted() -> None:
    fitted = paired.fit(differences([0.1, 0.1, 0.1, 0.3], [False, False, False, True]))
    assert fitted.mean == pytest.approx(0.2)
    assert fitted.order_effect == pytest.approx(-0.1)


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

    count = 3000
    drawn = numpy.random.default_rng(7).normal(truth, sd, (count, n))
    won = sum(paired.interval(fit(row), 0.9).within(0.02) for row in drawn.tolist())
    assert won / count == pytest.approx(power.equivalent(n, sd, 0.02, 0.05, truth), abs=0.03)


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
    assert [needed(sd) for sd in (0.014, 0.02, 0.03)] == [10, 18, 37]
    assert needed(5.0) is None
    for equivalence in (True, False):
        found = needed(0.05, equivalence=equivalence)
        assert found is not None
        truth = math.log(1.005) if equivalence else math.log(1.02)
        found_power = (
            power.equivalent(found, 0.05, 0.02, 0.05, truth)
            if equivalence
            else power.different(found, 0.05, 0.05, truth)
        )
        assert found_power == pytest.approx(0.9, abs=0.01)


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
    above = paired.Interval(ratio=1.03, low=1.0201, high=1.04, level=0.95)
    assert above.beyond(0.02)
    assert not paired.Interval(ratio=1.03, low=1.01, high=1.04, level=0.95).beyond(0.02)
    assert paired.Interval(ratio=0.9, low=0.8, high=0.95, level=0.95).beyond(0.02)


def test_the_order_effect_has_an_interval() -> None:
    found = paired.order_interval(fit([0.05, -0.05, 0.051, -0.049, 0.05, -0.051]), 0.95)
    assert found.ratio == pytest.approx(math.exp(0.05), rel=0.01)
    assert found.excludes_one()
