"""What a point of a study loses against the ideal, by term, each with its interval. Pure.

The step of a launch is the sum of four parts: compute (the mean of the ranks' own steps while
nobody talks, without their wait for samples), waiting (the slowest of these less their mean),
communication that no compute hides (the launch's step less the slowest of these), and input. A term
is what a part takes more than at the base, where one rank has compute and input alone; the terms
sum to 1 - efficiency. Where ranks can't train without talking, the parts that can't be told from
each other stay together under one name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.stats.mean_ratios import Share, WeightedMean
from dlcontainer.bench.study import efficiency
from dlcontainer.bench.study.study_records import (
    ArmSteps,
    MeasuredPoint,
    MeasuredStudy,
    PointPlan,
)

NEIGHBOURS = "idle neighbours"
BATCHES = "idle neighbours and smaller batches"
BUBBLE = "pipeline bubble (computed)"
COMMUNICATION = "exposed communication"
WAITING = "waiting"
INPUT = "input"
JOINED = "exposed communication and waiting"
_Parts = Mapping[str, tuple[float, ...]]
_COMPUTE = "compute"


@dataclass(frozen=True, kw_only=True, slots=True)
class LossTerm:
    """A term's share of the step, with its interval over launches."""

    name: str
    share: Share


@dataclass(frozen=True, kw_only=True, slots=True)
class PointLoss:
    """An arm's loss at a point, of its step; `remarks` say what could not be told apart, and why.

    `step_s` is the mean step, `input_share` all of the wait for samples, that of the base too.
    """

    arm: str
    step_s: float
    total: Share
    terms: tuple[LossTerm, ...]
    input_share: float
    remarks: tuple[str, ...] = ()

    @property
    def largest(self) -> LossTerm | None:
        """Return the largest term that is told apart from 0; None where none is."""
        certain = [term for term in self.terms if term.share.low > 0]
        return max(certain, key=lambda term: term.share.share, default=None)


