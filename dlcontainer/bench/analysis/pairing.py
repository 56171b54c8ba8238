"""From launches to pairs, and from pairs to the figures of a metric. Pure."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isnan, log
from typing import overload

from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.launch_table import INDEX, Kind, Launch, Launches
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName, ArmPair
from dlcontainer.bench.stats import paired, regression
from dlcontainer.bench.stats.differences import Differences, Ran
from dlcontainer.bench.stats.neighbours import Rule
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.stats.regression import Fit
from dlcontainer.errors import BenchDataError

CONTROLS: tuple[Role, ...] = ("control", "candidate_control")
ROLES: tuple[Role, ...] = ("pair", "joiner", *CONTROLS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two launches back to back, the reference's first here whatever the order was."""

    number: int
    reference: Launch
    candidate: Launch


class Pairs(Sequence[Pair]):
    """Pairs in the order of their numbers, as the indices of their launches.

    `arms` are the reference and all that may leave something to the launch after them, `rule` how
    neighbours are taken to resemble each other.
    """

    def __init__(
        self,
        launches: Launches,
        arms: Sequence[ArmName],
        numbers: "array[int]",
        reference: "array[int]",
        candidate: "array[int]",
    ) -> None:
        self.launches, self.arms, self.numbers = launches, tuple(arms), numbers
        self.reference, self.candidate = reference, candidate
        self.rule: Rule = "launches"
        self._fits: dict[tuple[str | int, ...], Fit | None] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> "Pairs": ...
    def __getitem__(self, index: int | slice) -> "Pair | Pairs":
        if isinstance(index, slice):
            parts = (self.numbers[index], self.reference[index], self.candidate[index])
            return Pairs(self.launches, self.arms, *parts).judged_by(self.rule)
        return Pair(
            number=self.numbers[index],
            reference=Launch(self.launches, self.reference[index]),
            candidate=Launch(self.launches, self.candidate[index]),
        )

    def judged_by(self, rule: Rule) -> "Pairs":
        """Settle how neighbours are taken to resemble each other; give the same pairs."""
        self.rule = rule
        return self

    def until(self, number: int) -> "Pairs":
        """Give the pairs up to this number."""
        count = bisect_right(self.numbers, number)
        return self if count == len(self) else self[:count]

    def figures(self, metric: str) -> tuple["array[float]", "array[float]"] | None:
        """Give a metric of all references and of all candidates; None where a launch has none."""
        ours = self.launches.column(metric, self.reference)
        theirs = self.launches.column(metric, self.candidate)
        # A sum is not a number only where one of these is not: they are positive.
        lacking = isnan(sum(ours)) or isnan(sum(theirs))
        return None if lacking or not ours else (ours, theirs)

    def fit(self, metric: str, *controls: "Pairs") -> Fit | None:
        """Fit a metric's model, once; None where a launch has none, and without pairs.

        `controls` are the first so many of each series that belongs to these pairs.
        """
        key: tuple[str | int, ...] = (metric, *map(len, controls))
        if key not in self._fits:
            known = differences(metric, self)
            beside = (differences(metric, one) for one in controls)
            self._fits[key] = regression.fit(known, *beside, rule=self.rule) if known else None
        return self._fits[key]

    def lines(self) -> Iterator[int]:
        """Give the lines of all launches."""
        for indices in (self.reference, self.candidate):
            yield from map(self.launches.lines.__getitem__, indices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Triples:
    """Whole triples in the order of their numbers: each arm's launches by their indices."""

    launches: Launches
    numbers: "array[int]"
    arms: Mapping[ArmName, "array[int]"]

    def pairs(self, sides: ArmPair) -> Pairs:
        """Give the pairs that they hold of two arms."""
        reference, candidate = (self.arms[name] for name in sides.names)
        return Pairs(self.launches, tuple(self.arms), self.numbers, reference, candidate)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One quantity over one kind of pairs; `interval` is two-sided, with no verdict of its own."""

    metric: str
    role: Role
    fitted: Fit
    interval: Interval
    means: tuple[float, float]


def of(series: Series) -> dict[Role, Pairs]:
    """Give the whole pairs of each kind; raises BenchDataError for launches that are no pair.

    Of triples these are the pairs of reference and candidate.
    """
    found = {role: _pairs(series, role) for role in ROLES}
    if series.session.declared.is_triple:
        found["pair"] = triples(series).pairs(series.session.declared.sides)
    return found


def _groups(series: Series, role: Role) -> Iterator[tuple[int, list[int]]]:
    """Give the launches of each pair or triple by their indices, in the order of its numbers."""
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
                f"{role} {pair} has two launches at one position",
                where=f"{series.path}:{launches.lines[group[-1]]}",
            )
        checked.add(kinds)
        yield pair, group


def triples(series: Series) -> Triples:
    """Give the whole triples; raises BenchDataError for launches that are none."""
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
                    why=f"{kind.arm} at place {kind.position + 1} of the order {order}",
                )
        if len(group) == 3 and not any(isnan(time(i)) for i in group):
            numbers.append(number)
            for index, kind in zip(group, kinds, strict=True):
                arms[kind.arm].append(index)
    return Triples(launches=launches, numbers=numbers, arms=arms)


def _pairs(series: Series, role: Role) -> Pairs:
    """Join launches two by two; those of which one is missing or has no time are left out."""
    launches = series.launches
    time, kind_of = launches.figures(series.session.declared.metric), launches.kind_of.__getitem__
    orders: dict[tuple[int, ...], int] = {}
    declared = series.session.declared
    # Processes that are alive at once leave nothing to one another: no arm carries over.
    arms = declared.arms if declared.groups is None else declared.arms[:1]
    found = Pairs(launches, arms, array(INDEX), array(INDEX), array(INDEX))
    found.judged_by("groups" if declared.is_balanced else "launches")
    for number, group in _groups(series, role):
        if len(group) < 2 or isnan(sum(map(time, group))):
            continue
        kinds = tuple(map(kind_of, group))
        if kinds not in orders:
            orders[kinds] = _reference(series, role, number, group)
        reference = orders[kinds]
        found.numbers.append(number)
        found.reference.append(group[reference])
        found.candidate.append(group[1 - reference])
    return found


def _reference(series: Series, role: Role, number: int, group: Sequence[int]) -> int:
    """Tell which of two launches is the reference, 0 or 1; raises BenchDataError for no pair."""
    declared, launches = series.session.declared, series.launches
    reference, candidate = declared.sides.names
    inside = launches.at(group if launches[group[0]].position == 0 else group[::-1])
    first, second = inside[0], inside[1]
    alone = {"control": reference, "candidate_control": candidate}.get(role)
    wanted = {alone} if alone else {reference, candidate}
    fits = {first.arm, second.arm} == wanted and first.order == second.order is not None
    fits = fits and len(first.order or "") == len(group) == 2
    if not alone:
        fits = fits and (first.order == "nc") == (first.arm == reference)
    if not fits:
        raise BenchDataError(
            f"the launches of {role} {number} do not belong together",
            where=f"{series.path}:{second.line}",
            why=f"{first.arm} and {second.arm}, orders {first.order} and {second.order}",
        )
    if first.order == "cn":
        first = second
    return list(group).index(first.index)


def differences(metric: str, pairs: Pairs, *, in_seconds: bool = False) -> Differences:
    """Give each pair's log-ratio of a metric, or its difference; none where a launch has none."""
    figures = pairs.figures(metric)
    if figures is None:
        return Differences((), (), ())
    ours, theirs = figures
    kinds, kind_of = pairs.launches.kinds, pairs.launches.kind_of
    known: dict[tuple[int, ...], Ran] = {}
    ran = []
    for one, other in zip(pairs.reference, pairs.candidate, strict=True):
        # -1: the first launch of a session follows none.
        before = (kind_of[i - 1] if i else -1 for i in (one, other))
        key = (kind_of[one], kind_of[other], *before)
        if key not in known:
            known[key] = _ran(pairs.arms, *(kinds[k] if k >= 0 else None for k in key))
        ran.append(known[key])
    both = zip(ours, theirs, strict=True)
    d = (other - one if in_seconds else log(other / one) for one, other in both)
    return Differences(pairs.numbers, d, ran)


def _ran(
    arms: Sequence[ArmName],
    reference: Kind | None,
    candidate: Kind | None,
    before_reference: Kind | None,
    before_candidate: Kind | None,
) -> Ran:
    """Tell the places of both, and which arm ran just before each."""
    if reference is None or candidate is None:
        raise ValueError("a pair of one launch")
    carry = tuple(_is_of(arm, before_candidate) - _is_of(arm, before_reference) for arm in arms[1:])
    return Ran((reference.position, candidate.position), carry)


def _is_of(arm: ArmName, kind: Kind | None) -> int:
    return int(kind is not None and kind.arm == arm)


def figure(
    metric: str, role: Role, pairs: Pairs, alpha: float, controls: Sequence[Pairs] = ()
) -> Figure | None:
    """Give a metric over pairs; None where a launch has none, and without pairs."""
    fitted, figures = pairs.fit(metric, *controls), pairs.figures(metric)
    if fitted is None or figures is None:
        return None
    ours, theirs = (sum(values) / len(values) for values in figures)
    return Figure(
        metric=metric,
        role=role,
        fitted=fitted,
        interval=paired.interval(fitted, 1 - alpha),
        means=(ours, theirs),
    )


def controls_of(pairs: Mapping[Role, Pairs]) -> tuple[Pairs, ...]:
    """Give the series of one arm against itself, which tell place and carry-over."""
    return tuple(pairs[role] for role in CONTROLS if role in pairs)
