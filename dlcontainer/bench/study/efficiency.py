"""Scaling efficiency at the points of a study, with intervals. Pure.

Efficiency is samples a second and rank, against the study's first point. Weak scaling: t1 / tn;
strong scaling: t1 / (n tn); of strategies that share one batch among ranks both follow as well.
"""

from dataclasses import dataclass

from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study.study_records import ArmSteps, MeasuredPoint, MeasuredStudy, PointPlan

# Of every interval of a study; the verdicts keep the levels of their sessions.
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmEfficiency:
    """An arm at a point: mean seconds a step, and its efficiency; 1 by definition at the base."""

    arm: str
    launches: int
    step_s: float
    efficiency: Interval
    is_base: bool


def base(study: MeasuredStudy) -> MeasuredPoint | None:
    """Return the point that all are held against: the first; None where it was not measured."""
    first = study.points[0] if study.points else None
    is_measured = first is not None and any(arm.step_s for arm in first.arms.values())
    return first if is_measured else None


def ideal_share(study: MeasuredStudy, point: PointPlan) -> float:
    """Return the ideal step of a point as a factor of the base's: its samples a rank over those."""
    return samples_a_rank(study, point) / samples_a_rank(study, study.points[0].plan)


def samples_a_rank(study: MeasuredStudy, point: PointPlan) -> float:
    """Return the samples of a step over its ranks; in batches where a user's own build() has them.

    That is so at all points of a study or at none.
    """
    batches = point.strategy.batches if study.plan.scaling == "weak" else 1
    return (point.global_batch or batches) / point.ranks


def of(study: MeasuredStudy, point: MeasuredPoint, arm: str) -> ArmEfficiency | None:
    """Return the efficiency of one arm; None where it, or the base, was not measured."""
    first, steps = base(study), point.arms.get(arm)
    base_steps = first.arms.get(arm) if first else None
    if first is None or not _is_measured(steps) or not _is_measured(base_steps):
        return None
    assert steps is not None and base_steps is not None  # noqa: S101, PT018 - asked above
    is_base = point.plan == first.plan
    interval = Interval(ratio=1.0, low=1.0, high=1.0, level=LEVEL)
    if not is_base:
        factor = ideal_share(study, point.plan)
        ideal = [factor * seconds for seconds in base_steps.step_s]
        interval = mean_ratios.ratio(ideal, steps.step_s, LEVEL)
    return ArmEfficiency(
        arm=arm,
        launches=len(steps.step_s),
        step_s=mean_ratios.mean(steps.step_s),
        efficiency=interval,
        is_base=is_base,
    )


def _is_measured(steps: ArmSteps | None) -> bool:
    return steps is not None and bool(steps.step_s)
