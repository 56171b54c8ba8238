"""Sessions of groups and statements across sessions, simulated; figures: verdict_table.py."""

import math

import numpy
import pytest

from benchmarks import resident_sessions
from benchmarks.resident_sessions import across, draw
from benchmarks.simulation import WORDS, Design, agrees, share, simulate
from benchmarks.worlds import World
from dlcontainer.bench.analysis.verdict import VerdictRules, worded
from dlcontainer.bench.stats import paired

GROUPS = Design(controls=0, rule="groups")
QUIET = World(sd=0.015, drift=0.0, ar=0.0, outliers=0.0, second=0.0)
SESSIONS = 1000


@pytest.mark.parametrize(
    ("world", "design"),
    [
        (World(truth=1.012, sd=0.014, kernels=0.08), GROUPS),
        (
            World(sd=0.03, own_ar=0.9, slow=0.05),
            Design(controls=0, equivalence=False, rule="groups"),
        ),
        (
            World(truth=1.02, carry=0.02, own_drift=0.02),
            Design(looks=(8,), controls=0, rule="groups"),
        ),
    ],
)
def test_the_arrays_say_what_the_real_code_says(world: World, design: Design) -> None:
    assert agrees(world, design, 40, 7, draw)


def test_the_groups_are_as_asked_for() -> None:
    world = World(truth=1.1, sd=0.01, outliers=0.0)
    drawn = draw(world, GROUPS, 20_000, numpy.random.default_rng(3), 3)
    assert drawn.pairs.std(axis=0) == pytest.approx(0.01, rel=0.05)
    assert drawn.pairs.mean() == pytest.approx(math.log(1.1), abs=1e-4)
    assert {one.carry for one in drawn.pairs_ran} == {()}
    slow = World(sd=0.001, outliers=0.0, slow=0.05)
    drawn = draw(slow, GROUPS, 20_000, numpy.random.default_rng(3), 3)
    assert drawn.pairs.mean() == pytest.approx(0.0, abs=1e-3)  # its mean is taken out
    # Both processes, one of them, none.
    hit = numpy.round(drawn.pairs - drawn.pairs.min(), 1)
    assert (hit >= 0.2).mean() == pytest.approx(1 - 0.95**2, abs=5e-3)


def test_without_a_difference_none_is_found() -> None:
    ended = simulate(QUIET, GROUPS, SESSIONS, 12, draw)
    assert share(ended, ("SLOWER", "FASTER"))[1] <= 0.05
    assert share(ended, ("EQUIVALENT",))[1] >= 0.9
    edge = World(truth=1.02, sd=0.015, outliers=0.0)
    assert share(simulate(edge, GROUPS, SESSIONS, 12, draw), ("EQUIVALENT",))[1] <= 0.05


def test_what_turns_leave_to_the_next_one_is_taken_for_the_arms() -> None:
    world = World(sd=1e-6, outliers=0.0, carry=0.02)
    drawn = draw(world, GROUPS, 200, numpy.random.default_rng(5), 5)
    assert numpy.abs(drawn.pairs).max() < 1e-4


def test_three_sessions_hold_where_one_does_not() -> None:
    placed = World(sd=0.005, outliers=0.0, placement=0.01)
    importing = Design(controls=0, equivalence=False, rule="groups")
    alone = simulate(placed, importing, SESSIONS, 13, draw)
    assert share(alone, ("SLOWER", "FASTER"))[1] > 0.05
    together = across(placed, importing, SESSIONS, 13, draw)
    assert share(together, ("SLOWER", "FASTER"))[1] <= 0.05


def test_a_statement_is_that_of_the_real_code() -> None:
    drawn = numpy.random.default_rng(4).normal(0.01, 0.006, (50, 3))
    rules = VerdictRules(margin=0.02, alpha=0.05, equivalence=True)
    for means in drawn:
        logs = [float(one) for one in means]
        word = worded(rules, paired.mean_interval(logs, 0.95), paired.mean_interval(logs, 0.9))
        assert resident_sessions.together(rules, means[None, :])[0] == WORDS.index(word)