def of(
    study: MeasuredStudy, point: MeasuredPoint, arm: str, micro_batches: int | None = None
) -> PointLoss | None:
    """Return what an arm loses at a point; None at the base, and where nothing was measured."""
    measured, first = efficiency.of(study, point, arm), efficiency.base(study)
    if measured is None or measured.is_base or first is None:
        return None
    pair = _PointPair(study=study, first=first, point=point, arm=arm)
    split = _split(pair) or _joined(pair, micro_batches)
    interval, steps = measured.efficiency, pair.steps
    total = Share(share=1 - interval.ratio, low=1 - interval.high, high=1 - interval.low)
    waits = mean_ratios.mean(steps.input_s) if steps.input_s else 0.0
    return PointLoss(
        arm=arm,
        step_s=measured.step_s,
        total=total,
        terms=split.terms,
        input_share=waits / measured.step_s,
        remarks=split.remarks,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _PointPair:
    """A point and the base, as one arm measured them."""

    study: MeasuredStudy
    first: MeasuredPoint
    point: MeasuredPoint
    arm: str

    @property
    def steps(self) -> ArmSteps:
        return self.point.arms[self.arm]

    @property
    def base_steps(self) -> ArmSteps:
        return self.first.arms[self.arm]

    @property
    def ideal(self) -> float:
        """The ideal step, of the base's."""
        return efficiency.ideal_share(self.study, self.point.plan)

    @property
    def neighbours(self) -> str:
        """Name the term of compute: in strong scaling a smaller batch may be slower by itself."""
        return BATCHES if self.study.plan.scaling == "strong" else NEIGHBOURS

    def growth(
        self, name: str, at_point: tuple[float, ...], at_base: tuple[float, ...]
    ) -> LossTerm:
        """Return what a part takes more than at the base."""
        weighted = [WeightedMean(values=at_base, weight=-self.ideal)]
        share = mean_ratios.share(at_point, self.steps.step_s, weighted, efficiency.LEVEL)
        return LossTerm(name=name, share=share)


@dataclass(frozen=True, kw_only=True, slots=True)
class _LossSplit:
    terms: tuple[LossTerm, ...]
    remarks: tuple[str, ...] = ()


def _split(pair: _PointPair) -> _LossSplit | None:
    """Return four terms; None where a side has no steps without talking."""
    at_point, at_base = (
        _parts(pair.steps, pair.point.plan),
        _parts(pair.base_steps, pair.first.plan),
    )
    if at_point is None or at_base is None:
        return None
    names = {
        _COMPUTE: pair.neighbours,
        COMMUNICATION: COMMUNICATION,
        WAITING: WAITING,
        INPUT: INPUT,
    }
    terms = (pair.growth(name, at_point[part], at_base[part]) for part, name in names.items())
    return _LossSplit(terms=tuple(terms))


def _parts(steps: ArmSteps, plan: PointPlan) -> _Parts | None:
    """Return the four parts of each launch's step; None where nobody trained without talking."""
    waits = _input(steps)
    if plan.ranks == 1:
        nothing = tuple(0.0 for _ in steps.step_s)
        compute = _less(steps.step_s, waits)
        return {_COMPUTE: compute, WAITING: nothing, COMMUNICATION: nothing, INPUT: waits}
    if len(steps.apart_s) != len(steps.step_s) or not all(steps.apart_s):
        return None
    means = tuple(mean_ratios.mean(ranks) for ranks in steps.apart_s)
    slowest = tuple(max(ranks) for ranks in steps.apart_s)
    return {
        _COMPUTE: _less(means, waits),
        WAITING: _less(slowest, means),
        COMMUNICATION: _less(steps.step_s, slowest),
        INPUT: waits,
    }


def _joined(pair: _PointPair, micro_batches: int | None) -> _LossSplit:
    """Return the terms where ranks can't train without talking, or did not."""
    steps, waits = pair.steps.step_s, _input(pair.steps)
    base_waits = _input(pair.base_steps)
    compute = _less(pair.base_steps.step_s, base_waits)
    idle, (bubble, remarks) = _idle_neighbours(pair), _bubble(pair, micro_batches)
    stalls = [WeightedMean(values=compute, weight=pair.ideal * bubble)] if bubble else []
    terms = [LossTerm(name=pair.neighbours, share=_share(steps, idle))] if idle else []
    terms += [LossTerm(name=BUBBLE, share=_share(steps, stalls))] if stalls else []
    # All that the other terms do not take: launches of the base are one measurement.
    remaining = [wait - bubble * work for wait, work in zip(base_waits, compute, strict=True)]
    if not idle:
        remaining = [-(1 + bubble) * work for work in compute]
    weighted = [WeightedMean(values=remaining, weight=pair.ideal)]
    weighted += [WeightedMean(values=idle[0].values, weight=-idle[0].weight)] if idle else []
    rest = mean_ratios.share(_less(steps, waits), steps, weighted, efficiency.LEVEL)
    name = JOINED if idle else f"{pair.neighbours}, {JOINED}"
    terms += [LossTerm(name=name, share=rest), pair.growth(INPUT, waits, base_waits)]
    remark = f"no step without talking was recorded: {name} are one term"
    return _LossSplit(terms=tuple(terms), remarks=(remark, *remarks))


def _idle_neighbours(pair: _PointPair) -> tuple[WeightedMean, ...]:
    """Return the two sides of the idle-neighbour baseline; none where it was not measured."""
    plan, study = pair.point.plan, pair.study
    # The ranks of a baseline train as each rank of the first point of their number.
    alike = next((point.plan for point in study.points if point.plan.ranks == plan.ranks), plan)
    batch = efficiency.samples_a_rank(study, alike) * alike.ranks / alike.strategy.batches
    weight = efficiency.samples_a_rank(study, plan) / batch
    for baseline in study.idle_neighbours if pair.first.plan.ranks == 1 else ():
        if (baseline.ranks, baseline.arm) == (plan.ranks, pair.arm) and baseline.step_s:
            return (
                WeightedMean(values=baseline.step_s, weight=weight),
                WeightedMean(values=pair.base_steps.step_s, weight=-pair.ideal),
            )
    return ()


def _bubble(pair: _PointPair, micro_batches: int | None) -> tuple[float, tuple[str, ...]]:
    """Return the idle time of a pipeline's stages over their work, (p - 1) / m, and remarks.

    Of GPipe's schedule and of 1F1B alike (Narayanan et al., SC 2021, section 2.2).
    """
    stages = pair.point.plan.strategy.pp
    if stages == 1:
        return 0.0, ()
    if not micro_batches:
        text = "the number of micro-batches is not in the session: the pipeline's bubble is in it"
        return 0.0, (text,)
    return (stages - 1) / micro_batches, ()


def _share(steps: tuple[float, ...], weighted: Sequence[WeightedMean]) -> Share:
    nothing = (0.0,) * len(steps)
    return mean_ratios.share(nothing, steps, weighted, efficiency.LEVEL)


def _input(steps: ArmSteps) -> tuple[float, ...]:
    """Return each launch's wait for samples; none was recorded where there was none."""
    return steps.input_s if len(steps.input_s) == len(steps.step_s) else (0.0,) * len(steps.step_s)


def _less(values: tuple[float, ...], less: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(seconds - minus for seconds, minus in zip(values, less, strict=True))
