"""What to change next: planted limits of a study, each named by its stage."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.samples.records import AttestedStack, Json
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.bench.study.forecast import next_evidence, next_step
from dlcontainer.bench.study.forecast.next_step import Limit, StepShare
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    MeasuredPoint,
    MeasuredStudy,
    PointPlan,
    StudyPlan,
)
from dlcontainer.errors import BenchDataError
from tests import benchseries, kernelseries
from tests.kernelseries import Plant

PAIRS = 4
SHA = "0" * 64
TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("torch",))


def arm(step_s: float, *, apart: tuple[float, ...] = (), input_s: float = 0.0) -> ArmSteps:
    # Launches scatter by half a percent, in a fixed pattern.
    scatter = [1 + 0.005 * (-1) ** number for number in range(PAIRS)]
    return ArmSteps(
        step_s=tuple(step_s * factor for factor in scatter),
        apart_s=tuple(tuple(one * factor for one in apart) for factor in scatter),
        input_s=tuple(input_s * factor for factor in scatter),
    )


def point(ranks: int, steps: ArmSteps, complete: bool = True) -> MeasuredPoint:
    plan = PointPlan(
        ranks=ranks,
        nodes=ranks,
        strategy=ParallelStrategy(dp=ranks),
        global_batch=8 * ranks,
        looks=(PAIRS,),
        file=f"point-{ranks}.jsonl",
    )
    return MeasuredPoint(plan=plan, arms={"native": steps, "container": steps}, complete=complete)


def study(folder: Path, *points: MeasuredPoint, **facts: Json) -> MeasuredStudy:
    """Write a session for each point, whose container attests `facts`."""
    for one in points:
        with Writer(folder / one.plan.file, benchseries.session(benchseries.Plan())) as out:
            out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
            out.stack(AttestedStack(arm="container", facts={**benchseries.INSIDE, **facts}))
            for sample in benchseries.draw(benchseries.Plan()):
                out.sample(sample)
            out.end(complete=True)
    plan = StudyPlan(
        site="local",
        image_sha256=benchseries.session(benchseries.Plan()).declared.image_sha256,
        recipe="demo",
        workload="residual",
        precision="fp32",
        scaling="weak",
        one_allocation=True,
        points=tuple(one.plan for one in points),
        extras=(),
        created="2026-11-27T00:00:00Z",
        version="0.12.0",
    )
    return MeasuredStudy(
        folder=folder, plan=plan, points=points, messages=(), idle_neighbours=(), digest=SHA
    )


def measured_threads(folder: Path) -> None:
    """Write `threads.jsonl`: twice the threads take half the time, oneDNN is quicker by a fifth."""
    values = PROBES["threads"].values({"quick": True}, ParameterContext(contents=TORCH))
    plan = PROBES["threads"].rows(ProbeCell(values=values, threads=2))
    assert plan is not None
    kernelseries.write(folder / next_evidence.THREADS_FILE, Plant(plan=plan, probe="threads"))


# step of two ranks, each rank's own, what was waited for samples; threads, oneDNN
HEALTHY: dict[str, Any] = {"step": 1.02, "apart": (1.0, 1.0), "input_s": 0.0, "facts": {}}


@pytest.mark.parametrize(
    ("plant", "stage", "words"),
    [
        ({"facts": {"threads": 1}}, "kernel", "2 threads a rank"),
        ({"facts": {"mkldnn_enabled": False}}, "kernel", "oneDNN"),
        ({"step": 1.5, "input_s": 0.48}, "input", "samples"),
        ({"step": 1.4}, "communication", "no computing hides"),
        ({"step": 1.42, "apart": (1.0, 1.4)}, "communication", "rank 1 (node 2)"),
        ({}, None, "no stage surely costs 5 % of a step"),
    ],
    ids=["one thread", "oneDNN off", "slow files", "half link", "slow host", "nothing"],
)
def test_planted_limits(
    tmp_path: Path, plant: dict[str, Any], stage: str | None, words: str
) -> None:
    planted = HEALTHY | plant
    steps = arm(planted["step"], apart=planted["apart"], input_s=planted["input_s"])
    measured_threads(tmp_path)
    answer = next_evidence.of(
        study(tmp_path, point(1, arm(1.0)), point(2, steps), **planted["facts"])
    )
    assert answer is not None
    assert (answer.limit.stage if answer.limit else None) == stage
    assert words in "\n".join(answer.lines())
    assert answer.unmeasured == ()


def test_a_limit_says_where_it_is_seen_and_how_to_confirm_it(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    steps = arm(1.4, apart=(1.0, 1.0))
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0)), point(2, steps)))
    assert answer is not None
    assert answer.limit is not None
    file, _, line = answer.limit.where.rpartition(":")
    assert Path(file) == tmp_path / "point-2.jsonl"
    assert '"arm":"container"' in Path(file).read_text().splitlines()[int(line) - 1].replace(
        " ", ""
    )
    assert "dlcontainer bench collectives --site local" in answer.limit.confirm
    trace = "dlcontainer bench trace --site local --image IMAGE --ranks 2 --nodes 2 -o trace --"
    assert f"see which rank and which message: {trace}" in "\n".join(answer.lines())
    assert answer.limit.gain.centre == pytest.approx(0.4 / 1.4)


def test_who_traced_is_not_told_to_trace(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    measured = study(tmp_path, point(1, arm(1.0)), point(2, arm(1.42, apart=(1.0, 1.4))))
    answer = next_evidence.of(measured, is_traced=True)
    assert answer is not None
    assert answer.limit is not None
    assert "bench trace" not in "\n".join(answer.lines())


def test_the_stage_before_comes_first_although_the_other_is_larger(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    steps = arm(2.5, apart=(1.0, 1.0))
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0)), point(2, steps), threads=1))
    assert answer is not None
    assert answer.limit is not None
    assert answer.limit.stage == "kernel"
    # Half of the computing, which is 1.0 of 2.5.
    assert answer.limit.gain.centre == pytest.approx(0.2, abs=0.01)


def test_a_stage_that_was_not_measured_names_its_command(tmp_path: Path) -> None:
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0))))
    assert answer is not None
    assert [one.stage for one in answer.unmeasured] == ["kernel"]
    assert f"dlcontainer bench threads --site local --image IMAGE -o {tmp_path}" in "\n".join(
        answer.lines()
    )


def test_a_number_of_threads_that_was_not_measured(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0)), threads=7))
    assert answer is not None
    assert "no oneDNN with 7 threads" in answer.unmeasured[0].why
    assert "--counts 7" in answer.unmeasured[0].command


def test_threads_of_another_image_are_refused(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    measured = study(tmp_path, point(1, arm(1.0)))
    other = replace(measured, plan=replace(measured.plan, image_sha256="f" * 64))
    with pytest.raises(BenchDataError, match="another image"):
        next_evidence.of(other)


def test_ranks_that_can_t_train_alone_are_held_against_one_rank(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0)), point(2, arm(1.5))))
    assert answer is not None
    assert answer.limit is not None
    assert answer.limit.cause == "communication and waiting together"
    assert answer.limit.gain.centre == pytest.approx(1 / 3, abs=0.01)


def test_points_that_are_not_whole_say_nothing(tmp_path: Path) -> None:
    assert next_evidence.of(study(tmp_path, point(1, arm(1.0), complete=False))) is None


def test_samples_made_in_memory_are_no_stage(tmp_path: Path) -> None:
    measured_threads(tmp_path)
    answer = next_evidence.of(study(tmp_path, point(1, arm(1.0))))
    assert answer is not None
    assert [limit.stage for limit in answer.limits] == ["kernel"]


def test_one_launch_is_never_sure() -> None:
    alone = next_step.share([0.5])
    assert (alone.low, alone.high) == (0.0, 1.0)
    limit = Limit(
        stage="input", cause="x", gain=alone, where="a:1", knob="y", confirm="dlcontainer bench"
    )
    assert next_step.choose([limit]).limit is None


def test_a_share_that_scatters_beyond_its_effect_is_not_taken() -> None:
    scattered = next_step.share([0.0, 0.3, 0.0, 0.25])
    assert scattered.low < next_step.WORTH < scattered.centre


def test_the_interval_of_a_share_by_hand() -> None:
    # Mean 0.2, sd 0.1, n 4: t(0.95, 3) = 2.353 times 0.05.
    mean = next_step.share([0.1, 0.1, 0.3, 0.3])
    assert mean.centre == pytest.approx(0.2)
    assert mean.high - mean.centre == pytest.approx(2.353 * (0.04 / 3 / 4) ** 0.5, rel=1e-3)
    assert StepShare(centre=0.2, low=0.1, high=0.3).times(0.5).high == pytest.approx(0.15)
