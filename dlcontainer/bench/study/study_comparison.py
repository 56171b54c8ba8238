"""Two studies side by side: an architecture against another, at points where the work is the same.

A ratio is printed only where workload, precision, scaling, strategy and batch are the same; what
differs is named. Sites, images, nodes and processors may differ: that is what is compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import IMAGE_ENVIRONMENT, SURROUNDINGS
from dlcontainer.bench.samples.vocabulary import CPUS_ASKED, counted
from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import efficiency
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_records import MeasuredPoint, StudyPlan

_FACTS = ("workload", "precision", "scaling")
# In a session's work, but of the machine: what architectures may differ in.
_OF_MACHINE = frozenset(
    {SURROUNDINGS, IMAGE_ENVIRONMENT, CPUS_ASKED, "threads", "device", "nodes", "ranks_per_node",
     "steps"}
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class PointRatio:
    """Both studies at one point: seconds a step of one arm, and second / first of them."""

    ranks: int
    strategy: str
    nodes: tuple[int, int]
    arm: str
    step_s: tuple[float, float]
    ratio: Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyComparison:
    """What two studies say together; with `refusals` there is no ratio at all.

    `left_out` names the points without a ratio, each with its reason.
    """

    first: JudgedStudy
    second: JudgedStudy
    refusals: tuple[str, ...]
    points: tuple[PointRatio, ...]
    left_out: tuple[str, ...]


def compare(first: JudgedStudy, second: JudgedStudy) -> StudyComparison:
    """Hold the second study against the first."""
    refusals = tuple(_differing(first.study.plan, second.study.plan))
    points: list[PointRatio] = []
    left_out: list[str] = []
    if not refusals:
        for mine, theirs, reason in _pairs(first, second):
            if theirs is None or reason:
                left_out.append(f"{_name(mine)}: {reason}")
            else:
                points += _ratios(mine, theirs)
        if not points:
            refusals = (f"no point is the same: {'; '.join(left_out) or 'none was measured'}",)
    return StudyComparison(
        first=first,
        second=second,
        refusals=refusals,
        points=tuple(points),
        left_out=tuple(left_out),
    )


def _differing(first: StudyPlan, second: StudyPlan) -> Iterator[str]:
    for name in _FACTS:
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine != theirs:
            yield f"{name} differs: {mine} and {theirs}"


def _pairs(
    first: JudgedStudy, second: JudgedStudy
) -> Iterator[tuple[MeasuredPoint, MeasuredPoint | None, str]]:
    """Yield the first study's points with the second's, and why a pair has no ratio."""
    by_place = {_place(point): point for point in second.study.points}
    for mine in first.study.points:
        theirs = by_place.pop(_place(mine), None)
        if theirs is not None:
            yield mine, theirs, _reason(first, second, mine, theirs)
        else:
            strategies = [
                point.plan.strategy.name
                for point in second.study.points
                if point.plan.ranks == mine.plan.ranks
            ]
            differs = f"the strategy differs: the other study has {', '.join(strategies)}"
            yield mine, None, differs if strategies else "in the first study alone"
    counts = {point.plan.ranks for point in first.study.points}
    for theirs in by_place.values():
        if theirs.plan.ranks not in counts:
            yield theirs, None, "in the second study alone"


def _place(point: MeasuredPoint) -> tuple[int, str]:
    return point.plan.ranks, point.plan.strategy.name


def _name(point: MeasuredPoint) -> str:
    return f"{counted(point.plan.ranks, 'rank')}, {point.plan.strategy.name}"


def _reason(
    first: JudgedStudy, second: JudgedStudy, mine: MeasuredPoint, theirs: MeasuredPoint
) -> str:
    batches = mine.plan.global_batch, theirs.plan.global_batch
    if batches[0] != batches[1]:
        return f"the batch differs: {batches[0]} and {batches[1]} samples of all ranks"
    works = _work(first, mine), _work(second, theirs)
    for name in sorted(works[0].keys() | works[1].keys()):
        shown = [comparable.shown(work.get(name)) for work in works]
        if all(works) and shown[0] != shown[1]:
            return f"{name} differs: {shown[0]} and {shown[1]}"
    if bool(mine.emulated) != bool(theirs.emulated):
        return "the compute of one of them is emulated"
    return "" if list(_ratios(mine, theirs)) else "one of them was not measured"


def _work(judged: JudgedStudy, point: MeasuredPoint) -> Mapping[str, object]:
    """Return what a session declares of its work; empty where there is no session."""
    analysis = judged.session(point)
    declared = analysis.series.session.declared.workload if analysis else {}
    return {name: work for name, work in declared.items() if name not in _OF_MACHINE}


def _ratios(mine: MeasuredPoint, theirs: MeasuredPoint) -> Iterator[PointRatio]:
    for arm in (name for name in mine.arms if name in theirs.arms):
        below, above = mine.arms[arm].step_s, theirs.arms[arm].step_s
        if below and above:
            yield PointRatio(
                ranks=mine.plan.ranks,
                strategy=mine.plan.strategy.name,
                nodes=(mine.plan.nodes, theirs.plan.nodes),
                arm=arm,
                step_s=(mean_ratios.mean(below), mean_ratios.mean(above)),
                ratio=mean_ratios.ratio(above, below, efficiency.LEVEL),
            )
