"""Use n; n1 to n2 not told apart: by hand, and on simulated studies."""

import math

import pytest

from benchmarks import how_many as simulated
from dlcontainer.bench.study.advice import how_many
from dlcontainer.bench.study.advice.how_many import PointSteps, RankedEfficiency


def point(ranks: int, low: float, middle: float, high: float) -> RankedEfficiency:
    return RankedEfficiency(ranks=ranks, efficiency=middle, low=low, high=high)


BASE = point(1, 1, 1, 1)


def test_the_largest_number_at_the_goal_with_both_ends() -> None:
    advice = how_many.advise(
        [point(8, 0.80, 0.86, 0.92), BASE, point(4, 0.88, 0.9, 0.93), point(16, 0.7, 0.75, 0.8)],
        0.85,
    )
    assert (advice.surely, advice.use, advice.at_most) == (4, 8, 8)
    assert advice.steps_apart == 1
    assert advice.words == "use 8; 4 to 8 not told apart; largest number surely at 85%: 4"


def test_told_exactly_has_no_interval() -> None:
    advice = how_many.advise([BASE, point(2, 0.9, 0.91, 0.92), point(4, 0.5, 0.6, 0.7)], 0.85)
    assert advice.words == "use 2; largest number surely at 85%: 2"


def test_more_ranks_may_do_too() -> None:
    advice = how_many.advise([BASE, point(2, 0.8, 0.9, 1.0)], 0.85)
    assert advice.goes_on
    assert "2 is the most that was asked about, and more may be at the goal too" in advice.words


def test_a_run_of_sure_numbers_ends_at_the_first_that_is_not() -> None:
    # 8 looks sure, 4 does not: one of the two is chance.
    advice = how_many.advise(
        [BASE, point(2, 0.9, 0.95, 1), point(4, 0.8, 0.84, 0.9), point(8, 0.86, 0.9, 0.95)], 0.85
    )
    assert (advice.surely, advice.use, advice.at_most) == (2, 8, 8)


def test_no_number_is_at_the_goal() -> None:
    advice = how_many.advise([point(64, 0.5, 0.6, 0.7)], 0.85)
    assert advice.words == "no number of ranks is at 85%"
    unsure = how_many.advise([point(64, 0.5, 0.6, 0.9)], 0.85)
    assert unsure.words.startswith("use none of these; none to 64 not told apart")
    with pytest.raises(ValueError, match="no number"):
        how_many.advise([], 0.85)


def test_efficiency_of_launches_is_samples_a_second_and_rank() -> None:
    base = PointSteps(ranks=1, samples=32, step_s=[1.0, 1.02, 0.98, 1.0])
    strong = PointSteps(ranks=2, samples=16, step_s=[0.6, 0.61, 0.59, 0.6])
    told = how_many.efficiency(base, strong)
    assert told.efficiency == pytest.approx(0.5 / 0.6)
    assert told.low < told.efficiency < told.high
    lone = how_many.efficiency(base, PointSteps(ranks=2, samples=32, step_s=[1.1]))
    assert (lone.low, lone.high) == (0, math.inf)


def test_seconds_of_one_launch_are_the_value_alone() -> None:
    assert how_many.seconds([2.0], 0.05).width == 0
    three = how_many.seconds([1.9, 2.0, 2.1], 0.05)
    assert three.low < 1.9
    assert three.middle == pytest.approx(2)


@pytest.mark.parametrize(
    ("shape", "widest"), [("bend at 8", 1.5), ("slow fall", 1.5), ("flat at the goal", 6.0)]
)
def test_the_interval_holds_the_truth_of_simulated_studies(shape: str, widest: float) -> None:
    row = simulated.row(shape, 0.015, simulated.USUAL, 60)
    # 95 of 100 are promised; 60 studies tell that from 90.
    assert row.holds_truth >= 0.93
    assert row.doublings <= widest


def test_an_interval_that_is_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = how_many.efficiency
    monkeypatch.setattr(how_many, "efficiency", lambda base, point, tail: usual(base, point, 0.4))
    assert simulated.row("slow fall", 0.03, simulated.USUAL, 60).holds_truth < 0.9
