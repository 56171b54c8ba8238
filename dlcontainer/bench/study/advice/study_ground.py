"""What a forecast stands on: a scaling study, its machine calibrated by its own sessions. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study import loss_terms, study_points
from dlcontainer.bench.study.advice import drawn_inputs, how_many, traced_traffic
from dlcontainer.bench.study.advice.candidates import DividedWork
from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.advice.facts_ground import (
    TRACED,
    ForecastSource,
    MeasuringWords,
    commands,
)
from dlcontainer.bench.study.advice.forecast_records import (
    Device,
    ForecastSubject,
    MeasuredEnd,
    PointName,
)
from dlcontainer.bench.study.advice.ground import Draw, ForecastGround, MeasuredSpeed
from dlcontainer.bench.study.advice.how_many import PointSteps
from dlcontainer.bench.study.advice.traced_traffic import TracedTraffic
from dlcontainer.bench.study.forecast import calibration
from dlcontainer.bench.study.forecast.calibration import CalibratedMachine
from dlcontainer.bench.study.forecast.estimates import ConstantName, Estimate, is_assumed
from dlcontainer.bench.study.forecast.step_terms import Machine, StrategyChoice, TrainedNetwork
from dlcontainer.bench.study.study_records import MeasuredPoint, MeasuredStudy
from dlcontainer.errors import BenchDataError, UsageError

GOAL = 0.85
_BESIDE: ConstantName = "idle neighbours"
OVERLAP: ConstantName = "overlap"
CONTAINER = "container"
# Bytes of a gradient: weights, and so what is sent, stay in fp32 whatever the precision.
_GRADIENT = 4
# The transformer that `bench train` trains (arXiv:1706.03762, base): blocks, heads, and the bytes
# of a sample's 128 places of 512 numbers.
_LAYERS, _HEADS, _ACTIVATION = 6, 8, 128 * 512 * 4
_GPU_BACKENDS = ("nccl", "rccl", "xccl", "cuda", "gpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyWords:
    """What was typed of a study's forecast; empty: the usual."""

    origin: str
    image: str = ""
    arm: str = ""
    strategies: tuple[str, ...] = ()
    script: str = ""


def is_published(study: MeasuredStudy) -> bool:
    """Return whether the list of networks tells the study's gradients."""
    return study.plan.workload in NETWORKS


def of_study(
    study: MeasuredStudy,
    words: StudyWords,
    gradient_bytes: float | None = None,
    traffic: TracedTraffic | None = None,
) -> ForecastSource:
    """Return the ground of a study; `gradient_bytes` is told where no list of networks has it.

    `traffic` is what a trace of the arm says. Raises UsageError for an arm that the study has not,
    BenchDataError where nothing was measured.
    """
    name = arm_of(study, words.arm)
    points = [point for point in study.points if name in point.arms and point.arms[name].step_s]
    if not points:
        raise BenchDataError(
            f"no point of the study has steps of {name}",
            where=str(study.folder),
            next_step="measure it: repeat the command that began the study",
        )
    base = min(points, key=lambda point: point.plan.ranks)
    last = max(points, key=lambda point: point.plan.ranks)
    more = ",".join(str(last.plan.ranks * factor) for factor in (2, 4))
    network = study_points.network_words(study.plan)
    ranks = [point.plan.ranks for point in points if point.plan.ranks > 1]
    measuring = commands(
        MeasuringWords(
            origin=words.origin, site=study.plan.site, image=words.image, network=network,
            more=more, ranks=min(ranks, default=2),
        )
    )  # fmt: skip
    ground = ForecastGround(
        subject=_subject(study, words.origin, name, points),
        inputs=(),
        work=_work(study, base),
        strategies=words.strategies or _families(points),
        ranks_per_node=_per_node(study, points),
        base=StrategyChoice(
            strategy=base.plan.strategy, global_batch=max(base.plan.global_batch, 1)
        ),
        measured=tuple(_speeds(study, base, points, name)),
        commands=measuring,
        more=measuring[""],
        remarks=tuple(_remarks(points)),
        optimizer=str(study.plan.options.get("optimizer", "")),
    )
    told = _network(study, gradient_bytes)
    trained = told
    if told is None and traffic is not None:
        trained = traffic.network(_trained(study, 0.0))
    why = _memory_only(study, points, trained)
    if why:
        return ForecastSource(ground=replace(ground, memory_only=why), goal=GOAL, study=study)
    assert trained is not None  # noqa: S101 - else there is a reason above
    calibrated = _placed(calibration.from_study(study, name), ground.ranks_per_node)
    forecastable = _calibrated(ground, calibrated, trained)
    if traffic is not None:
        overlap = traffic.estimate(calibrated, trained)
        is_told = told is not None
        forecastable = traced_traffic.on(forecastable, traffic, overlap, is_told=is_told)
    return ForecastSource(ground=forecastable, goal=GOAL, study=study)


