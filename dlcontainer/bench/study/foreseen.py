"""What the first points of a study foretell of its later ones: each later point is held to it.

The machine is calibrated at the first two numbers of ranks (three, where the second has no link
that the last one takes); nothing of a later point is in it. Data-parallel points alone: of others
the step model takes a network's layers, which a study does not say.
"""

from dataclasses import dataclass, replace

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import efficiency, loss_terms
from dlcontainer.bench.study.forecast import calibration, step_forecast
from dlcontainer.bench.study.forecast.calibration import CalibratedMachine
from dlcontainer.bench.study.forecast.step_terms import StrategyChoice, TrainedNetwork
from dlcontainer.bench.study.shortfall import ForeseenPoint
from dlcontainer.bench.study.study_records import MeasuredPoint, MeasuredStudy
from dlcontainer.errors import BenchDataError

# Gradients of mixed precision are sent in fp32 too.
_GRADIENT_BYTES = 4
_FIRST = (2, 3)
# The names of a forecast's terms in a loss; compute and input are at the base as well.
_LOST = {
    "idle neighbours": loss_terms.NEIGHBOURS,
    "exposed communication": loss_terms.COMMUNICATION,
    "waiting": loss_terms.WAITING,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyOutlook:
    """What was foreseen for an arm's later points, from which numbers of ranks; or why nothing."""

    points: tuple[ForeseenPoint, ...] = ()
    ranks: tuple[int, ...] = ()
    reason: str = ""


def of(study: MeasuredStudy, arm: str) -> StudyOutlook:
    """Foresee the later data-parallel points of a study from its first ones."""
    network = _network(study)
    if network is None:
        return StudyOutlook(reason="the sessions don't say how many parameters the network has")
    counts = tuple(dict.fromkeys(point.plan.ranks for point in study.points))
    reason = "fewer than three numbers of ranks"
    for number in _FIRST:
        first, later = counts[:number], _later(study, counts[number:])
        if later:
            try:
                machine = calibration.from_study(_until(study, first), arm)
                points = tuple(_point(study, arm, machine, network, point) for point in later)
            except BenchDataError as error:
                reason = error.what
            else:
                return StudyOutlook(points=points, ranks=first)
    return StudyOutlook(reason=reason)


def _network(study: MeasuredStudy) -> TrainedNetwork | None:
    # The step model scales compute by samples alone: of operations any number does.
    return (
        TrainedNetwork(flops=1.0, gradient_bytes=_GRADIENT_BYTES * study.parameters)
        if study.parameters
        else None
    )


def _later(study: MeasuredStudy, counts: tuple[int, ...]) -> list[MeasuredPoint]:
    return [
        point
        for point in study.points
        if point.plan.ranks in counts
        and point.plan.global_batch
        and point.plan.strategy == ParallelStrategy(dp=point.plan.ranks)
    ]


def _until(study: MeasuredStudy, counts: tuple[int, ...]) -> MeasuredStudy:
    """Return a study as it was after its first points."""
    return replace(
        study,
        points=tuple(point for point in study.points if point.plan.ranks in counts),
        messages=tuple(message for message in study.messages if message.ranks in counts),
        idle_neighbours=tuple(
            baseline for baseline in study.idle_neighbours if baseline.ranks in counts
        ),
    )


def _point(
    study: MeasuredStudy,
    arm: str,
    machine: CalibratedMachine,
    network: TrainedNetwork,
    point: MeasuredPoint,
) -> ForeseenPoint:
    plan = point.plan
    choice = StrategyChoice(strategy=plan.strategy, global_batch=plan.global_batch)
    step = step_forecast.of(machine, network, choice)
    base_s = mean_ratios.mean(study.points[0].arms[arm].step_s)
    ideal_s = base_s * efficiency.ideal_share(study, plan)
    terms, total = step.terms.by_name(), step.terms.step_s
    return ForeseenPoint(
        ranks=plan.ranks,
        strategy=plan.strategy.name,
        efficiency=Interval(
            ratio=ideal_s / step.median_s,
            low=ideal_s / step.high_s,
            high=ideal_s / step.low_s,
            level=step.level,
        ),
        shares={_LOST[name]: seconds / total for name, seconds in terms.items() if name in _LOST},
    )
