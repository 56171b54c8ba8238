"""Scaling studies with planted losses: values as the study's reader gives them, and sessions."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.bench.samples.parallel_strategy import parse
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.study import study_sessions
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    IdleNeighbours,
    MeasuredPoint,
    MeasuredStudy,
    Message,
    PointPlan,
    Scaling,
    StudyPlan,
)
from tests import benchseries
from tests.benchseries import Plan

FULL, FEW = 12, 3


@dataclass(frozen=True, kw_only=True)
class Planted:
    """Seconds that a step takes more than one rank's alone."""

    neighbours: float = 0.0
    communication: float = 0.0
    waiting: float = 0.0
    input: float = 0.0


@dataclass(frozen=True, kw_only=True)
class StudyCase:
    """What to plant at each number of ranks; `ratio` is the container's at all of them."""

    terms: Mapping[int, Planted] = field(
        default_factory=lambda: {
            1: Planted(),
            2: Planted(neighbours=0.0005, communication=0.0003, waiting=0.0001),
            4: Planted(neighbours=0.0005, communication=0.0008, waiting=0.0004),
            8: Planted(neighbours=0.0005, communication=0.0012, waiting=0.0009),
        }
    )
    strategies: tuple[str, ...] = ("dp",)
    scaling: Scaling = "weak"
    alone_s: float = 0.03
    batch: int = 32
    ratio: float = 1.0
    sd: float = 0.01
    seed: int = 1
    few: int = FEW
    full: int = FULL
    # Ranks that can't train without talking have no steps of their own.
    apart: bool = True
    baseline: bool = False
    emulated: str = ""
    site: str = "local"
    precision: str = "fp32"
    workload: str = "resnet50"
    folder: str = "study"
    per_node: int = 4
    messages: tuple[Message, ...] = ()
    work: Mapping[str, Json] = field(default_factory=dict)


def measured(folder: Path, case: StudyCase) -> MeasuredStudy:
    """Draw a study; no session is written."""
    rng = random.Random(case.seed)
    plans = _plans(case)
    points = tuple(
        MeasuredPoint(
            plan=plan,
            arms={
                "native": _arm(case, plan, 1.0, rng),
                "container": _arm(case, plan, case.ratio, rng),
            },
            complete=True,
            emulated=case.emulated,
        )
        for plan in plans
    )
    return MeasuredStudy(
        folder=folder,
        plan=StudyPlan(
            site=case.site, image_sha256="0" * 64, recipe="pytorch", workload=case.workload,
            precision=case.precision, scaling=case.scaling, one_allocation=False, points=plans,
            extras=(), created="2026-11-27T08:00:00+00:00", version="0.11.0",
        ),
        points=points,
        messages=case.messages,
        idle_neighbours=tuple(_baselines(case, rng)) if case.baseline else (),
        digest="abcdef0123456789" * 4,
    )  # fmt: skip


def judged(folder: Path, case: StudyCase) -> JudgedStudy:
    """Draw a study, write its sessions and judge them."""
    root = folder / case.folder
    root.mkdir()
    study = measured(root, case)
    for number, point in enumerate(study.points):
        plan = Plan(
            seed=100 * case.seed + number, ratio=case.ratio, pairs=point.plan.looks[-1],
            control_pairs=0 if point.plan.looks[-1] < FULL else 8, sd=0.006, declared=case.work,
        )  # fmt: skip
        benchseries.write_quickly(root / point.plan.file, plan)
    return study_sessions.judge(study)


def _plans(case: StudyCase) -> tuple[PointPlan, ...]:
    last = max(case.terms)
    plans: dict[str, PointPlan] = {}
    for ranks in case.terms:
        for text in case.strategies if ranks > 1 else case.strategies[:1]:
            strategy = parse(text if ranks > 1 else "dp", ranks)
            of_all = case.batch * strategy.batches if case.scaling == "weak" else case.batch
            file = f"{ranks}-{strategy.name}.jsonl"
            plans[file] = PointPlan(
                ranks=ranks, nodes=-(-ranks // case.per_node), strategy=strategy,
                global_batch=of_all, looks=(case.full if ranks == last else case.few,), file=file,
            )  # fmt: skip
    return tuple(plans.values())


def _arm(case: StudyCase, plan: PointPlan, ratio: float, rng: random.Random) -> ArmSteps:
    steps, apart, waits = [], [], []
    planted = case.terms[plan.ranks]
    part = plan.global_batch / plan.ranks / case.batch
    alone = case.alone_s * part + planted.neighbours
    for _ in range(plan.looks[-1]):
        factor = ratio * (1 + rng.gauss(0, case.sd))
        middle = alone + planted.input
        others = plan.ranks - 1
        ranks = [middle - planted.waiting / others] * others if others else []
        ranks.append(middle + (planted.waiting if others else 0.0))
        apart.append(tuple(factor * seconds for seconds in ranks))
        steps.append(factor * (max(ranks) + planted.communication))
        waits.append(factor * planted.input)
    is_apart = case.apart and plan.ranks > 1
    return ArmSteps(
        step_s=tuple(steps), apart_s=tuple(apart) if is_apart else (), input_s=tuple(waits)
    )


def _baselines(case: StudyCase, rng: random.Random) -> list[IdleNeighbours]:
    return [
        IdleNeighbours(
            ranks=ranks, arm=arm,
            step_s=tuple(
                (case.alone_s + planted.neighbours) * (1 + rng.gauss(0, case.sd)) for _ in range(8)
            ),
        )
        for ranks, planted in case.terms.items() for arm in ("native", "container") if ranks > 1
    ]  # fmt: skip
