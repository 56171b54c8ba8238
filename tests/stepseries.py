"""Synthetic sessions of `bench variability`: steps of ranks on nodes, with planted scatter."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from statistics import median

from dlcontainer.bench.probes import PROBES
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

STEP_S = 3e-3
ROW: Mapping[str, str | int] = {"kernel": "gemm", "device": "cpu", "threads": 1}
TYPE: Mapping[str, Json] = {"cpu_model": "a synthetic processor", "cpus": 4, "memory_gib": 8}
KERNEL = "6.1.0"


@dataclass(frozen=True, kw_only=True)
class Plant:
    """What to plant: nodes, ranks of each, standard deviations of logs by level, slow places.

    `slow` has the factor of a rank's steps or of a node's; `tail` is the factor of each 50th step.
    """

    nodes: tuple[str, ...] = ("n1",)
    ranks_per_node: int = 1
    pairs: int = 8
    steps: int = 100
    seed: int = 4
    within: float = 0.02
    processes: float = 0.0
    slow: Mapping[int | str, float] = field(default_factory=dict)
    container: float = 1.0
    tail: float = 1.0
    # Read beside the steps; the declaration then says so.
    watched: Mapping[str, float] = field(default_factory=dict)
    kernel: str = KERNEL
    type: Mapping[str, Json] = field(default_factory=lambda: TYPE)

    @property
    def ranks(self) -> int:
        return len(self.nodes) * self.ranks_per_node

    def node(self, rank: int) -> str:
        return self.nodes[rank // self.ranks_per_node]


def session(plant: Plant) -> SessionHeader:
    base = benchseries.session(
        benchseries.Plan(pairs=plant.pairs, control_pairs=0, seed=plant.seed)
    )
    work: dict[str, Json] = {**ROW, "timed": plant.steps, "quick": False}
    if plant.ranks > 1:
        work |= {"ranks": plant.ranks, "ranks_per_node": plant.ranks_per_node}
        work |= {"nodes": len(plant.nodes), "distributed": ""}
    work |= {"watch": True} if plant.watched else {}
    declared: SessionDeclaration = replace(
        base.declared,
        probe="variability",
        metric=ROWS_METRIC,
        margin=0.05,
        steps=0,
        loss_tolerance=None,
        warmups=0,
        workload=work,
        rows=RowPlan(rows=(ROW,), rounds=1),
        secondary=PROBES["variability"].margins(None),
    )
    machine = {**base.machine, "node": plant.nodes[0]}
    return replace(base, declared=declared, machine=machine)


def draw(plant: Plant) -> list[Sample]:
    chance, samples = random.Random(plant.seed), list[Sample]()
    stages = plan_stages(looks=(plant.pairs,), counts=LaunchCounts(), seed=plant.seed)
    for group in (group for stage in stages for group in stage):
        for position, letter in enumerate(group.order):
            arm: ArmName = "container" if letter == "c" else "native"
            each = [_steps(plant, rank, arm, chance) for rank in range(plant.ranks)]
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
                values={"elapsed_s": 8.0},
                mount="first" if letter == "c" else "none",
            )
            samples.append(_filled(sample, plant, each))
    return samples


def _filled(sample: Sample, plant: Plant, each: list[list[float]]) -> Sample:
    row = SampleRow(
        parameters=ROW,
        n=len(each[0]),
        best=max(min(own) for own in each),
        median=max(median(own) for own in each),
        cpu_s=1.0,
        steal_s=0.0,
        checked=1,
    )
    values: dict[str, Json] = {**sample.values, ROWS_METRIC: agreement.mean([row])}
    values["steps_s"] = list(each[0])
    tails = [sorted(own)[math.ceil(0.99 * len(own)) - 1] / median(own) for own in each]
    values["counts"] = {**plant.watched, "tail_ratio": max(tails)}
    ranks: tuple[Mapping[str, Json], ...] = tuple(
        {"rank": rank, "node": plant.node(rank), "steps_s": list(own)}
        for rank, own in enumerate(each)
    )
    return replace(sample, rows=(row,), values=values, ranks=ranks if len(each) > 1 else ())


def _steps(plant: Plant, rank: int, arm: ArmName, chance: random.Random) -> list[float]:
    usual = STEP_S * plant.slow.get(rank, 1.0) * plant.slow.get(plant.node(rank), 1.0)
    usual *= (plant.container if arm == "container" else 1.0) * math.exp(
        chance.gauss(0, plant.processes)
    )
    return [
        round(
            usual
            * math.exp(chance.gauss(0, plant.within))
            * (plant.tail if number % 50 == 7 else 1.0),
            9,
        )
        for number in range(plant.steps)
    ]


def write(path: Path, plant: Plant) -> Path:
    facts: dict[str, Json] = {"node_type": dict(plant.type), "kernel": plant.kernel}
    with Writer(path, session(plant)) as out:
        for node in plant.nodes:
            name = node if plant.ranks > 1 else ""
            out.stack(AttestedStack(arm="native", facts={**benchseries.FACTS, **facts}, node=name))
            out.stack(
                AttestedStack(arm="container", facts={**benchseries.INSIDE, **facts}, node=name)
            )
        for sample in draw(plant):
            out.sample(sample)
        out.end(complete=True)
    return path
