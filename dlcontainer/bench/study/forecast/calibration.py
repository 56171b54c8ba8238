"""A machine's constants from a scaling study, each with its uncertainty; draws of machines. Pure.

Links are fitted to the rows of all_reduce at the first two numbers of ranks above one, in a node
and between nodes apart (link_fit.py): two ranks alone tell the form of no other operation.
Pipelines take send_recv where it was measured. Compute is the step of one rank.
"""

import math
import operator
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import mean, median, stdev, variance
from typing import Literal, cast

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import link_fit, placement, step_model
from dlcontainer.bench.study.forecast.estimates import LONE_SPREAD, MANY, ConstantName, Estimate
from dlcontainer.bench.study.forecast.step_terms import (
    BUCKET_BYTES,
    Algorithm,
    Machine,
    RankLink,
    StrategyChoice,
    TrainedNetwork,
)
from dlcontainer.bench.study.study_records import ArmSteps, MeasuredPoint, MeasuredStudy
from dlcontainer.errors import BenchDataError

# Beyond these many draws an interval's ends move by less than a twentieth of its width.
DRAWS = 400
# Where a study can't tell: so much of the communication hides, and so far ranks lie apart.
OVERLAP = (0.3, 1.0)
SCATTER = (0.0, 0.02)
# One session tells little of another one: the least error of a step's seconds.
LEAST_SPREAD = 0.01
# Where hiding all communication or none moves a step by less, the step can't tell the overlap.
TELLS = 0.02
# Draws of the other constants that tell how uncertain the overlap is.
OVERLAP_DRAWS = 60
_Place = Literal["in a node", "between nodes"]
_NO_LINK = RankLink(latency_s=0.0, second_per_byte=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataParallelStep:
    """A measured data-parallel step of several ranks, with a value for each launch."""

    choice: StrategyChoice
    step_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibratedMachine:
    """A machine as a study tells it: estimates by their names, whose draws are machines."""

    estimates: Mapping[ConstantName, Estimate]
    ranks_per_node: int
    rendezvous: bool = False
    algorithm: Algorithm = "ring"
    # Bytes of gradients that data parallel sends at once.
    bucket_bytes: float = BUCKET_BYTES
    # What the overlap is estimated from: it takes the bytes of a network's gradients.
    steps: tuple[DataParallelStep, ...] = ()

    def inputs(self, network: TrainedNetwork) -> Mapping[ConstantName, Estimate]:
        """Return all estimates, with the overlap that the first steps of `network` show."""
        if "overlap" in self.estimates:
            return self.estimates
        return {**self.estimates, "overlap": self._overlap(network)}

    def machine(self, network: TrainedNetwork) -> Machine:
        """Return the machine of the estimates' own values; `network` is the study's."""
        return self._of(
            network, {name: estimate.value for name, estimate in self.inputs(network).items()}
        )

    def moved(self, network: TrainedNetwork, name: ConstantName, to: float) -> Machine:
        """Return the machine with one constant elsewhere."""
        constants = {name: estimate.value for name, estimate in self.inputs(network).items()}
        return self._of(network, {**constants, name: to})

    def draws(self, network: TrainedNetwork, *, count: int = DRAWS, seed: int = 0) -> list[Machine]:
        """Return machines drawn from the estimates, the same for the same seed."""
        chance = random.Random(seed)  # noqa: S311  (no secret)
        inputs = self.inputs(network)
        return [
            self._of(network, {name: estimate.drawn(chance) for name, estimate in inputs.items()})
            for _ in range(count)
        ]

    def unmeasured(self, strategy: ParallelStrategy) -> tuple[ConstantName, ...]:
        """Return the constants that a strategy takes and the study hasn't."""
        names: list[ConstantName] = []
        if placement.stays_in_a_node(strategy, self.ranks_per_node):
            names.append("bandwidth in a node")
        if placement.leaves_a_node(strategy, self.ranks_per_node):
            names.append("bandwidth between nodes")
        return tuple(name for name in names if name not in self.estimates)

    def _of(self, network: TrainedNetwork, constants: Mapping[ConstantName, float]) -> Machine:
        return Machine(
            flops_per_s=network.flops / constants["seconds of a sample"],
            ranks_per_node=self.ranks_per_node,
            in_node=_link(constants, "", "in a node") or _NO_LINK,
            between_nodes=_link(constants, "", "between nodes") or _NO_LINK,
            stage_in_node=_link(constants, "stage ", "in a node"),
            stage_between_nodes=_link(constants, "stage ", "between nodes"),
            neighbours=constants.get("idle neighbours", 0.0),
            overlap=constants["overlap"],
            scatter=constants.get("scatter of ranks", 0.0),
            rendezvous=self.rendezvous,
            algorithm=self.algorithm,
            bucket_bytes=self.bucket_bytes,
            pass_s=constants.get("seconds of a pass", 0.0),
            input_s=constants.get("input of a sample", 0.0),
        )

    def _overlap(self, network: TrainedNetwork) -> Estimate:
        """Estimate the overlap; its error is that of all other constants and of the steps."""
        chance = random.Random(0)  # noqa: S311  (no secret)
        centre = self._shares(
            {name: estimate.value for name, estimate in self.estimates.items()}, network
        )
        if not centre:
            return Estimate.within("overlap", *OVERLAP, "assumed: no step of the study tells it")
        drawn = [
            mean(shares)
            for _ in range(OVERLAP_DRAWS)
            if (
                shares := self._shares(
                    {name: estimate.drawn(chance) for name, estimate in self.estimates.items()},
                    network,
                )
            )
        ]
        return Estimate(
            name="overlap",
            value=mean(centre),
            se=max(stdev(drawn) if len(drawn) > 1 else LONE_SPREAD, LONE_SPREAD),
            df=MANY,
            source=f"data-parallel steps of {len(centre)} points",
            share=True,
            most=1.0,
        )

    def _shares(self, values: Mapping[ConstantName, float], network: TrainedNetwork) -> list[float]:
        """Return the overlap under which each first step is the model's; none where it tells none.

        A step is linear in the overlap but for a corner, and falls: found by halving.
        """
        shares = []
        for estimate in self.steps:
            if self.unmeasured(estimate.choice.strategy):
                continue

            def modelled(overlap: float, choice: StrategyChoice = estimate.choice) -> float:
                machine = self._of(network, {**values, "overlap": overlap})
                return step_model.step(network, machine, choice).step_s

            if modelled(0.0) <= modelled(1.0) * (1 + TELLS):
                continue
            low, high, step_s = 0.0, 1.0, median(estimate.step_s)
            for _ in range(12):
                middle = (low + high) / 2
                low, high = (middle, high) if modelled(middle) > step_s else (low, middle)
            shares.append((low + high) / 2)
        return shares


def from_study(study: MeasuredStudy, arm: str) -> CalibratedMachine:
    """Estimate the constants of the machine that an arm of a study ran on.

    Raises BenchDataError where the study has no complete point of one rank: nothing else tells
    what a rank computes.
    """
    alone = _alone(study, arm)
    steps = alone.arms[arm]
    samples = alone.plan.global_batch
    batch_s = [step - wait for step, wait in _launches(steps)]
    source = f"the point of 1 rank, {len(batch_s)} launches"
    node = max((math.ceil(point.ranks / point.nodes) for point in study.plan.points), default=1)
    estimates = [
        Estimate.of("seconds of a sample", [s / samples for s in batch_s], LEAST_SPREAD, source),
        *_inputs(steps, samples, source),
        *_neighbours(study, arm, median(batch_s)),
        _scatter(study, arm),
        *_links(study, arm),
    ]
    return CalibratedMachine(
        estimates={estimate.name: estimate for estimate in estimates},
        ranks_per_node=node,
        rendezvous=study.backend == "gloo",
        algorithm="ring" if study.backend == "gloo" else "ring or tree",
        steps=_data_parallel(study, arm),
    )


def _alone(study: MeasuredStudy, arm: str) -> MeasuredPoint:
    for point in study.points:
        if point.plan.ranks == 1 and point.arms.get(arm) and point.arms[arm].step_s:
            return point
    raise BenchDataError(
        f"{study.folder}: no point of one rank has steps of {arm}: nothing tells what a rank takes",
        next_step="measure one rank as well: dlcontainer bench scaling --ranks 1,2,4 (resumable)",
    )


def _launches(steps: ArmSteps) -> Iterator[tuple[float, float]]:
    """Yield a launch's step and what it waited for its samples."""
    waits = steps.input_s or (0.0,) * len(steps.step_s)
    yield from zip(steps.step_s, waits, strict=False)


def _inputs(steps: ArmSteps, samples: int, source: str) -> Iterator[Estimate]:
    if steps.input_s and median(steps.input_s) > 0:
        waits = [wait / samples for wait in steps.input_s]
        yield Estimate.of("input of a sample", waits, LEAST_SPREAD, source)


def _neighbours(study: MeasuredStudy, arm: str, alone_s: float) -> Iterator[Estimate]:
    """Estimate what a full node costs, by the ranks that train side by side and never talk."""
    nodes = {plan.ranks: plan.nodes for plan in study.plan.extras if plan.kind == "idle_neighbours"}
    full = max((math.ceil(plan.ranks / plan.nodes) for plan in study.plan.points), default=1)
    for idle in sorted(study.idle_neighbours, key=lambda baseline: -baseline.ranks):
        busy = math.ceil(idle.ranks / nodes.get(idle.ranks, 1))
        if idle.arm == arm and idle.step_s and busy > 1:
            # In proportion to the neighbours, as the step model has it.
            scale = (full - 1) / (busy - 1)
            shares = [(step / alone_s - 1) * scale for step in idle.step_s]
            source = f"{idle.ranks} ranks that never talk, {len(shares)} launches"
            yield Estimate.of_share("idle neighbours", shares, source)
            return


def _scatter(study: MeasuredStudy, arm: str) -> Estimate:
    """Estimate how far ranks lie apart, by their own steps while nobody talks."""
    points = [
        [ranks for ranks in point.arms[arm].apart_s if len(ranks) > 1]
        for point in study.points
        if arm in point.arms
    ]
    points = [launches for launches in points if launches]
    if not points:
        return Estimate.within("scatter of ranks", *SCATTER, "assumed: no rank ran apart")
    # A slow device is slow in each launch: launches of the same ranks tell of no more devices.
    freedom = [len(launches[0]) - 1 for launches in points]
    squares = [
        mean(variance(ranks) / mean(ranks) ** 2 for ranks in launches) for launches in points
    ]
    sd = math.sqrt(sum(map(operator.mul, squares, freedom)) / sum(freedom))
    return Estimate(
        name="scatter of ranks",
        value=min(sd, 1.0),
        se=sd / math.sqrt(2 * sum(freedom)),
        df=float(sum(freedom)),
        source=f"ranks' own steps at {len(points)} points",
        share=True,
        most=1.0,
    )


def _links(study: MeasuredStudy, arm: str) -> Iterator[Estimate]:
    for operation, prefix in (("all_reduce", ""), ("send_recv", "stage ")):
        for place in ("in a node", "between nodes"):
            rows = [
                row
                for row in study.messages
                if (row.operation, row.arm) == (operation, arm)
                and row.ranks > 1
                and (row.nodes > 1) == (place == "between nodes")
            ]
            first = sorted({row.ranks for row in rows})[:2]
            fitted = link_fit.fit([row for row in rows if row.ranks in first])
            if fitted is None:
                continue
            names = (f"{prefix}latency {place}", f"{prefix}bandwidth {place}")
            values = (fitted.link.latency_s, fitted.link.second_per_byte)
            errors = (fitted.latency_error, fitted.byte_error)
            for name, value, (se, df) in zip(names, values, errors, strict=True):
                yield Estimate(
                    name=cast("ConstantName", name), value=value, se=se, df=df, source=fitted.source
                )


def _data_parallel(study: MeasuredStudy, arm: str) -> tuple[DataParallelStep, ...]:
    """Return the steps of the first two data-parallel points of more than one rank."""
    points = [
        point
        for point in study.points
        if point.plan.strategy == ParallelStrategy(dp=point.plan.ranks)
        and point.plan.ranks > 1
        and arm in point.arms
        and point.arms[arm].step_s
    ]
    return tuple(
        DataParallelStep(
            choice=StrategyChoice(
                strategy=point.plan.strategy, global_batch=point.plan.global_batch
            ),
            step_s=point.arms[arm].step_s,
        )
        for point in sorted(points, key=lambda point: point.plan.ranks)[:2]
    )


def _link(constants: Mapping[ConstantName, float], prefix: str, place: _Place) -> RankLink | None:
    byte = constants.get(cast("ConstantName", f"{prefix}bandwidth {place}"))
    if byte is None:
        return None
    latency = constants.get(cast("ConstantName", f"{prefix}latency {place}"), 0.0)
    return RankLink(latency_s=latency, second_per_byte=byte)
