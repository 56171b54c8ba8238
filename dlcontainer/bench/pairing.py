"""From launches to pairs, and from pairs to the figures of a metric. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from dlcontainer.bench import cut, places, stats
from dlcontainer.bench.records import Role, Sample, Series
from dlcontainer.bench.stats import Difference, Fit, Interval
from dlcontainer.bench.words import ArmName
from dlcontainer.errors import BenchDataError

ROLES: tuple[Role, ...] = ("pair", "joiner", "control", "candidate_control")


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

    @property
    def places(self) -> tuple[int, int] | None:
        """The places of reference and candidate in their triple; None in a pair of two."""
        if len(self.reference.order or "") < 3:
            return None
        return self.reference.position, self.candidate.position


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One quantity over one kind of pairs; `interval` is two-sided, with no verdict of its own."""

    metric: str
    role: Role
    fitted: Fit
    interval: Interval
    means: tuple[float, float]


def of(series: Series) -> dict[Role, tuple[Pair, ...]]:
    """Give the whole pairs of each kind; raises BenchDataError for launches that are no pair.

    Of triples these are the pairs of reference and candidate.
    """
    found = {
        role: tuple(
            pair
            for number, group in _groups(series, role)
            if (pair := _pair(series, number, role, group))
        )
        for role in ROLES
    }
    if series.session.declared.is_triple:
        found["pair"] = contrast(triples(series), *series.session.declared.sides)
    return found


def _groups(series: Series, role: Role) -> list[tuple[int, list[Sample]]]:
    groups: dict[int, list[Sample]] = {}
    for sample in cut.used(series):
        if sample.role == role:
            groups.setdefault(sample.pair, []).append(sample)
    for number, group in groups.items():
        if len({sample.position for sample in group}) < len(group):
            raise BenchDataError(
                f"{role} {number} has two launches at one position",
                where=f"{series.path}:{group[-1].line}",
            )
    return sorted(groups.items())


def triples(series: Series) -> tuple[dict[ArmName, Sample], ...]:
    """Give the whole triples, each arm's launch by its name; raises BenchDataError for others."""
    declared = series.session.declared
    letters = dict(zip("nuc", declared.arms, strict=False))
    found = []
    for number, group in _groups(series, "triple"):
        for sample in group:
            order = sample.order or ""
            if (
                len(order) != 3
                or order != group[0].order
                or letters.get(order[sample.position]) != sample.arm
            ):
                raise BenchDataError(
                    f"the launches of triple {number} do not belong together",
                    where=f"{series.path}:{sample.line}",
                    why=f"{sample.arm} at place {sample.position + 1} of the order {order}",
                )
        if len(group) == 3 and all(sample.figure(declared.metric) for sample in group):
            found.append({sample.arm: sample for sample in group})
    return tuple(found)


def contrast(
    found: Sequence[Mapping[ArmName, Sample]], reference: ArmName, candidate: ArmName
) -> tuple[Pair, ...]:
    """Give the pairs that triples hold of two arms."""
    return tuple(
        Pair(
            number=triple[reference].pair,
            reference=triple[reference],
            candidate=triple[candidate],
        )
        for triple in found
    )


def _pair(series: Series, number: int, role: Role, group: list[Sample]) -> Pair | None:
    """Join two launches; None where one is missing or has no time."""
    declared = series.session.declared
    if len(group) < 2 or not all(sample.figure(declared.metric) for sample in group):
        return None
    reference, candidate = declared.sides
    first, second = group if group[0].position == 0 else group[::-1]
    alone = {"control": reference, "candidate_control": candidate}.get(role)
    wanted = {alone} if alone else {reference, candidate}
    fits = {first.arm, second.arm} == wanted and first.order == second.order is not None
    fits = fits and len(first.order or "") == 2
    if not alone:
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
                number=pair.number,
                d=log(theirs / ours),
                candidate_first=pair.candidate_first,
                places=pair.places,
            )
        )
    return tuple(found)


def fit(found: Sequence[Difference]) -> Fit:
    """Fit the model of pairs, or of triples."""
    in_triples = all(item.places for item in found)
    return (places.fit(found) if in_triples else None) or stats.fit(found)


def figure(metric: str, role: Role, pairs: Sequence[Pair], alpha: float) -> Figure | None:
    """Give a metric over pairs; None where a launch lacks it, and without pairs."""
    found = differences(metric, pairs)
    if not found:
        return None
    fitted = fit(found)
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
