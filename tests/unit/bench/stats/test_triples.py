"""The sequences of triples and their model, against statsmodels."""

import math
import random
from dataclasses import replace
from itertools import permutations

import pytest

from dlcontainer.bench.analysis.verdict import Evidence, VerdictRules, judge
from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.samples.launch_order import (
    SEQUENCES,
    LaunchCounts,
    Triple,
    plan_stages,
    sequences,
)
from dlcontainer.bench.stats import hodges_lehmann, power, regression
from dlcontainer.bench.stats.differences import PairDifference


def test_each_block_is_a_williams_design() -> None:
    for seed in range(30):
        drawn = sequences(18, random.Random(seed))
        for start in range(0, 18, 6):
            block = drawn[start : start + 6]
            assert sorted(block) == sorted(SEQUENCES)
            for place in range(3):
                stands = [sequence[place] for sequence in block]
                assert {arm: stands.count(arm) for arm in "nuc"} == {"n": 2, "u": 2, "c": 2}
            follows = [sequence[i : i + 2] for sequence in block for i in (0, 1)]
            assert {pair: follows.count(pair) for pair in set(follows)} == {
                "".join(pair): 2 for pair in permutations("nuc", 2)
            }


def test_the_order_of_a_block_is_drawn() -> None:
    drawn = {tuple(sequences(6, random.Random(seed))) for seed in range(50)}
    assert len(drawn) > 40
    assert sequences(12, random.Random(1)) == sequences(12, random.Random(1))


def test_each_look_has_whole_blocks_and_its_share_of_the_rest() -> None:
    looks = (12, 18, 36)
    for seed in range(10):
        counts = LaunchCounts(joiners=36, controls=36, candidate_controls=12, triples=True)
        stages = plan_stages(looks=looks, counts=counts, seed=seed)
        done: list[launch_order.Group] = []
        for look, stage in zip(looks, stages, strict=True):
            done += stage
            triples = [group for group in done if isinstance(group, Triple)]
            assert [triple.number for triple in triples] == list(range(1, look + 1))
            orders = [triple.order for triple in triples]
            assert {orders.count(one) for one in SEQUENCES} == {look // 6}
            own = [group for group in done if group.series == "candidate_control"]
            assert len(own) == look // 3


def planted(
    count: int, sd: float, seed: int, effects: tuple[float, float, float]
) -> list[PairDifference]:
    """Draw d of native to container: the arm's effect, those of running second and third."""
    random_ = random.Random(seed)
    arm, second, third = effects
    of_place = (0.0, second, third)
    found = []
    for number, one in enumerate(sequences(count, random_), start=1):
        at = (one.index("n"), one.index("c"))
        d = arm + of_place[at[1]] - of_place[at[0]] + random_.gauss(0, sd)
        found.append(PairDifference(number=number, d=d, candidate_first=at[1] < at[0], places=at))
    return found


@pytest.mark.parametrize("count", [6, 12, 13, 17, 36])
def test_the_fit_is_that_of_statsmodels(count: int) -> None:
    import numpy
    import statsmodels.api

    drawn = planted(count, 0.01, count, (0.03, 0.01, 0.02))
    ours = regression.fit(drawn)
    columns = numpy.array(
        [
            [1, (c == 1) - (r == 1), (c == 2) - (r == 2)]
            for r, c in (item.places or (0, 0) for item in drawn)
        ],
        dtype=float,
    )
    theirs = statsmodels.api.OLS([item.d for item in drawn], columns).fit()
    assert [ours.mean, ours.order_effect, ours.third] == pytest.approx(list(theirs.params))
    inflated = (1 + ours.lag) / (1 - ours.lag)
    assert ours.se == pytest.approx(theirs.bse[0] * math.sqrt(inflated))
    assert ours.sd == pytest.approx(math.sqrt(theirs.mse_resid))
    assert theirs.df_resid == count - 3
    assert ours.df == pytest.approx(max(2, (count - 3) / inflated))


def test_places_leave_no_trace_in_whole_blocks() -> None:
    fitted = regression.fit(planted(12, 0.0, 3, (0.03, 0.5, -0.4)))
    assert (fitted.mean, fitted.order_effect) == pytest.approx((0.03, 0.5))
    assert fitted.third == pytest.approx(-0.4)
    assert fitted.adjusted == pytest.approx([0.03] * 12)


def test_one_far_launch_does_not_move_the_ranks() -> None:
    drawn = planted(12, 0.002, 5, (0.0, 0.01, 0.01))
    far = [*drawn[:-1], replace(drawn[-1], d=0.9)]
    fitted = regression.fit(far)
    assert fitted.mean > 0.07
    found = hodges_lehmann.interval(hodges_lehmann.walsh(fitted.adjusted), 12, 0.95)
    assert found is not None
    assert abs(found.ratio - 1) < 0.003
    rules = VerdictRules(margin=0.02, alpha=0.05, equivalence=True, block=6)
    verdict = judge(rules, Evidence(pairs=fitted))
    assert (verdict.word, verdict.tail) == ("INCONCLUSIVE", (12,))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_too_few_to_fit(count: int) -> None:
    assert regression.fit(planted(count, 0.01, 1, (0.0, 0.0, 0.0))).df == 0


def test_a_verdict_takes_whole_blocks() -> None:
    rules = VerdictRules(margin=0.02, alpha=0.05, equivalence=True, block=launch_order.TRIPLES)
    assert rules.fewest == 12
    assert VerdictRules(margin=0.02, alpha=0.05, equivalence=True).fewest == power.FEWEST == 8
    few = judge(rules, Evidence(pairs=regression.fit(planted(6, 0.001, 1, (0.0, 0.0, 0.0)))))
    assert few.word == "INCONCLUSIVE"
    assert few.reasons == ("6 triples, and a verdict takes at least 12",)
    noisy = judge(rules, Evidence(pairs=regression.fit(planted(12, 0.05, 2, (0.0, 0.0, 0.0)))))
    assert noisy.more_pairs is not None
    assert noisy.more_pairs % 6 == 0
