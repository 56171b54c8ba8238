"""A machine from a study whose truth is known, its draws, and forecasts by them."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import calibration, link_fit, step_forecast, step_model
from dlcontainer.bench.study.forecast.calibration import CalibratedMachine
from dlcontainer.bench.study.forecast.estimates import ConstantName, Estimate
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    ExtraPlan,
    IdleNeighbours,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
    StudyPlan,
)
from dlcontainer.errors import BenchDataError

ARM = "container"
NETWORK = TrainedNetwork(flops=2e9, gradient_bytes=40e6, layers=4, activation_bytes=1e5)
IN_NODE = RankLink(latency_s=2e-5, second_per_byte=2e-10)
PORT = RankLink(latency_s=1e-4, second_per_byte=1e-9)
TRUTH = Machine(
    flops_per_s=4e11,
    ranks_per_node=2,
    in_node=IN_NODE,
    between_nodes=PORT,
    neighbours=0.05,
    overlap=0.6,
    scatter=0.01,
)
NOISE = (0.995, 1.0, 1.004, 0.998, 1.01)
BATCH = 16


def message(ranks: int, size: int, link: RankLink, operation: str = "all_reduce") -> Message:
    n = ranks
    seconds = 2 * (n - 1) * link.latency_s + 2 * (n - 1) / n * size * link.second_per_byte
    if operation == "send_recv":
        seconds = link.latency_s + size * link.second_per_byte
    return Message(
        operation=operation, ranks=n, nodes=max(1, n // 2), bytes=size, arm=ARM,
        least_s=seconds, median_s=seconds,
    )  # fmt: skip


def point(ranks: int, truth: Machine) -> MeasuredPoint:
    strategy = ParallelStrategy(dp=ranks)
    choice = StrategyChoice(strategy=strategy, global_batch=BATCH * ranks)
    step = step_model.step(NETWORK, truth, choice).step_s
    # Ranks whose standard deviation is the truth's.
    reach = truth.scatter * math.sqrt((ranks - 1) / ranks)
    ranked = tuple(0.08 * (1 + reach * (-1) ** rank) for rank in range(ranks))
    apart = tuple(ranked for _ in NOISE)
    plan = PointPlan(
        ranks=ranks, nodes=max(1, ranks // 2), strategy=strategy, global_batch=BATCH * ranks,
        looks=(5,), file=f"{ranks}.jsonl",
    )  # fmt: skip
    steps = ArmSteps(step_s=tuple(step * noise for noise in NOISE), apart_s=apart, input_s=())
    return MeasuredPoint(plan=plan, arms={ARM: steps}, complete=True)


def study(
    messages: Sequence[Message], ranks: Sequence[int] = (1, 2, 4), truth: Machine = TRUTH
) -> MeasuredStudy:
    points = tuple(point(number, truth) for number in ranks)
    alone = NETWORK.flops * BATCH / truth.flops_per_s
    plan = StudyPlan(
        site="local", image_sha256="", recipe="r", workload="w", precision="fp32", scaling="weak",
        one_allocation=False, points=tuple(one.plan for one in points),
        extras=(ExtraPlan(kind="idle_neighbours", ranks=2, nodes=1, file="n.jsonl"),),
        created="", version="",
    )  # fmt: skip
    beside = IdleNeighbours(
        ranks=2, arm=ARM, step_s=tuple(alone * (1 + truth.neighbours) * noise for noise in NOISE)
    )
    return MeasuredStudy(
        folder=Path("study"), plan=plan, points=points, messages=tuple(messages),
        idle_neighbours=(beside,), digest="", backend="nccl",
    )  # fmt: skip


# Two ranks share a node; four and eight lie on two and four.
ROWS = [
    message(ranks, size, IN_NODE if ranks == 2 else PORT)
    for ranks in (2, 4, 8)
    for size in (4096, 1 << 22)
]


def test_the_truth_of_a_study_comes_back() -> None:
    calibrated = calibration.from_study(study(ROWS), ARM)
    machine = calibrated.machine(NETWORK)
    assert machine.flops_per_s == pytest.approx(TRUTH.flops_per_s, rel=0.01)
    for ours, link in ((machine.in_node, IN_NODE), (machine.between_nodes, PORT)):
        assert ours.latency_s == pytest.approx(link.latency_s, rel=1e-6)
        assert ours.second_per_byte == pytest.approx(link.second_per_byte, rel=1e-6)
    assert machine.neighbours == pytest.approx(TRUTH.neighbours, abs=0.01)
    assert machine.scatter == pytest.approx(TRUTH.scatter)
    # Of the step's noise, 1 % is much of what the overlap hides.
    assert machine.overlap == pytest.approx(TRUTH.overlap, abs=0.2)
    assert (machine.ranks_per_node, machine.rendezvous) == (2, False)
    assert machine.algorithm == "ring or tree"
    truths: dict[ConstantName, float] = {
        "idle neighbours": TRUTH.neighbours,
        "bandwidth between nodes": PORT.second_per_byte,
        "latency in a node": IN_NODE.latency_s,
        "seconds of a sample": NETWORK.flops / TRUTH.flops_per_s,
    }
    for name, true in truths.items():
        low, high = calibrated.estimates[name].interval()
        assert low <= true <= high


def test_gloo_waits_and_has_rings_alone() -> None:
    gloo = calibration.from_study(replace(study(ROWS), backend="gloo"), ARM)
    assert (gloo.rendezvous, gloo.algorithm) == (True, "ring")


def test_the_first_two_points_calibrate() -> None:
    """A third point at half the rate changes nothing: it is what a forecast is judged by."""
    slow = RankLink(latency_s=1e-4, second_per_byte=2e-9)
    later = [message(16, size, slow) for size in (4096, 1 << 22)]
    before = calibration.from_study(study(ROWS), ARM).estimates
    assert calibration.from_study(study([*ROWS, *later]), ARM).estimates == before


def test_the_other_arm_s_rows_do_not_count() -> None:
    other = [replace(row, arm="native", least_s=row.least_s * 9) for row in ROWS]
    before = calibration.from_study(study(ROWS), ARM).estimates
    assert calibration.from_study(study([*other, *ROWS]), ARM).estimates == before


def test_pipelines_take_send_recv() -> None:
    apart = RankLink(latency_s=3e-4, second_per_byte=3e-9)
    rows = [message(4, size, apart, "send_recv") for size in (4096, 1 << 22)]
    machine = calibration.from_study(study([*ROWS, *rows]), ARM).machine(NETWORK)
    assert machine.stage_between_nodes is not None
    assert machine.stage_between_nodes.second_per_byte == pytest.approx(3e-9, rel=1e-6)
    assert machine.stage_in_node is None


def test_bytes_are_told_by_least_times_and_latency_between() -> None:
    small, large = message(2, 4096, PORT), message(2, 1 << 22, PORT)
    fitted = link_fit.fit([replace(small, median_s=small.least_s * 4), large])
    assert fitted is not None
    assert fitted.link.second_per_byte == pytest.approx(PORT.second_per_byte, rel=0.06)
    assert fitted.link.latency_s == pytest.approx(2 * PORT.latency_s, rel=0.1)
    # Least time and median lie at the ends of the interval.
    assert fitted.latency_error[0] > 0.4 > 0.05 > fitted.byte_error[0]
    assert link_fit.fit([small]) is None


def test_no_constant_of_a_link_is_negative() -> None:
    # The small message takes less than its bytes would.
    few, many = message(2, 4096, PORT), message(2, 1 << 22, PORT)
    fitted = link_fit.fit([replace(few, least_s=1e-9, median_s=1e-9), many])
    assert fitted is not None
    assert (fitted.link.latency_s, fitted.link.second_per_byte > 0) == (0.0, True)
    quick = [replace(message(2, 4096, PORT), least_s=1.0, median_s=1.0), message(2, 1 << 22, PORT)]
    fitted = link_fit.fit(quick)
    assert fitted is not None
    assert min(fitted.link.latency_s, fitted.link.second_per_byte) >= 0


def test_a_study_without_a_point_of_one_rank_is_refused() -> None:
    with pytest.raises(BenchDataError, match="no point of one rank has steps of container"):
        calibration.from_study(study(ROWS, ranks=(2, 4)), ARM)


def test_a_link_that_nobody_measured_is_named() -> None:
    rows = [row for row in ROWS if row.ranks == 2]
    calibrated = calibration.from_study(study(rows, ranks=(1, 2)), ARM)
    asked = StrategyChoice(strategy=ParallelStrategy(dp=8), global_batch=128)
    assert calibrated.unmeasured(asked.strategy) == ("bandwidth between nodes",)
    with pytest.raises(BenchDataError, match="dp8 on 8 ranks: bandwidth between nodes was not"):
        step_forecast.of(calibrated, NETWORK, asked)
    inside = replace(asked, strategy=ParallelStrategy(dp=2))
    assert step_forecast.of(calibrated, NETWORK, inside).low_s > 0


def test_ranks_of_a_machine_tell_its_scatter_and_not_its_launches() -> None:
    """A slow device is slow in each launch: ten launches of it are no ten devices."""
    measured = study(ROWS)
    often = [
        replace(one, arms={ARM: replace(one.arms[ARM], apart_s=one.arms[ARM].apart_s * 10)})
        for one in measured.points
    ]
    once, again = (
        calibration.from_study(each, ARM).estimates["scatter of ranks"]
        for each in (measured, replace(measured, points=tuple(often)))
    )
    assert once.se == pytest.approx(again.se)
    # 1 and 3 degrees of freedom.
    assert once.df == again.df == 4


def test_overlap_is_assumed_where_no_step_tells_it() -> None:
    calibrated = calibration.from_study(study(ROWS), ARM)
    tiny = replace(NETWORK, gradient_bytes=1.0)
    low, high = calibrated.inputs(tiny)["overlap"].interval()
    assert (low, high) == pytest.approx(calibration.OVERLAP)
    assert calibrated.inputs(tiny)["overlap"].source.startswith("assumed")


def test_a_forecast_holds_the_truth() -> None:
    calibrated = calibration.from_study(study(ROWS), ARM)
    for strategy in (ParallelStrategy(dp=8), ParallelStrategy(dp=32)):
        asked = StrategyChoice(strategy=strategy, global_batch=BATCH * strategy.ranks)
        forecast = step_forecast.of(calibrated, NETWORK, asked)
        true = step_model.step(NETWORK, TRUTH, asked).step_s
        assert forecast.low_s < true < forecast.high_s
        assert forecast.low_s < forecast.terms.step_s < forecast.high_s
        # An interval that holds everything is worth nothing.
        assert forecast.high_s / forecast.low_s < 1.6
        assert forecast == step_forecast.of(calibrated, NETWORK, asked)


def test_what_rules_is_named() -> None:
    calibrated = calibration.from_study(study(ROWS), ARM)
    asked = StrategyChoice(strategy=ParallelStrategy(tp=4), global_batch=BATCH)
    forecast = step_forecast.of(calibrated, NETWORK, asked)
    assert forecast.ruling_term == "exposed communication"
    assert sum(forecast.shares.values()) == pytest.approx(1)
    vague = replace(calibrated.estimates["bandwidth between nodes"], se=1.0)
    worse = with_estimate(calibrated, vague)
    assert step_forecast.of(worse, NETWORK, asked).ruling_input == "bandwidth between nodes"
    assert step_forecast.of(worse, NETWORK, asked).high_s > forecast.high_s


def test_nothing_uncertain_has_no_width() -> None:
    calibrated = calibration.from_study(study(ROWS), ARM)
    sure = {name: replace(one, se=0.0) for name, one in calibrated.inputs(NETWORK).items()}
    forecast = step_forecast.of(
        replace(calibrated, estimates=sure), NETWORK,
        StrategyChoice(strategy=ParallelStrategy(), global_batch=BATCH),
    )  # fmt: skip
    assert forecast.low_s == forecast.high_s == forecast.terms.step_s
    assert (forecast.ruling_term, forecast.ruling_input) == ("compute", None)


def test_input_is_no_compute() -> None:
    measured = study(ROWS)
    alone = measured.points[0].arms[ARM]
    waits = replace(
        alone,
        step_s=tuple(step + 0.016 for step in alone.step_s),
        input_s=(0.016,) * len(alone.step_s),
    )
    points = (replace(measured.points[0], arms={ARM: waits}), *measured.points[1:])
    machine = calibration.from_study(replace(measured, points=points), ARM).machine(NETWORK)
    assert machine.flops_per_s == pytest.approx(TRUTH.flops_per_s, rel=0.01)
    assert machine.input_s == pytest.approx(0.001, rel=0.01)


def with_estimate(calibrated: CalibratedMachine, estimate: Estimate) -> CalibratedMachine:
    return replace(calibrated, estimates={**calibrated.estimates, estimate.name: estimate})
