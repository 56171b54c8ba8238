"""From launches to pairs, and from pairs to the figures of a metric. Pure."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isnan, log
from typing import overload

from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.launch_table import INDEX, Launch, LaunchKind, LaunchTable
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair
from dlcontainer.bench.stats import paired, regression
from dlcontainer.bench.stats.differences import Differences, PairOrder
from dlcontainer.bench.stats.neighbours import Rule
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.stats.regression import RegressionFit
from dlcontainer.errors import BenchDataError

CONTROLS: tuple[Role, ...] = ("control", "candidate_control")
ROLES: tuple[Role, ...] = ("pair", "joiner", *CONTROLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchPair:
    """Two launches back to back, the reference's first here whatever the order was."""

    number: int
    reference: Launch
    candidate: Launch


class LaunchPairs(Sequence[LaunchPair]):
    """Pairs in the order of their numbers, as the indices of their launches.

    `arms` are the reference and all that may leave something to the launch after them, `rule` how
    neighbours are taken to resemble each other.
    """

    def __init__(
        self,
        launches: LaunchTable,
        arms: Sequence[ArmName],
        numbers: "array[int]",
        reference: "array[int]",
        candidate: "array[int]",
    ) -> None:
        self.launches, self.arms, self.numbers = launches, tuple(arms), numbers
        self.reference, self.candidate = reference, candidate
        self.rule: Rule = "launches"
        self._fits: dict[tuple[str | int, ...], RegressionFit | None] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> LaunchPair: ...
    @overload
    def __getitem__(self, index: slice) -> "LaunchPairs": ...
    def __getitem__(self, index: int | slice) -> "LaunchPair | LaunchPairs":
        if isinstance(index, slice):
            parts = (self.numbers[index], self.reference[index], self.candidate[index])
            return LaunchPairs(self.launches, self.arms, *parts).judged_by(self.rule)
        return LaunchPair(
            number=self.numbers[index],
            reference=Launch(self.launches, self.reference[index]),
            candidate=Launch(self.launches, self.candidate[index]),
        )

    def judged_by(self, rule: Rule) -> "LaunchPairs":
        """Settle how neighbours are taken to resemble each other; return the same pairs."""
        self.rule = rule
        return self

    def until(self, number: int) -> "LaunchPairs":
        """Return the pairs up to this number."""
        count = bisect_right(self.numbers, number)
        return self if count == len(self) else self[:count]

    def figures(self, metric: str) -> tuple["array[float]", "array[float]"] | None:
        """Return a metric of all references and of all candidates; None where a launch has none."""
        ours = self.launches.column(metric, self.reference)
        theirs = self.launches.column(metric, self.candidate)
        # A sum is not a number only where one of these is not: they are positive.
        lacking = isnan(sum(ours)) or isnan(sum(theirs))
        return None if lacking or not ours else (ours, theirs)

    def fit(self, metric: str, *controls: "LaunchPairs") -> RegressionFit | None:
        """Fit a metric's model, once; None where a launch has none, and without pairs.

        `controls` are the first so many of each series that belongs to these pairs.
        """
        key: tuple[str | int, ...] = (metric, *map(len, controls))
        if key not in self._fits:
            pair_logs = differences(metric, self)
            control_logs = (differences(metric, control) for control in controls)
            self._fits[key] = (
                regression.fit(pair_logs, *control_logs, rule=self.rule) if pair_logs else None
            )
        return self._fits[key]

    def lines(self) -> Iterator[int]:
        """Yield the lines of all launches."""
        for indices in (self.reference, self.candidate):
            yield from map(self.launches.lines.__getitem__, indices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Triples:
    """Whole triples in the order of their numbers: each arm's launches by their indices."""

    launches: LaunchTable
    numbers: "array[int]"
    arms: Mapping[ArmName, "array[int]"]

    def pairs(self, sides: ArmPair) -> LaunchPairs:
        """Return the pairs that they hold of two arms."""
        reference, candidate = (self.arms[name] for name in sides.names)
        return LaunchPairs(self.launches, tuple(self.arms), self.numbers, reference, candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class PairFigure:
    """One quantity over one kind of pairs; `interval` is two-sided, with no verdict of its own."""

    metric: str
    role: Role
    fitted: RegressionFit
    interval: Interval
    means: tuple[float, float]


def of(series: Series) -> dict[Role, LaunchPairs]:
    """Return the whole pairs of each kind; raises BenchDataError for launches that are no pair.

    Of triples these are the pairs of reference and candidate.
    """
    by_role = {role: _pairs(series, role) for role in ROLES}
    if series.session.declared.is_triple:
        by_role["pair"] = triples(series).pairs(series.session.declared.sides)
    return by_role


def _groups(series: Series, role: Role) -> Iterator[tuple[int, list[int]]]:
    """Yield the launches of each pair or triple by their indices, in the order of its numbers."""
    launches = series.launches
    number, kind_of = launches.numbers.__getitem__, launches.kind_of.__getitem__
    aside = continuation.set_aside(series)
    mine = [i for i in launches.where(lambda kind: kind.role == role) if i not in aside]
    mine.sort(key=number)
    # There may be a million pairs, but of a dozen kinds.
    checked: set[tuple[int, ...]] = set()
    for pair, members in groupby(mine, key=number):
        group = list(members)
        kinds = tuple(map(kind_of, group))
        if kinds not in checked and len({launches.kinds[k].position for k in kinds}) < len(group):
            raise BenchDataError(
                f"{role} {pair} has two launches at the same position",
                where=f"{series.path}:{launches.lines[group[-1]]}",
            )
        checked.add(kinds)
        yield pair, group


def triples(series: Series) -> Triples:
    """Return the whole triples; raises BenchDataError for launches that are none."""
    declared, launches = series.session.declared, series.launches
    letters = dict(zip("nuc", declared.arms, strict=False))
    numbers, arms = array(INDEX), {arm: array(INDEX) for arm in declared.arms}
    time = launches.figures(declared.metric)
    for number, group in _groups(series, "triple"):
        kinds = [launches.kinds[launches.kind_of[i]] for i in group]
        for index, kind in zip(group, kinds, strict=True):
            order = kind.order or ""
            if (
                len(order) != 3
                or order != kinds[0].order
                or letters.get(order[kind.position]) != kind.arm
            ):
                raise BenchDataError(
                    f"the launches of triple {number} do not belong together",
                    where=f"{series.path}:{launches.lines[index]}",
                    why=f"{kind.arm} is at position {kind.position + 1} of the order {order}",
                )
        if len(group) == 3 and not any(isnan(time(i)) for i in group):
            numbers.append(number)
            for index, kind in zip(group, kinds, strict=True):
                arms[kind.arm].append(index)
    return Triples(launches=launches, numbers=numbers, arms=arms)


def _pairs(series: Series, role: Role) -> LaunchPairs:
    """Join launches two by two; those of which one is missing or has no time are left out."""
    launches = series.launches
    time, kind_of = launches.figures(series.session.declared.metric), launches.kind_of.__getitem__
    orders: dict[tuple[int, ...], int] = {}
    declared = series.session.declared
    # Processes that are alive at once leave nothing to one another: no arm carries over.
    arms = declared.arms if declared.groups is None else declared.arms[:1]
    joined = LaunchPairs(launches, arms, array(INDEX), array(INDEX), array(INDEX))
    joined.judged_by("groups" if declared.groups else "launches")
    for number, group in _groups(series, role):
        if len(group) < 2 or isnan(sum(map(time, group))):
            continue
        kinds = tuple(map(kind_of, group))
        if kinds not in orders:
            orders[kinds] = _reference(series, role, number, group)
        reference = orders[kinds]
        joined.numbers.append(number)
        joined.reference.append(group[reference])
        joined.candidate.append(group[1 - reference])
    return joined


def _reference(series: Series, role: Role, number: int, group: Sequence[int]) -> int:
    """Return which of two launches is the reference, 0 or 1; raises BenchDataError for no pair."""
    declared, launches = series.session.declared, series.launches
    reference, candidate = declared.sides.names
    inside = launches.at(group if launches[group[0]].position == 0 else group[::-1])
    first, second = inside[0], inside[1]
    alone = {"control": reference, "candidate_control": candidate}.get(role)
    arms_needed = {alone} if alone else {reference, candidate}
    fits = {first.arm, second.arm} == arms_needed and first.order == second.order is not None
    fits = fits and len(first.order or "") == len(group) == 2
    if not alone:
        fits = fits and (first.order == "nc") == (first.arm == reference)
    if not fits:
        raise BenchDataError(
            f"the launches of {role} {number} do not belong together",
            where=f"{series.path}:{second.line}",
            why=f"the arms are {first.arm} and {second.arm}, the orders {first.order} and "
            f"{second.order}",
        )
    if first.order == "cn":
        first = second
    return list(group).index(first.index)


def differences(metric: str, pairs: LaunchPairs, *, in_seconds: bool = False) -> Differences:
    """Return each pair's log-ratio of a metric, or its difference; none where a launch has none."""
    figures = pairs.figures(metric)
    if figures is None:
        return Differences((), (), ())
    ours, theirs = figures
    kinds, kind_of = pairs.launches.kinds, pairs.launches.kind_of
    orders: dict[tuple[int, ...], PairOrder] = {}
    ran = []
    for first, second in zip(pairs.reference, pairs.candidate, strict=True):
        # -1: the first launch of a session follows none.
        before = (kind_of[i - 1] if i else -1 for i in (first, second))
        key = (kind_of[first], kind_of[second], *before)
        if key not in orders:
            orders[key] = _ran(pairs.arms, *(kinds[k] if k >= 0 else None for k in key))
        ran.append(orders[key])
    couples = zip(ours, theirs, strict=True)
    d = (
        candidate - reference if in_seconds else log(candidate / reference)
        for reference, candidate in couples
    )
    return Differences(pairs.numbers, d, ran)


def _ran(
    arms: Sequence[ArmName],
    reference: LaunchKind | None,
    candidate: LaunchKind | None,
    before_reference: LaunchKind | None,
    before_candidate: LaunchKind | None,
) -> PairOrder:
    """Return the places of both, and which arm ran just before each."""
    if reference is None or candidate is None:
        raise ValueError("a pair of one launch")
    carry = tuple(_is_of(arm, before_candidate) - _is_of(arm, before_reference) for arm in arms[1:])
    return PairOrder((reference.position, candidate.position), carry)


def _is_of(arm: ArmName, kind: LaunchKind | None) -> int:
    return int(kind is not None and kind.arm == arm)


def figure(
    metric: str, role: Role, pairs: LaunchPairs, alpha: float, controls: Sequence[LaunchPairs] = ()
) -> PairFigure | None:
    """Return a metric over pairs; None where a launch has none, and without pairs."""
    fitted, figures = pairs.fit(metric, *controls), pairs.figures(metric)
    if fitted is None or figures is None:
        return None
    ours, theirs = (sum(values) / len(values) for values in figures)
    return PairFigure(
        metric=metric,
        role=role,
        fitted=fitted,
        interval=paired.interval(fitted, 1 - alpha),
        means=(ours, theirs),
    )


def controls_of(pairs: Mapping[Role, LaunchPairs]) -> tuple[LaunchPairs, ...]:
    """Return the series of one arm against itself, which tell place and carry-over."""
    return tuple(pairs[role] for role in CONTROLS if role in pairs)
