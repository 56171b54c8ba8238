"""The same package on several lines: lines that say one thing become one, contradictions are named.

Only what can be told for sure is called a contradiction; the rest is the resolver's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from packaging.specifiers import Specifier
from packaging.version import InvalidVersion, Version

from dlcontainer.authoring.readers.faults import FaultList
from dlcontainer.authoring.readers.requirement_words import name_of
from dlcontainer.packages.resolve.wishes import Wish


class Bound(NamedTuple):
    """One end of a range, and the wish that sets it."""

    version: Version
    is_exclusive: bool
    wish: Wish


class PinnedWish(NamedTuple):
    """An exact version, and the wish that sets it."""

    version: Version
    wish: Wish


def merged(wishes: Iterable[Wish], faults: FaultList) -> list[Wish]:
    """Return the wishes, those that ask for the same thing once, at their first place."""
    first: dict[str, Wish] = {}
    for wish in wishes:
        key = f"{name_of(wish.requirement)} {_rest(wish)}"
        before = first.setdefault(key, wish)
        if before is wish or before.hashes == wish.hashes:
            continue
        common = before.hashes & wish.hashes
        if before.hashes and wish.hashes and not common:
            faults.add(wish.origin, f"{wish.requirement}: other hashes than at {before.origin}")
        first[key] = replace(before, hashes=common or before.hashes | wish.hashes)
    return list(first.values())


def _rest(wish: Wish) -> str:
    requirement = wish.requirement
    extras = ",".join(sorted(requirement.extras))
    return f"[{extras}]{requirement.specifier};{requirement.marker or ''}"


def refuse_contradictions(wishes: Iterable[Wish], faults: FaultList) -> None:
    """Note bounds of one package that no version meets.

    Lines of different markers are left alone: those may hold on different machines.
    """
    groups: dict[str, list[Wish]] = {}
    for wish in wishes:
        key = f"{name_of(wish.requirement)};{wish.requirement.marker or ''}"
        groups.setdefault(key, []).append(wish)
    for group in groups.values():
        _refuse_one(group, faults)


def _refuse_one(group: Sequence[Wish], faults: FaultList) -> None:
    pins = [pin for wish in group for pin in _pins(wish)]
    if pins:
        # A local part is the most exact: torch==2.13.0 holds for 2.13.0+cpu, not the reverse.
        pin = next((pin for pin in pins if pin.version.local), pins[0])
        for wish in group:
            if not _holds(wish, pin.version):
                _say(group, [wish, pin.wish], faults)
                return
        return
    lows = [low for wish in group for low in _lows(wish)]
    highs = [high for wish in group for high in _highs(wish)]
    if not lows or not highs:
        return
    low = max(lows, key=lambda bound: (bound.version, bound.is_exclusive))
    high = min(highs, key=lambda bound: (bound.version, not bound.is_exclusive))
    is_point = low.version == high.version
    if low.version > high.version or (is_point and (low.is_exclusive or high.is_exclusive)):
        _say(group, [high.wish, low.wish], faults)


def _say(group: Sequence[Wish], pair: Sequence[Wish], faults: FaultList) -> None:
    before, wish = sorted(pair, key=group.index)
    if wish is before:
        faults.add(wish.origin, f"no version meets '{wish.requirement}'", "correct the bounds")
        return
    faults.add(
        wish.origin,
        f"'{wish.requirement}' contradicts '{before.requirement}' at {before.origin}",
        "keep one of the two lines",
    )


def _holds(wish: Wish, version: Version) -> bool:
    specifiers = wish.requirement.specifier
    # What is not a version of PEP 440 (===) is left to the resolver.
    return any(_version(specifier) is None for specifier in specifiers) or specifiers.contains(
        version, prereleases=True
    )


def _pins(wish: Wish) -> list[PinnedWish]:
    versions = [
        _version(specifier)
        for specifier in wish.requirement.specifier
        if specifier.operator in ("==", "===") and not specifier.version.endswith(".*")
    ]
    return [PinnedWish(version=version, wish=wish) for version in versions if version is not None]


def _lows(wish: Wish) -> list[Bound]:
    return [
        Bound(version=version, is_exclusive=specifier.operator == ">", wish=wish)
        for specifier in wish.requirement.specifier
        if specifier.operator in (">", ">=", "~=") or _is_series(specifier)
        if (version := _version(specifier)) is not None
    ]


def _highs(wish: Wish) -> list[Bound]:
    highs = []
    for specifier in wish.requirement.specifier:
        version = _version(specifier)
        if version is None:
            continue
        if specifier.operator in ("<", "<="):
            highs.append(Bound(version, specifier.operator == "<", wish))
        elif specifier.operator == "~=" or _is_series(specifier):
            release = version.release if _is_series(specifier) else version.release[:-1]
            highs.append(Bound(_after(version, release), is_exclusive=True, wish=wish))
    return highs


def _after(version: Version, release: Sequence[int]) -> Version:
    """Return the end of a series: 1.5 after 1.4.*."""
    numbers = ".".join(map(str, (*release[:-1], release[-1] + 1)))
    return Version(f"{version.epoch}!{numbers}")


def _is_series(specifier: Specifier) -> bool:
    return specifier.operator == "==" and specifier.version.endswith(".*")


def _version(specifier: Specifier) -> Version | None:
    text = specifier.version.removesuffix(".*")
    try:
        # The first of a series: 1.4.* has 1.4.dev0 too.
        return Version(f"{text}.dev0" if _is_series(specifier) else text)
    except InvalidVersion:
        return None
