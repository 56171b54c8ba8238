"""Synthetic sessions of three arms, seeded: written by the writer that `bench` uses."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Literal, cast

from dlcontainer.bench.samples.launch_order import Group, LaunchCounts, plan_stages
from dlcontainer.bench.samples.records import (
    ArmDescription,
    AttestedStack,
    Json,
    Role,
    Sample,
    SessionHeader,
)
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.samples.writer import Writer
from tests import benchseries
from tests.benchseries import FACTS, INSIDE, Plan

ARMS: dict[str, ArmName] = {"n": "native", "u": "unpacked", "c": "container"}


@dataclass(frozen=True, kw_only=True)
class Triples:
    """What to plant: times of unpacked and container over native, effects of the places.

    `between` is the arm that stands between the two others.
    """

    between: Literal["unpacked", "bare"] = "unpacked"

    triples: int = 12
    looks: tuple[int, ...] = ()
    built: float = 1.0
    whole: float = 1.0
    second: float = 0.0
    sd: float = 0.004
    controls: int = 8
    own_controls: int = 0
    own_ratio: float = 1.0
    seed: int = 1
    stacks: Mapping[ArmName, Mapping[str, Json]] = field(
        default_factory=lambda: {"native": FACTS, "unpacked": INSIDE, "container": INSIDE}
    )
    change: Callable[[Sample], Sample] = lambda sample: sample


def session(plan: Triples) -> SessionHeader:
    """Give the first line."""
    base = benchseries.session(Plan(pairs=plan.triples, control_pairs=plan.controls))
    declared = replace(
        base.declared,
        arms=("native", plan.between, "container"),
        looks=plan.looks,
        candidate_control_pairs=plan.own_controls,
        seed=plan.seed,
        warmups=0,
    )
    arms = {**base.arms, plan.between: ArmDescription(what="what stands between")}
    return replace(base, declared=declared, arms=arms)


def draw(plan: Triples) -> list[Sample]:
    """Draw every launch in its order."""
    noise = random.Random(plan.seed)
    counts = LaunchCounts(
        controls=plan.controls, candidate_controls=plan.own_controls, triples=True
    )
    looks = tuple(look for look in plan.looks if look < plan.triples)
    stages = plan_stages(looks=(*looks, plan.triples), counts=counts, seed=plan.seed)
    found: list[Sample] = []
    for group in (group for stage in stages for group in stage):
        for place in range(len(group.order)):
            found.append(_sample(plan, group, place, len(found), noise))
    return [plan.change(sample) for sample in found]


def _sample(plan: Triples, group: Group, place: int, index: int, noise: random.Random) -> Sample:
    letter = group.order[place]
    single = {"control": "n", "candidate_control": "c"}.get(group.series)
    effect = {"n": 1.0, "u": plan.built, "c": plan.whole}[single or letter]
    if single == "c" and letter == "c":
        effect *= plan.own_ratio
    log_time = math.log(effect) + plan.second * place + noise.gauss(0, plan.sd / math.sqrt(2))
    steady = round(12.0 * math.exp(log_time), 6)
    began = benchseries.BEGIN + timedelta(seconds=30 * index)
    return Sample(
        index=index,
        role=cast("Role", group.series),
        arm=plan.between if (single or letter) == "u" else ARMS[single or letter],
        started=began.isoformat(),
        returncode=0,
        wall_s=steady + 1,
        pair=group.number,
        position=cast("Literal[0, 1, 2]", place),
        order=group.order,
        values={"steady_s": steady, "loss": [2.0, 1.0]},
    )


def write(path: Path, plan: Triples) -> Path:
    """Write the session."""
    with Writer(path, session(plan)) as out:
        for arm, facts in plan.stacks.items():
            out.stack(AttestedStack(arm=arm, facts=facts))
        for sample in draw(plan):
            out.sample(sample)
        out.end(complete=True)
    return path
