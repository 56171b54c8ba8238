"""Synthetic sessions, seeded: written by the writer that `bench` uses."""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.comparable import LossCheck, LossCurves
from dlcontainer.bench.samples.encoding import to_fields
from dlcontainer.bench.samples.launch_order import LaunchCounts, plan_stages
from dlcontainer.bench.samples.records import (
    PROCEDURE,
    ArmDescription,
    AttestedStack,
    End,
    Json,
    Mount,
    Order,
    Record,
    Role,
    Sample,
    SessionDeclaration,
    SessionHeader,
)
from dlcontainer.bench.samples.vocabulary import Question
from dlcontainer.bench.samples.writer import Writer

BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)

FACTS: dict[str, Json] = {
    "python": "3.11.2",
    "framework": "torch 2.5.1+cpu",
    "torch": "2.5.1+cpu",
    "numpy": "1.26.4",
    "threads": 2,
    "blas": "mkl",
    "isa_dispatch": "AVX2",
    "libc": "glibc 2.36",
    "affinity": [0, 1],
    "environment": {"OMP_NUM_THREADS": "2"},
    "sys_prefix": "/srv/twins/pytorch",
    "sys_prefix_mount": "ext4",
}
INSIDE: dict[str, Json] = {
    **FACTS,
    "environment": {"OMP_NUM_THREADS": "2", "LD_LIBRARY_PATH": "/.singularity.d/libs"},
    "sys_prefix": "/opt/venv",
    "sys_prefix_mount": "squashfs",
}
MACHINE: dict[str, Json] = {
    "cpu": "a synthetic processor",
    "cores": 2,
    "memory_mb": 8000,
    "kernel": "6.1.0",
    "distribution": "debian bookworm",
    "note": "synthetic: drawn by a seeded generator, nothing was run",
}
PHASES = {"runtime": 0.06, "python": 0.03, "site": 0.05, "import": 1.2}
# What a mount of the image adds to each phase, and what is left of it for a process that joins.
CONTAINER = {"runtime": 0.62, "python": 0.05, "site": 0.06, "import": 1.68}
JOINER = {"runtime": 0.12, "python": 0.04, "site": 0.05, "import": 1.34}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to plant: ratio and sd of a pair in logs, an effect of running second, a drift."""

    probe: str = "train"
    question: Question = "overhead"
    seed: int = 1
    pairs: int = 12
    control_pairs: int = 8
    joiner_pairs: int = 0
    ratio: float = 1.0
    sd: float = 0.008
    second: float = 0.0
    drift: float = 0.0
    control_ratio: float = 1.0
    outlier: tuple[int, float] | None = None
    reference: Mapping[str, Json] = field(default_factory=lambda: FACTS)
    candidate: Mapping[str, Json] = field(default_factory=lambda: INSIDE)
    margin: float = 0.02
    complete: bool = True
    change: Callable[[Sample], Sample] | None = None
    declared: Mapping[str, Json] = field(default_factory=dict)


def session(plan: Plan) -> SessionHeader:
    declared = SessionDeclaration(
        probe=plan.probe,
        question=plan.question,
        metric="steady_s" if plan.probe == "train" else "wall_s",
        margin=plan.margin,
        alpha=0.05,
        pairs=plan.pairs,
        control_pairs=plan.control_pairs,
        joiner_pairs=plan.joiner_pairs,
        seed=plan.seed,
        warmups=1,
        arms=("native", "container"),
        steps=400 if plan.probe == "train" else 0,
        loss_tolerance=0.01 if plan.probe == "train" else None,
        procedure=PROCEDURE,
        workload={
            **({"model": "small CNN", "batch": 32} if plan.probe == "train" else {}),
            **plan.declared,
        },
        site="local",
        recipe="pytorch (synthetic samples)",
        plan_digest="0" * 12,
        image="pytorch.sif",
        image_sha256="0" * 64,
    )
    arms = {
        "native": ArmDescription(
            what="native twin", why="the same wheels, installed without a container"
        ),
        "container": ArmDescription(what="image", why="mounted anew by each launch"),
    }
    return SessionHeader(
        declared=declared,
        arms={name: arms[name] for name in declared.arms},
        machine=MACHINE,
        started=BEGIN.isoformat(),
        dlcontainer="0.1.0",
    )


@dataclass
class Lot:
    """Draws the launches of one session, in their order."""

    plan: Plan
    random: random.Random
    samples: list[Sample] = field(default_factory=list)
    launches: int = 0

    def launch(
        self, role: Role, pair: int, position: int, order: Order | None, log_ratio: float
    ) -> None:
        plan = self.plan
        plays_candidate = order is not None and (order == "cn") == (position == 0)
        contained = plays_candidate and role != "control"
        total = 4 * plan.pairs
        log_time = plan.drift * self.launches / total + plan.second * position
        log_time += self.random.gauss(0, plan.sd / math.sqrt(2))
        if plays_candidate:
            log_time += log_ratio
        joiner = role == "joiner" and contained
        sample = _sample(plan, contained=contained, joiner=joiner, factor=math.exp(log_time))
        began = BEGIN + timedelta(seconds=30 * (self.launches + 1))
        sample = replace(
            sample,
            index=len(self.samples),
            role=role,
            pair=pair,
            position=1 if position else 0,
            order=order,
            started=began.isoformat(),
        )
        self.samples.append(plan.change(sample) if plan.change else sample)
        self.launches += 1

    def both(self, role: Role, number: int, order: Order, log_ratio: float) -> None:
        self.launch(role, number, 0, order, log_ratio)
        self.launch(role, number, 1, order, log_ratio)


def _sample(plan: Plan, *, contained: bool, joiner: bool, factor: float) -> Sample:
    if plan.probe == "import":
        shape = PHASES
        if contained:
            shape = JOINER if joiner else CONTAINER
        phases = {name: round(value * factor, 5) for name, value in shape.items()}
        # The time ends with the last phase.
        wall = round(sum(phases.values()), 5)
        values: dict[str, Json] = {"import_cpu_s": round(0.8 * wall, 5)}
    else:
        steady = round(12.0 * factor, 5)
        values = {
            "steady_s": steady,
            "cpu_s_per_step": round(2 * steady / 400 * 0.97, 6),
            "loss": [round(2.3 * 0.97**step, 5) for step in range(20)],
        }
        phases = {"runtime": 0.06 + 0.5 * contained, "import": 1.3, "warm-up": 1.0}
        wall = round(steady + sum(phases.values()), 5)
    mounted: Mount = "joiner" if joiner else "first"
    return Sample(
        index=0,
        role="pair",
        arm="container" if contained else "native",
        started="",
        returncode=0,
        wall_s=wall,
        phases=phases,
        values=values,
        mount=mounted if contained else "none",
    )


def draw(plan: Plan) -> list[Sample]:
    lot = Lot(plan=plan, random=random.Random(plan.seed))
    for arm_order in ("nc", "cn"):
        lot.launch("warmup", 0, 0, "cn" if arm_order == "cn" else "nc", 0.0)
        lot.samples[-1] = replace(lot.samples[-1], order=None)
    counts = LaunchCounts(joiners=plan.joiner_pairs, controls=plan.control_pairs)
    for stage in plan_stages(looks=(plan.pairs,), counts=counts, seed=plan.seed):
        for group in stage:
            log_ratio = _log_ratio(plan, group.series, group.number)
            lot.both(group.series, group.number, group.order, log_ratio)
    return lot.samples


def _log_ratio(plan: Plan, role: Role, number: int) -> float:
    if role == "control":
        return math.log(plan.control_ratio)
    log_ratio = math.log(plan.ratio)
    if role == "pair" and plan.outlier and plan.outlier[0] == number:
        log_ratio += plan.outlier[1]
    return log_ratio


def write(path: Path, plan: Plan) -> Path:
    with Writer(path, session(plan)) as out:
        out.stack(AttestedStack(arm="native", facts=plan.reference))
        out.stack(AttestedStack(arm="container", facts=plan.candidate))
        for sample in draw(plan):
            out.sample(sample)
        out.end(complete=plan.complete, reason="" if plan.complete else "interrupted by the user")
    return path


def write_quickly(path: Path, plan: Plan) -> Path:
    """Write a long session without waiting for the disk after each line."""
    records: list[Record] = [
        session(plan),
        AttestedStack(arm="native", facts=plan.reference),
        AttestedStack(arm="container", facts=plan.candidate),
        *(samples := draw(plan)),
        End(complete=True, samples=len(samples)),
    ]
    chained = ""
    with path.open("w") as file:
        for record in records:
            text, chained = hash_chain.encode(to_fields(record), chained)
            file.write(text)
    return path


OTHER_TORCH: dict[str, Json] = {
    **INSIDE,
    "torch": "2.4.0",
    "framework": "torch 2.4.0",
    "threads": 1,
}
SHIPPED: dict[str, Json] = {**INSIDE, "torch": "2.4.0", "framework": "torch 2.4.0"}

RECORDED: dict[str, Plan] = {
    "equal": Plan(seed=1),
    "slower-3-percent": Plan(seed=2, ratio=1.03),
    "order-effect": Plan(seed=3, second=0.04),
    "drift": Plan(seed=4, drift=0.08),
    "outlier": Plan(seed=5, ratio=1.03, outlier=(7, 0.6)),
    "noisy": Plan(seed=6, sd=0.07, pairs=8, control_pairs=4),
    "unsteady": Plan(seed=7, control_ratio=1.05),
    "other-torch": Plan(seed=8, candidate=OTHER_TORCH),
    "as-shipped": Plan(seed=9, question="deployment", candidate=SHIPPED, ratio=0.96),
    "import": Plan(seed=10, probe="import", joiner_pairs=8, sd=0.023),
    "interrupted": Plan(seed=11, complete=False),
}


def losses_of(samples: Iterable[Sample], tolerance: float) -> LossCheck:
    """Compare every launch's loss curve with the first one's."""
    curves = LossCurves(tolerance)
    for one in samples:
        curves.take(one)
    return curves.check
