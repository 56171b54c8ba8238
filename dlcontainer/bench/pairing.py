"""From launches to pairs, and from pairs to the figures of a metric. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from dlcontainer.bench import cut, stats
from dlcontainer.bench.records import Role, Sample, Series
from dlcontainer.bench.stats import Difference, Fit, Interval
from dlcontainer.errors import BenchDataError

ROLES: tuple[Role, ...] = ("pair", "joiner", "control")


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


def of(series: Series) -> dict[Role, tuple[Pair, ...]]:
    """Give the whole pairs of each kind; raises BenchDataError for launches that are no pair."""
    groups: dict[Role, dict[int, list[Sample]]] = {role: {} for role in ROLES}
    for sample in cut.used(series):
        groups[sample.role].setdefault(sample.pair, []).append(sample)
    return {
        role: tuple(
            pair
            for number, group in sorted(numbered.items())
            if (pair := _pair(series, number, role, group))
        )
        for role, numbered in groups.items()
    }


def _pair(series: Series, number: int, role: Role, group: list[Sample]) -> Pair | None:
    """Join two launches; None where one is missing or has no time."""
    declared = series.session.declared
    if len({sample.position for sample in group}) < len(group):
        raise BenchDataError(
            f"{role} {number} has two launches at one position",
            where=f"{series.path}:{group[-1].line}",
        )
    if len(group) < 2 or not all(sample.figure(declared.metric) for sample in group):
        return None
    reference, candidate = declared.arms
    first, second = group if group[0].position == 0 else group[::-1]
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


def differences(metric: str, pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Give each pair's log-ratio of a metric; none where a launch lacks it."""
    found = []
    for pair in pairs:
        ours, theirs = pair.reference.figure(metric), pair.candidate.figure(metric)
        if ours is None or theirs is None:
            return ()
        found.append(
            Difference(
                number=pair.number, d=log(theirs / ours), candidate_first=pair.candidate_first
            )
        )
    return tuple(found)


def figure(metric: str, role: Role, pairs: Sequence[Pair], alpha: float) -> Figure | None:
    """Give a metric over pairs; None where a launch lacks it, and without pairs."""
    found = differences(metric, pairs)
    if not found:
        return None
    fitted = stats.fit(found)
    return Figure(
        metric=metric,
        role=role,
        fitted=fitted,
        interval=stats.interval(fitted, 1 - alpha),
        means=(
            sum(pair.reference.figure(metric) or 0.0 for pair in pairs) / len(pairs),
            sum(pair.candidate.figure(metric) or 0.0 for pair in pairs) / len(pairs),
        ),
    )