def _calibrated(
    ground: ForecastGround, calibrated: CalibratedMachine, network: TrainedNetwork
) -> ForecastGround:
    """Return a ground with the machine that an arm's points and messages tell."""
    estimates = calibrated.inputs(network)
    # A trace tells the overlap where the study's steps don't.
    by_trace: dict[str, str] = (
        {OVERLAP: ground.commands[TRACED]} if is_assumed(estimates[OVERLAP]) else {}
    )
    return replace(
        ground,
        commands={**ground.commands, **by_trace},
        inputs=tuple(map(drawn_inputs.of_estimate, estimates.values())),
        network=lambda _: network,
        machine=lambda draw: _machine(calibrated, estimates, network, draw),
        unmeasured=calibrated.unmeasured,
    )


def _per_node(study: MeasuredStudy, points: list[MeasuredPoint]) -> int:
    """Return the ranks of a full node, as it was declared, else by the fullest node."""
    declared = study.plan.options.get(study_points.RANKS_PER_NODE)
    fullest = max(-(-point.plan.ranks // point.plan.nodes) for point in points)
    return declared if isinstance(declared, int) and declared > 0 else fullest


def _placed(calibrated: CalibratedMachine, per_node: int) -> CalibratedMachine:
    """Return the machine with as many ranks on a node as were declared.

    What neighbours cost grows with their number: points may not have filled a node.
    """
    neighbours = calibrated.estimates.get(_BESIDE)
    fullest = calibrated.ranks_per_node
    if neighbours is None or fullest < 2 or per_node == fullest:
        return replace(calibrated, ranks_per_node=per_node)
    scale = (per_node - 1) / (fullest - 1)
    full = replace(
        neighbours, value=min(scale * neighbours.value, neighbours.most), se=scale * neighbours.se
    )
    return replace(
        calibrated, ranks_per_node=per_node, estimates={**calibrated.estimates, _BESIDE: full}
    )


def arm_of(study: MeasuredStudy, arm: str) -> str:
    """Return the arm that is forecast: that which was typed, else the container's."""
    names = list(dict.fromkeys(name for point in study.points for name in point.arms))
    if arm and arm not in names:
        raise UsageError(
            f"--arm {arm}: the study has no such arm",
            next_step=f"choose from: {', '.join(names) or 'none was measured'}",
        )
    return arm or (CONTAINER if CONTAINER in names or not names else names[-1])


def _subject(
    study: MeasuredStudy, origin: str, arm: str, points: list[MeasuredPoint]
) -> ForecastSubject:
    plan = study.plan
    base = min(points, key=lambda point: point.plan.ranks)
    last = max(points, key=lambda point: point.plan.ranks)
    device = _device(study)
    threads = plan.options.get("threads", 1)
    return ForecastSubject(
        origin=origin,
        digest=study.digest,
        kind="study",
        network=plan.workload,
        machine=plan.site,
        device=device,
        scaling=plan.scaling,
        units_per_rank=threads if device == "cpu" and isinstance(threads, int) else 1,
        arm=arm,
        image_sha256=plan.image_sha256,
        workload=plan.workload,
        precision=plan.precision,
        calibrated_on=tuple(
            PointName(point.plan.strategy.name, point.plan.ranks) for point in points
        ),
        first=_end(base, arm),
        last=_end(last, arm),
    )


def _device(study: MeasuredStudy) -> Device:
    devices = str(study.plan.options.get("device", "")), study.backend
    return "gpu" if any(word in _GPU_BACKENDS for word in devices) else "cpu"


def _end(point: MeasuredPoint, arm: str) -> MeasuredEnd:
    return MeasuredEnd(
        strategy=point.plan.strategy.name,
        ranks=point.plan.ranks,
        global_batch=max(point.plan.global_batch, 1),
        step_s=how_many.seconds(point.arms[arm].step_s),
    )


def _families(points: list[MeasuredPoint]) -> tuple[str, ...]:
    """Name the strategies of all points without the numbers that grow with the ranks."""
    names = dict.fromkeys(_family(point.plan.strategy) for point in points if point.plan.ranks > 1)
    return tuple(names) or ("dp",)


def _family(strategy: ParallelStrategy) -> str:
    dp = f"dp{strategy.dp}" if strategy.dp > 1 and strategy.fsdp > 1 else ""
    free = "fsdp" if strategy.fsdp > 1 else "dp"
    fixed = [
        f"{axis}{size}" for axis, size in (("tp", strategy.tp), ("pp", strategy.pp)) if size > 1
    ]
    return "x".join([*filter(None, [dp]), free, *fixed])


def _work(study: MeasuredStudy, base: MeasuredPoint) -> DividedWork:
    plan = study.plan
    is_text = plan.workload == "transformer"
    batch = max(base.plan.global_batch, 1)
    if plan.scaling == "weak":
        batch = max(batch // base.plan.strategy.batches, 1)
    micro = plan.options.get("micro_batches", 0)
    return DividedWork(
        layers=_LAYERS if is_text else 0,
        heads=_HEADS if is_text else 0,
        batch=batch,
        micro_batches=micro if isinstance(micro, int) else 0,
        scaling=plan.scaling,
    )


def _network(study: MeasuredStudy, gradient_bytes: float | None) -> TrainedNetwork | None:
    """Return the network by the bytes of its gradients: told, else of the parameters counted.

    A study's own steps tell what a sample costs: operations are counted as one.
    """
    if gradient_bytes is None and study.parameters is not None:
        gradient_bytes = float(study.parameters * _GRADIENT)
    return None if gradient_bytes is None else _trained(study, gradient_bytes)


def _trained(study: MeasuredStudy, gradient_bytes: float) -> TrainedNetwork:
    is_text = study.plan.workload == "transformer"
    return TrainedNetwork(
        flops=1.0,
        gradient_bytes=gradient_bytes,
        layers=_LAYERS if is_text else 0,
        activation_bytes=float(_ACTIVATION) if is_text else 0.0,
    )


def _memory_only(
    study: MeasuredStudy, points: list[MeasuredPoint], network: TrainedNetwork | None
) -> str:
    ranks = {point.plan.ranks for point in points}
    if len(ranks) < 2:
        return (
            f"the study has one point ({min(ranks)} ranks): it tells memory only, nothing of how "
            "a step grows"
        )
    if network is None:
        return (
            f"nothing tells the bytes of {study.plan.workload}'s gradients: give --script and "
            "--image, or a trace of two ranks: --trace"
        )
    return ""


def _speeds(
    study: MeasuredStudy, base: MeasuredPoint, points: list[MeasuredPoint], arm: str
) -> Iterator[MeasuredSpeed]:
    """Yield measured points; of one launch alone nobody knows the interval: the model's counts."""
    first = _steps(base, arm)
    for point in points:
        steps = _steps(point, arm)
        if len(steps.step_s) < 2 or len(first.step_s) < 2:
            continue
        is_base = point is base
        yield MeasuredSpeed(
            strategy=point.plan.strategy.name,
            ranks=point.plan.ranks,
            step_s=how_many.seconds(steps.step_s),
            efficiency=_one() if is_base else _share(first, steps),
            terms=_terms(study, point, arm),
        )


def _terms(study: MeasuredStudy, point: MeasuredPoint, arm: str) -> Mapping[str, float]:
    """Return a measured point's seconds by term; the rest of the step is compute."""
    loss = loss_terms.of(study, point, arm)
    if loss is None:
        return {}
    lost = {term.name: max(term.share.share, 0.0) * loss.step_s for term in loss.terms}
    return {"compute": max(loss.step_s - sum(lost.values()), 0.0), **lost}


def _steps(point: MeasuredPoint, arm: str) -> PointSteps:
    return PointSteps(
        ranks=point.plan.ranks,
        samples=max(point.plan.global_batch, 1) / point.plan.ranks,
        step_s=point.arms[arm].step_s,
    )


def _one() -> Spread:
    return Spread(low=1.0, middle=1.0, high=1.0)


def _share(base: PointSteps, point: PointSteps) -> Spread:
    share = how_many.efficiency(base, point)
    return Spread(low=share.low, middle=share.efficiency, high=share.high)


def _remarks(points: list[MeasuredPoint]) -> Iterator[str]:
    yield from dict.fromkeys(point.emulated for point in points if point.emulated)
    cut = [str(point.plan.ranks) for point in points if not point.complete]
    if cut:
        yield f"incomplete points, as far as they were measured: {', '.join(cut)} ranks"


def _machine(
    calibrated: CalibratedMachine,
    estimates: Mapping[ConstantName, Estimate],
    network: TrainedNetwork,
    draw: Draw,
) -> Machine:
    drawn = {
        name: replace(estimate, value=draw.get(name, estimate.value))
        for name, estimate in estimates.items()
    }
    return replace(calibrated, estimates=drawn).machine(network)
