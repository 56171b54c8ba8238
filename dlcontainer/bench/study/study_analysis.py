"""From a judged study to what a report says of it: each point's efficiency, loss and verdict."""

from collections.abc import Mapping
from dataclasses import dataclass

from dlcontainer.bench.study import efficiency, foreseen, loss_terms, shortfall
from dlcontainer.bench.study.efficiency import ArmEfficiency
from dlcontainer.bench.study.judged_study import JudgedStudy, PointVerdict
from dlcontainer.bench.study.loss_terms import PointLoss
from dlcontainer.bench.study.shortfall import ForeseenComparison, PointReading
from dlcontainer.bench.study.study_records import MeasuredPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class PointAnalysis:
    """A point as a report shows it; arms by their names, the reference first."""

    point: MeasuredPoint
    verdict: PointVerdict | None
    efficiencies: Mapping[str, ArmEfficiency]
    losses: Mapping[str, PointLoss]

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return self.point.plan.ranks

    @property
    def strategy(self) -> str:
        """Return the name of the parallel strategy."""
        return self.point.plan.strategy.name

    @property
    def family(self) -> str:
        """Return the strategy without the axis that grows with the ranks: dp, tp2, fsdpxpp2."""
        plan = self.point.plan.strategy
        axes = ["fsdp"] if plan.fsdp > 1 else []
        axes += [f"{name}{plan.size(name)}" for name in ("tp", "pp") if plan.size(name) > 1]
        return "x".join(axes) or "dp"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeseenStudy:
    """A study's later points against what its first ones foretold, of one arm; or why not."""

    arm: str
    comparisons: tuple[ForeseenComparison, ...]
    ranks: tuple[int, ...]
    reason: str


def against_first_points(
    judged: JudgedStudy, points: tuple[PointAnalysis, ...]
) -> ForeseenStudy | None:
    """Hold the candidate's later points against the first ones; None where nothing was measured."""
    if not points:
        return None
    arm = list(points[0].point.arms)[-1]
    outlook = foreseen.of(judged.study, arm)
    readings = [
        PointReading(
            plan=point.point.plan, efficiency=point.efficiencies[arm], loss=point.losses.get(arm)
        )
        for point in points
        if arm in point.efficiencies
    ]
    return ForeseenStudy(
        arm=arm,
        comparisons=shortfall.compare(outlook.points, readings),
        ranks=outlook.ranks,
        reason=outlook.reason,
    )


def read(judged: JudgedStudy) -> tuple[PointAnalysis, ...]:
    """Analyse all points that were measured; those that were not are in none."""
    points = (_point(judged, point) for point in judged.study.points)
    return tuple(point for point in points if point.efficiencies)


def last(points: tuple[PointAnalysis, ...]) -> tuple[PointAnalysis, ...]:
    """Return the points of the most ranks: one for each strategy."""
    most = max((point.ranks for point in points), default=0)
    return tuple(point for point in points if point.ranks == most)


def _point(judged: JudgedStudy, point: MeasuredPoint) -> PointAnalysis:
    study, count = judged.study, judged.micro_batches(point)
    efficiencies = {arm: efficiency.of(study, point, arm) for arm in point.arms}
    losses = {arm: loss_terms.of(study, point, arm, count) for arm in point.arms}
    return PointAnalysis(
        point=point,
        verdict=judged.verdict(point),
        efficiencies={arm: reading for arm, reading in efficiencies.items() if reading},
        losses={arm: loss for arm, loss in losses.items() if loss},
    )
