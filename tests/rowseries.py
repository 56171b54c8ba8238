"""Synthetic sessions of rows, seeded: collective operations with planted ratios."""

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages
from dlcontainer.bench.samples.records import (
    AttestedStack,
    Json,
    Sample,
    SessionDeclaration,
    SessionHeader,
)
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.bench.samples.rows.row_records import RowPlan, SampleRow
from dlcontainer.bench.samples.traits import ROWS_METRIC
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from tests import benchseries

SIZES = (4, 1024, 65536, 1048576)
ALPHA_S, BETA_S = 20e-6, 1e-9
OPERATIONS = ("all_reduce", "send_recv")


def listed() -> Iterator[Mapping[str, str | int]]:
    for name in OPERATIONS:
        for size in SIZES:
            yield {"operation": name, "bytes": size}
    yield {"operation": "barrier", "bytes": 0}


PLAN = RowPlan(
    rows=tuple(listed()),
    rounds=3,
    curve="bytes",
)
N = 30


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What to plant: the ratio of each operation's rows, their sd in logs, changes of a line."""

    pairs: int = 8
    ratios: Mapping[str, float] = field(default_factory=dict)
    sd: float = 0.01
    seed: int = 4
    change: Callable[[Sample], Sample] = lambda sample: sample


def row(number: int, seconds: float) -> SampleRow:
    return SampleRow(
        parameters=PLAN.rows[number],
        n=N,
        best=0.8 * seconds,
        median=seconds,
        cpu_s=2 * N * seconds,
        steal_s=0.25,
        checked=1,
    )


def truth(number: int) -> float:
    """Give a row's native time: a line over its bytes."""
    return ALPHA_S + BETA_S * int(PLAN.rows[number]["bytes"])


def session(plant: Plant) -> SessionHeader:
    plan = benchseries.Plan(pairs=plant.pairs, control_pairs=0, seed=plant.seed)
    base = benchseries.session(plan)
    work: dict[str, Json] = {"backend": "gloo", "ranks": 2, "ranks_per_node": 2, "nodes": 1}
    declared: SessionDeclaration = replace(
        base.declared,
        probe="collectives",
        metric=ROWS_METRIC,
        margin=0.05,
        steps=0,
        loss_tolerance=None,
        warmups=0,
        workload=work,
        rows=PLAN,
    )
    return replace(base, declared=declared)


def draw(plant: Plant) -> list[Sample]:
    chance, samples = random.Random(plant.seed), list[Sample]()
    stages = plan_stages(looks=(plant.pairs,), counts=LaunchCounts(), seed=plant.seed)
    for group in (group for stage in stages for group in stage):
        for position, letter in enumerate(group.order):
            arm: ArmName = "container" if letter == "c" else "native"
            rows = tuple(
                row(number, truth(number) * _factor(plant, number, arm, chance))
                for number in range(len(PLAN.rows))
            )
            began = benchseries.BEGIN + timedelta(seconds=30 * len(samples))
            sample = Sample(
                index=len(samples),
                role="pair",
                arm=arm,
                started=began.isoformat(),
                returncode=0,
                wall_s=5.0 + chance.random(),
                pair=group.number,
                position=1 if position else 0,
                order=group.order,
                values={ROWS_METRIC: agreement.mean(rows), "elapsed_s": 8.0},
                mount="first" if letter == "c" else "none",
                rows=rows,
            )
            samples.append(plant.change(sample))
    return samples


def _factor(plant: Plant, number: int, arm: ArmName, chance: random.Random) -> float:
    ratio = plant.ratios.get(str(PLAN.rows[number].get("operation")), 1.0)
    return math.exp(chance.gauss(0, plant.sd)) * (ratio if arm == "container" else 1.0)


def write(path: Path, plant: Plant) -> Path:
    with Writer(path, session(plant)) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=benchseries.INSIDE))
        for sample in draw(plant):
            out.sample(sample)
        out.end(complete=True)
    return path
