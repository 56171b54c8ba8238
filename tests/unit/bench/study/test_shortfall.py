"""Below what the first points foretold: a link at half rate, a slow host, and neither."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.report.sections import scaling_words
from dlcontainer.bench.samples.parallel_strategy import parse
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import judged_study, shortfall, study_analysis
from dlcontainer.bench.study.forecast import collective_times, placement, step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.shortfall import ForeseenComparison
from dlcontainer.bench.study.study_analysis import ForeseenStudy
from dlcontainer.bench.study.study_records import ArmSteps, MeasuredPoint, Message
from tests import planted_studies as studies
from tests.planted_studies import Planted, StudyCase

# One rank a node, 100 MB of gradients on a link of 1 GB/s, of which half hides.
PARAMETERS = 25_000_000
NETWORK = TrainedNetwork(flops=1.0, gradient_bytes=4.0 * PARAMETERS)
ALONE_S = 0.4
BATCH = 32
MACHINE = Machine(
    flops_per_s=BATCH / ALONE_S,
    ranks_per_node=1,
    in_node=RankLink(latency_s=0.0, second_per_byte=0.0),
    between_nodes=RankLink(latency_s=50e-6, second_per_byte=1e-9),
    overlap=0.5,
    scatter=0.005,
    rendezvous=True,
)
HALF = replace(MACHINE, between_nodes=RankLink(latency_s=50e-6, second_per_byte=2e-9))
COUNTS = (1, 2, 4)


def step_of(machine: Machine, ranks: int) -> StrategyChoice:
    return StrategyChoice(strategy=parse("dp", ranks), global_batch=BATCH * ranks)


def messages(rng: random.Random) -> tuple[Message, ...]:
    """Time all-reduce at two sizes on 2 and 4 ranks, as the first link has it."""
    rows = []
    for ranks in COUNTS[1:]:
        for size in (4_096, 4_194_304):
            strategy = step_of(MACHINE, ranks).strategy
            group = placement.group(strategy, "dp", 1)
            seconds = collective_times.all_reduce(MACHINE, group, float(size))
            for arm in ("native", "container"):
                rows.append(
                    Message(
                        operation="all_reduce", ranks=ranks, nodes=ranks, bytes=size, arm=arm,
                        least_s=seconds * (1 + abs(rng.gauss(0, 0.002))),
                        median_s=seconds * 1.02,
                    )
                )  # fmt: skip
    return tuple(rows)


def planted(last: Machine, slow_host: float = 0.0, seed: int = 1) -> JudgedStudy:
    """Draw a study on MACHINE whose last point ran on `last`, a host slower by a share."""
    rng = random.Random(seed)
    terms = {ranks: Planted() for ranks in COUNTS}
    case = StudyCase(terms=terms, per_node=1, batch=BATCH, messages=messages(rng), few=8, full=16)
    study = studies.measured(Path("nowhere"), case)
    points = tuple(
        replace(
            point,
            arms={
                arm: steps(point, last if point.plan.ranks == 4 else MACHINE, rng, slow_host)
                for arm in point.arms
            },
        )
        for point in study.points
    )
    whole = replace(study, points=points, backend="gloo")
    return judged_study.JudgedStudy(study=whole, sessions={})


def steps(point: MeasuredPoint, machine: Machine, rng: random.Random, slow_host: float) -> ArmSteps:
    ranks = point.plan.ranks
    terms = step_model.step(NETWORK, machine, step_of(machine, ranks))
    walls, apart = [], []
    for _ in range(point.plan.looks[-1]):
        own = [terms.compute_s * (1 + rng.gauss(0, machine.scatter)) for _ in range(ranks)]
        if ranks == 4:
            own[0] *= 1 + slow_host
        apart.append(tuple(own))
        walls.append(max(own) + terms.exposed_communication_s * (1 + rng.gauss(0, 0.01)))
    return ArmSteps(
        step_s=tuple(walls),
        apart_s=tuple(apart) if ranks > 1 else (),
        input_s=(0.0,) * len(walls),
    )


def held(judged: JudgedStudy) -> ForeseenStudy:
    points = study_analysis.read(judged)
    ahead = study_analysis.against_first_points(judged, points)
    assert ahead is not None
    assert ahead.reason == ""
    assert ahead.ranks == (1, 2)
    return ahead


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("last", "slow_host", "term"),
    [(HALF, 0.0, "communication"), (MACHINE, 0.25, "waiting"), (MACHINE, 0.0, "")],
)
def test_a_half_link_and_a_slow_host_are_below_by_their_terms(
    last: Machine, slow_host: float, term: str, seed: int
) -> None:
    ahead = held(planted(last, slow_host, seed))
    (point,) = ahead.comparisons
    assert (point.is_below, point.term) == (bool(term), term)
    assert point.ranks == 4
    text = scaling_words.outlook(ahead)
    ending = f": BELOW, first at 4 ranks, term: {term}." if term else ": not surely below."
    assert text.endswith(ending)
    assert text.startswith("Foreseen from 1 and 2 ranks (container): At 4 ranks the efficiency is ")


def test_nothing_of_a_later_point_is_in_what_was_foreseen() -> None:
    points = [held(planted(machine)).comparisons[0].foreseen for machine in (MACHINE, HALF)]
    assert points[0] == points[1]


def test_without_a_link_or_a_later_point_nothing_is_foreseen() -> None:
    judged = planted(MACHINE)
    silent = replace(judged, study=replace(judged.study, messages=()))
    short = replace(judged, study=replace(judged.study, points=judged.study.points[:2]))
    unknown = replace(judged.study, plan=replace(judged.study.plan, workload="mine"))
    for study, said in (
        (silent, "was not measured"),
        (short, "fewer than three numbers of ranks"),
        (replace(judged, study=unknown), "how many parameters"),
    ):
        ahead = study_analysis.against_first_points(study, study_analysis.read(study))
        assert ahead is not None
        assert ahead.comparisons == ()
        assert said in scaling_words.outlook(ahead)


def interval(low: float, high: float) -> Interval:
    return Interval(ratio=(low + high) / 2, low=low, high=high, level=0.95)


def test_below_is_surely_below() -> None:
    foreseen = interval(0.84, 0.90)
    assert shortfall.below(foreseen, interval(0.80, 0.83))
    assert not shortfall.below(foreseen, interval(0.80, 0.85))
    assert not shortfall.below(foreseen, interval(0.95, 0.97))


def test_the_sentence_names_the_first_point_that_is_below() -> None:
    def at(ranks: int, term: str) -> ForeseenComparison:
        return ForeseenComparison(
            ranks=ranks, strategy=f"dp{ranks}", measured=interval(0.82, 0.84),
            foreseen=interval(0.85, 0.9), is_below=bool(term), term=term,
        )  # fmt: skip

    assert shortfall.sentence(()) == ""
    text = shortfall.sentence([at(16, ""), at(32, "waiting"), at(64, "communication")])
    assert text == (
        "At 64 ranks the efficiency is 0.83 (0.82 to 0.84), foreseen 0.85 to 0.90: BELOW, first at "
        "32 ranks, term: communication."
    )
    passing = shortfall.sentence([at(32, "waiting"), at(64, "")])
    assert passing.endswith(": not surely below, though it is at 32 ranks (waiting).")
