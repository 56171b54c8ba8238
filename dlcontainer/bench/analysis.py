"""From a session's raw samples to its verdict: pairs, gates, figures. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from dlcontainer.bench import comparable, stats
from dlcontainer.bench.comparable import FactDifference, LossCheck
from dlcontainer.bench.records import ArmName, Role, Sample, Series
from dlcontainer.bench.stats import Difference, Fit, Interval
from dlcontainer.bench.verdict import Evidence, Rules, Verdict, judge
from dlcontainer.errors import BenchDataError

LOSS_TOLERANCE = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two launches back to back, the reference's first here whatever the order was."""

    number: int
    reference: Sample
    candidate: Sample

    @property
    def candidate_first(self) -> bool:
        """Whether the candidate ran before the reference."""
        return self.candidate.position < self.reference.position


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One quantity over one kind of pairs; `interval` is two-sided, with no verdict of its own."""

    metric: str
    role: Role
    fitted: Fit
    interval: Interval
    means: tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """All that a report says of one session; a report computes nothing itself."""

    series: Series
    alpha: float
    pairs: dict[Role, tuple[Pair, ...]]
    failed: tuple[Sample, ...]
    main: Figure | None
    control: Figure | None
    joiner: Figure | None
    secondary: tuple[Figure, ...]
    differences: tuple[FactDifference, ...]
    losses: LossCheck | None
    verdict: Verdict


def analyse(series: Series) -> Analysis:
    """Judge one session; raises BenchDataError where it has no samples or no order in them."""
    declared = series.session.declared
    if not series.samples:
        raise BenchDataError(
            "no samples",
            where=str(series.path),
            why=series.end.reason if series.end and series.end.reason else None,
            next_step="measure again: dlcontainer bench",
        )
    roles: tuple[Role, ...] = ("pair", "joiner", "control")
    pairs = {role: _pairs(series, role) for role in roles}
    alpha = stats.spent_alpha(_looks(series), declared.alpha)
    figures = {role: _figure(declared.metric, role, pairs[role], alpha) for role in roles}
    failed = tuple(sample for sample in series.samples if not sample.ok)
    found, missing = _facts(series)
    losses = _losses(series)
    main, control = figures["pair"], figures["control"]
    evidence = Evidence(
        pairs=main.fitted if main else None,
        control=control.fitted if control else None,
        refusals=(
            *_mute_arms(series),
            *comparable.refusals(found, declared.arms, missing),
            *((losses.problem,) if losses and losses.problem else ()),
        ),
        holds=_holds(series, pairs["pair"]),
    )
    rules = Rules(margin=declared.margin, alpha=alpha, equivalence=declared.probe != "import")
    return Analysis(
        series=series,
        alpha=alpha,
        pairs=pairs,
        failed=failed,
        main=main,
        control=control,
        joiner=figures["joiner"],
        secondary=_secondary(series, pairs["pair"], alpha),
        differences=tuple(found),
        losses=losses,
        verdict=judge(rules, evidence),
    )


def _looks(series: Series) -> tuple[int, ...]:
    declared = series.session.declared
    return declared.looks or (declared.pairs,)


def _pairs(series: Series, role: Role) -> tuple[Pair, ...]:
    groups: dict[int, list[Sample]] = {}
    for sample in series.samples:
        if sample.role == role:
            groups.setdefault(sample.pair, []).append(sample)
    metric = series.session.declared.metric
    found = []
    for number, group in sorted(groups.items()):
        if len({sample.position for sample in group}) < len(group):
            raise BenchDataError(
                f"{role} {number} has two launches at one position",
                where=f"{series.path}:{group[-1].line}",
            )
        if len(group) == 2 and all(sample.seconds(metric) for sample in group):
            found.append(_pair(series, number, role, sorted(group, key=lambda s: s.position)))
    return tuple(found)


def _pair(series: Series, number: int, role: Role, group: Sequence[Sample]) -> Pair:
    reference, candidate = series.session.declared.arms
    first, second = group
    wanted = {reference} if role == "control" else {reference, candidate}
    fits = {first.arm, second.arm} == wanted and first.order == second.order is not None
    if role != "control":
        fits = fits and (first.order == "nc") == (first.arm == reference)
    if not fits:
        raise BenchDataError(
            f"the launches of {role} {number} do not belong together",
            where=f"{series.path}:{second.line}",
            why=f"{first.arm} and {second.arm}, orders {first.order} and {second.order}",
        )
    if first.order == "cn":
        first, second = second, first
    return Pair(number=number, reference=first, candidate=second)


def _figure(metric: str, role: Role, pairs: Sequence[Pair], alpha: float) -> Figure | None:
    differences, times = [], []
    for pair in pairs:
        ours, theirs = pair.reference.seconds(metric), pair.candidate.seconds(metric)
        if ours is None or theirs is None:
            return None
        times.append((ours, theirs))
        differences.append(
            Difference(
                number=pair.number, d=log(theirs / ours), candidate_first=pair.candidate_first
            )
        )
    if not differences:
        return None
    fitted = stats.fit(differences)
    count = len(times)
    return Figure(
        metric=metric,
        role=role,
        fitted=fitted,
        interval=stats.interval(fitted, 1 - alpha),
        means=(sum(one for one, _ in times) / count, sum(two for _, two in times) / count),
    )


def _secondary(series: Series, pairs: Sequence[Pair], alpha: float) -> tuple[Figure, ...]:
    names: dict[str, None] = {}
    for pair in pairs:
        names.update(dict.fromkeys([*pair.reference.values, *pair.candidate.values, "wall_s"]))
    names.pop(series.session.declared.metric, None)
    figures = (_figure(name, "pair", pairs, alpha) for name in names)
    return tuple(figure for figure in figures if figure is not None)


def _facts(series: Series) -> tuple[list[FactDifference], list[ArmName]]:
    declared = series.session.declared
    stacks = {stack.arm: stack for stack in series.stacks}
    # A side that never ran could attest nothing: that is said in another way.
    ran = {sample.arm for sample in series.samples if sample.ok}
    missing = [arm for arm in declared.arms if arm not in stacks and arm in ran]
    if not stacks.keys() >= set(declared.arms):
        return [], missing
    reference, candidate = (stacks[arm] for arm in declared.arms)
    return comparable.differences(declared.question, reference, candidate), []


def _mute_arms(series: Series) -> Iterable[str]:
    for arm in series.session.declared.arms:
        launches = [s for s in series.samples if s.arm == arm]
        if launches and not any(sample.ok for sample in launches):
            last = launches[-1]
            yield (
                f"no launch of {arm} succeeded: {last.error or f'exit code {last.returncode}'} "
                f"(line {last.line})"
            )


def _losses(series: Series) -> LossCheck | None:
    declared = series.session.declared
    if declared.probe != "train":
        return None
    samples = [s for s in series.samples if s.ok and s.role != "warmup"]
    return comparable.check_losses(samples, declared.loss_tolerance or LOSS_TOLERANCE)


def _holds(series: Series, pairs: Sequence[Pair]) -> tuple[str, ...]:
    # When to stop may have hung on what was seen, and what failed has no time: leaving it out
    # would favour the side that failed.
    found = []
    if not series.complete:
        reason = series.end.reason if series.end else "the file has no end"
        found.append(f"the session is incomplete: {reason or 'it was stopped'}")
    lost = [s.line for s in series.samples if s.role == "pair" and not s.ok]
    if lost:
        found.append(f"{len(lost)} launches failed (lines {', '.join(map(str, lost))})")
    looks = _looks(series)
    if series.complete and not lost and len(pairs) not in looks:
        found.append(
            f"{len(pairs)} whole pairs, where {' or '.join(map(str, looks))} were declared"
        )
    return tuple(found)
