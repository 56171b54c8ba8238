"""The whole procedure on simulated sessions; figures come from benchmarks/statistics.py."""

import ast

import numpy
import pytest

from benchmarks import simulation, statistics
from benchmarks.simulation import WORDS, Design, agrees, share, simulate
from benchmarks.worlds import World, quiet
from tests.values import ROOT

QUICK = Design(looks=(8,), controls=8)
SESSIONS = 2000


@pytest.mark.parametrize(
    ("world", "design"),
    [
        (World(truth=1.012, sd=0.014), Design()),
        (World(truth=1.0, sd=0.03, far=0.2), Design(controls=8)),
        (World(truth=1.02, sd=0.01), QUICK),
        (World(truth=1.0, sd=0.02), Design(looks=(8, 16), controls=16, equivalence=False)),
    ],
)
def test_the_arrays_say_what_the_real_code_says(world: World, design: Design) -> None:
    assert agrees(world, design, 40, 7)


def test_the_launches_are_as_asked_for() -> None:
    world = World(truth=1.1, sd=0.01, drift=0.0, outliers=0.0, second=0.02)
    drawn = simulation.draw(world, QUICK, 20_000, numpy.random.default_rng(3), 3)
    assert drawn.pairs.std(axis=0) == pytest.approx(0.01, rel=0.05)
    first = numpy.array([one.candidate_first for one in drawn.pairs_ran])
    before, after = drawn.pairs[:, first], drawn.pairs[:, ~first]
    assert before.mean() == pytest.approx(numpy.log(1.1) - 0.02, abs=3e-4)
    assert after.mean() == pytest.approx(numpy.log(1.1) + 0.02, abs=3e-4)
    assert drawn.controls.shape == (20_000, 8)


@pytest.mark.parametrize("design", [QUICK, Design()])
@pytest.mark.parametrize("sd", [0.005, 0.014, 0.02])
def test_at_the_margin_equivalent_is_rare(design: Design, sd: float) -> None:
    for truth in (1.02, 1 / 1.02):
        ended = simulate(World(truth=truth, sd=sd), design, SESSIONS, 11)
        assert share(ended, ("EQUIVALENT",))[1] <= 0.05  # the interval's lower end


@pytest.mark.parametrize("design", [QUICK, Design(), Design(equivalence=False)])
@pytest.mark.parametrize("sd", [0.005, 0.014, 0.03])
def test_without_a_difference_none_is_found(design: Design, sd: float) -> None:
    ended = simulate(World(sd=sd), design, SESSIONS, 12)
    assert share(ended, ("SLOWER", "FASTER"))[1] <= 0.05


@pytest.mark.parametrize(("sd", "least"), [(0.005, 0.9), (0.01, 0.75), (0.014, 0.5)])
def test_the_same_is_found_to_be_the_same(sd: float, least: float) -> None:
    quick = simulate(quiet(World(sd=sd)), QUICK, SESSIONS, 13)
    assert share(quick, ("EQUIVALENT",))[2] >= least  # the interval's upper end
    ended = simulate(World(sd=sd), Design(), SESSIONS, 13)
    assert share(ended, ("EQUIVALENT",))[1] >= 0.9


@pytest.mark.parametrize(("sd", "least"), [(0.005, 0.9), (0.01, 0.8), (0.014, 0.6), (0.02, 0.3)])
def test_three_percent_is_found(sd: float, least: float) -> None:
    ended = simulate(World(truth=1.03, sd=sd), Design(), SESSIONS, 14)
    assert share(ended, ("SLOWER",))[1] >= least


def test_what_a_container_leaves_to_the_next_launch_is_not_taken_for_its_own() -> None:
    # 2 %: 94 % of import sessions were wrong without the carry-over in the model.
    importing = Design(equivalence=False)
    ended = simulate(World(carry=0.02, outliers=0.0), importing, 1000, 15)
    assert share(ended, ("SLOWER", "FASTER"))[1] <= 0.05
    edge = simulate(World(truth=1.02, carry=0.02, outliers=0.0), Design(), 1000, 15)
    assert share(edge, ("EQUIVALENT",))[1] <= 0.05


def test_each_arms_own_drift_is_nearly_told_from_the_container() -> None:
    # 48 % were wrong without the correction for neighbours' correlation.
    ended = simulate(World(own_ar=0.9, outliers=0.0), Design(equivalence=False), 1000, 16)
    assert share(ended, ("SLOWER", "FASTER"))[0] <= 0.15


def test_a_tool_that_never_decides_fails() -> None:
    undecided = numpy.zeros(1000, dtype=numpy.int64)
    ended = simulation.Ended(undecided, undecided, undecided > 0)
    assert WORDS[0] == "INCONCLUSIVE"
    missed = [claim.name for claim in statistics.claims() if claim.judged(ended)[1] == "NO"]
    assert len(missed) >= 20


def test_agresti_and_coull() -> None:
    import scipy.stats
    from statsmodels.stats.proportion import proportion_confint

    for hits, count in ((0, 10), (5, 100), (90, 1000), (7, 7)):
        wanted = proportion_confint(hits, count, method="agresti_coull")
        found = simulation.agresti_coull(hits, count, float(scipy.stats.norm.isf(0.025)))
        assert found[1:] == pytest.approx(wanted)


def test_no_script_takes_our_statistics_for_pythons() -> None:
    # A script's own folder comes first on its path, and one of them is called statistics.py.
    folder = ROOT / "benchmarks"
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        if not any("__main__" in ast.dump(node) for node in tree.body):
            continue
        places = {
            node.module: node.lineno for node in tree.body if isinstance(node, ast.ImportFrom)
        }
        fixed = [n.lineno for n in tree.body if ast.unparse(n).startswith("sys.path[:] =")]
        if "statistics" in places or "benchmarks.sampling" in places:
            assert fixed, path.name
            assert places.get("statistics", 10_000) > fixed[0], path.name
