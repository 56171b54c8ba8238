"""Pins of one's own for several variants of a recipe: one list, and where a variant differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.authoring.site_plans import SitePlan
from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve.resolution import Resolution


@dataclass(frozen=True, kw_only=True, slots=True)
class SitePins:
    """The packages that were chosen for one site."""

    at: SitePlan
    resolution: Resolution

    @property
    def versions(self) -> dict[str, str]:
        """Versions by package."""
        return {pin.name: pin.version for pin in self.resolution.pins}


@dataclass(frozen=True, kw_only=True, slots=True)
class PinException:
    """Where a variant differs from the common list: pins, and names of packages without any."""

    replace: Mapping[str, str]
    add: Mapping[str, str]
    remove: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnPins:
    """The common list, and the exceptions by variant."""

    common: Mapping[str, str]
    exceptions: Mapping[str, PinException]


def gather(chosen: Sequence[SitePins]) -> OwnPins:
    """Make one list of what was chosen for several sites.

    Raises MisfitError where two sites need different packages and share a variant: a recipe can't
    tell them apart.
    """
    by_variant: dict[str | None, SitePins] = {}
    for pins in chosen:
        first = by_variant.setdefault(pins.at.variant, pins)
        if first.versions != pins.versions:
            raise _apart(first, pins)
    if None in by_variant and len(by_variant) > 1:
        raise ValueError("a recipe has variants at some sites only")
    common = _nearest([pins.versions for pins in by_variant.values()])
    exceptions = {
        variant: _difference(common, pins.versions)
        for variant, pins in by_variant.items()
        if variant is not None and pins.versions != common
    }
    return OwnPins(common=common, exceptions=exceptions)


def _nearest(lists: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the list that takes the fewest exceptions; of equals the longest, then the first.

    One old variant then has the exceptions, and not all others against it.
    """
    pairs = [set(versions.items()) for versions in lists]

    def cost(at: int) -> tuple[int, int]:
        apart = (len({name for name, _ in pairs[at] ^ other}) for other in pairs)
        return sum(apart), -len(pairs[at])

    return lists[min(range(len(lists)), key=cost)]


def _difference(common: Mapping[str, str], versions: Mapping[str, str]) -> PinException:
    return PinException(
        replace={
            name: version
            for name, version in versions.items()
            if name in common and common[name] != version
        },
        add={name: version for name, version in versions.items() if name not in common},
        remove=tuple(name for name in common if name not in versions),
    )


def _apart(first: SitePins, second: SitePins) -> MisfitError:
    names = first.versions.keys() | second.versions.keys()
    differing = sorted(n for n in names if first.versions.get(n) != second.versions.get(n))
    shown = ", ".join(
        f"{name} {first.versions.get(name, 'none')} and {second.versions.get(name, 'none')}"
        for name in differing[:3]
    )
    return MisfitError(
        f"sites {first.at.site} and {second.at.site} need different packages of one variant",
        why=f"{len(differing)} differ: {shown}",
        next_step="make a recipe for each of the two sites",
    )
