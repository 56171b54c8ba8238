"""Synthetic scaling studies: a folder with its declaration, and sessions with planted steps."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from dlcontainer.bench.probes import collectives
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
from dlcontainer.bench.study import study_folder, study_plan, study_points
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.bench.study.study_records import StudyPlan
from tests import benchseries

STEPS = 20
SHA256 = "ab" * 32
# Seconds a step of a rank, by session, arm, pair and rank.
Steps = Callable[[StudySession, ArmName, int, int], float]
ROWS = tuple(
    {"operation": operation, "bytes": size}
    for operation in ("all_reduce", "send_recv")
    for size in (4096, 4194304)
)


def planted(session: StudySession, arm: ArmName, pair: int, rank: int) -> float:
    """Give a step that grows a little with the ranks, 1 % longer in the container."""
    chance = random.Random(f"{session.title} {arm} {pair} {rank}").random()
    step = 0.1 * (1 + 0.02 * (session.ranks - 1)) * (1 + 0.004 * chance)
    return step * (1.01 if arm == "container" else 1.0)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What a study's sessions say: their steps, the node's cores, and the steps apart."""

    steps: Steps = planted
    cores: int = 8
    # Of a rank's step, what it takes while nobody talks; None: not recorded.
    apart: float | None = 0.9
    input_s: float = 0.0
    # What ranks attest of their work.
    attested: Mapping[str, Json] = field(default_factory=dict)


def plan(request: StudyRequest | None = None, **changes: object) -> StudyPlan:
    """Declare a study of 1, 2 and 4 ranks on one node."""
    request = request or StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=16, looks=(8,))
    settled = study_plan.points(request)
    declared = StudyPlan(
        site="demo",
        image_sha256=SHA256,
        recipe="demo",
        workload="residual",
        precision="fp32",
        scaling=request.scaling,
        one_allocation=False,
        points=settled.points,
        extras=settled.extras,
        created="2026-11-27T07:00:00Z",
        version="0.11.0",
        options={study_points.RANKS_PER_NODE: request.ranks_per_node},
    )
    return replace(declared, **changes)  # type: ignore[arg-type]


def write(folder: Path, declared: StudyPlan, says: Planted | None = None) -> Path:
    """Write a whole study."""
    folder.mkdir(parents=True, exist_ok=True)
    study_folder.settle(folder, declared)
    for session in study_points.sessions(declared):
        write_session(folder / session.file, declared, session, says or Planted())
    return folder


def header(declared: StudyPlan, session: StudySession, says: Planted) -> SessionHeader:
    """Give the first line of a session as `bench train` or `bench collectives` writes it."""
    pairs = session.looks[-1]
    seed = session.ranks
    base = benchseries.session(benchseries.Plan(pairs=pairs, control_pairs=0, seed=seed))
    work: dict[str, Json] = {
        "threads": 1,
        "ranks": session.ranks,
        "nodes": session.nodes,
        "ranks_per_node": session.ranks_per_node,
        "distributed": "ddp",
    }
    usual = {"workload": "residual", "precision": "fp32"}
    work |= {name: value for name, value in session.values.items() if value != usual.get(name, ...)}
    is_rows = session.probe == collectives.COLLECTIVES.name
    settled: SessionDeclaration = replace(
        base.declared,
        probe=session.probe,
        metric=ROWS_METRIC if is_rows else "wall_s",
        looks=session.looks,
        steps=0 if is_rows else STEPS,
        loss_tolerance=None,
        warmups=0,
        workload=work,
        rows=RowPlan(rows=ROWS, rounds=3, curve="bytes") if is_rows else None,
        secondary={},
        site=declared.site,
        recipe=declared.recipe,
        image_sha256=declared.image_sha256,
    )
    return replace(base, declared=settled, machine={**base.machine, "cores": says.cores})


def write_session(
    path: Path, declared: StudyPlan, session: StudySession, says: Planted, until: int | None = None
) -> None:
    """Write a session; `until`: it was cut before this launch, with no end."""
    with Writer(path, header(declared, session, says)) as out:
        work: dict[str, Json] = {"workload": dict(says.attested)}
        out.stack(AttestedStack(arm="native", facts={**benchseries.FACTS, **work}, node="n1"))
        out.stack(AttestedStack(arm="container", facts={**benchseries.INSIDE, **work}, node="n1"))
        for sample in _samples(session, says)[:until]:
            out.sample(sample)
        out.end(complete=until is None, reason="" if until is None else "interrupted by the user")


def _samples(session: StudySession, says: Planted) -> list[Sample]:
    samples: list[Sample] = []
    stages = plan_stages(looks=session.looks, counts=LaunchCounts(), seed=session.ranks)
    for group in (group for stage in stages for group in stage):
        for position, letter in enumerate(group.order):
            arm: ArmName = "container" if letter == "c" else "native"
            steps = [says.steps(session, arm, group.number, rank) for rank in range(session.ranks)]
            began = benchseries.BEGIN + timedelta(seconds=30 * len(samples))
            sample = Sample(
                index=len(samples),
                role="pair",
                arm=arm,
                started=began.isoformat(),
                returncode=0,
                wall_s=round(max(steps) * STEPS, 9),
                pair=group.number,
                position=1 if position else 0,
                order=group.order,
                mount="first" if letter == "c" else "none",
                values={"elapsed_s": 8.0},
                ranks=tuple(_rank(rank, step, says) for rank, step in enumerate(steps)),
            )
            is_rows = session.probe == collectives.COLLECTIVES.name
            samples.append(_with_rows(sample) if is_rows else sample)
    return samples


def _rank(rank: int, step: float, says: Planted) -> Mapping[str, Json]:
    values: dict[str, Json] = {"wall_s": step * STEPS}
    if says.apart is not None:
        values["apart_s_per_step"] = step * says.apart
    if says.input_s:
        values["input_s_per_step"] = says.input_s
    return {"rank": rank, "node": "n1", "values": values}


def _with_rows(sample: Sample) -> Sample:
    rows = tuple(
        SampleRow(
            parameters=row,
            n=30,
            best=1e-5 + 1e-9 * int(row["bytes"]),
            median=(2e-5 + 1e-9 * int(row["bytes"])) * (1 + 1e-3 * sample.pair),
            cpu_s=0.1,
            steal_s=0.0,
            checked=1,
        )
        for row in ROWS
    )
    values: dict[str, Json] = {"elapsed_s": 8.0, ROWS_METRIC: agreement.mean(list(rows))}
    return replace(sample, values=values, rows=rows)
