"""One variant's pins as a resolver is asked for newer ones: which stay, which may move."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.authoring import parent_pins
from dlcontainer.authoring.releases import IndexReader, ReleaseLedger
from dlcontainer.packages.resolve import stand_ins, target_rules, wish_rules
from dlcontainer.packages.resolve.asking import Question
from dlcontainer.packages.resolve.resolution import ParentPin
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.packages.resolve.wishes import Wish
from dlcontainer.planning.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class PartedPins:
    """The pins of a variant, by how they may move.

    A made-up wheel stands in for each of `firm`: builds of their own (`+cpu`) and other packages
    that no index here has, and what belongs to such builds. `held` stay as the recipe wants it. The
    others, `free`, may be newer; `builds` names the build that is meant of a pin with a local part.
    """

    firm: tuple[ParentPin, ...]
    held: tuple[ParentPin, ...]
    free: tuple[ParentPin, ...]
    builds: Mapping[str, str]

    @property
    def lines(self) -> Iterator[str]:
        """The requirements of a question for newer versions."""
        for pin in (*self.firm, *self.held):
            yield f"{name_of(pin)}=={version_of(pin)}"
        for pin in self.free:
            build = self.builds.get(name_of(pin))
            yield f"{name_of(pin)}=={build}" if build else f"{name_of(pin)}>={version_of(pin)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inquiry:
    """What one variant's pins are asked with: `held` has reasons, `caps` bound what may move."""

    every: tuple[ParentPin, ...]
    held: Mapping[str, str]
    newest: Mapping[str, str]
    # The newest build of each pin with a local part, where an index here has its own.
    builds: Mapping[str, str]
    # Where the build of a pin with a local part is looked for by hand.
    elsewhere: str
    caps: tuple[Wish, ...]
    reader: IndexReader

    @property
    def pinned_builds(self) -> dict[str, str]:
        """The pins with a local part that an index here has: their own needs are known."""
        return {
            name_of(pin): str(version_of(pin)) for pin in self.every if name_of(pin) in self.builds
        }

    @property
    def newest_builds(self) -> dict[str, str]:
        """The same, each in its newest build that may take its place."""
        return {
            name: pinned if name in self.held else self.builds[name]
            for name, pinned in self.pinned_builds.items()
        }

    def parted(self, builds: Mapping[str, str]) -> PartedPins:
        """Part the pins where these builds take the place of pins."""
        return parted(self.every, self.newest, self.held, builds)

    def question(self, lines: Sequence[str], pins: PartedPins) -> Question:
        """Ask for lines together, below the caps of what is free."""
        staying = {name_of(pin) for pin in (*pins.firm, *pins.held)}
        capped = [cap for cap in self.caps if canonicalize_name(cap.requirement.name) in staying]
        bounds = [_bound(cap) for cap in self.caps if cap not in capped]
        return replace(question_of(lines, pins, self.reader), constraints=tuple(bounds))


def inquiry_of(
    plan: Plan,
    pins: tuple[ParentPin, ...],
    newest: Mapping[str, str],
    reader: IndexReader,
    ledger: ReleaseLedger,
) -> Inquiry:
    """Return what a variant's pins are asked with; `newest` has the packages that an index has."""
    upstream = parent_pins.upstream_of(plan, [str(version_of(pin)) for pin in pins])
    url = str(plan.recipe.upstreams[upstream].url) if upstream else ""
    pinned = {name_of(pin): version_of(pin) for pin in pins}
    caps = target_rules.active(reader.asker.access.caps, reader.target)
    return Inquiry(
        every=pins,
        held={name: why for name in pinned if (why := plan.recipe.why_held(name))},
        newest=newest,
        builds=newest_builds_of(pins, reader, ledger),
        elsewhere="" if url in reader.asker.access.upstreams else url,
        # One that a pin is over already says nothing.
        caps=tuple(cap for cap in caps if _allows(cap, pinned)),
        reader=reader,
    )


def newest_builds_of(
    pins: Sequence[ParentPin], reader: IndexReader, ledger: ReleaseLedger
) -> dict[str, str]:
    """Return the newest build of each pin with a local part that an index here has."""
    return {
        name_of(pin): build
        for pin in pins
        if version_of(pin).local
        and (build := ledger.newest_build(name_of(pin), version_of(pin), reader)) is not None
    }


def _allows(cap: Wish, pinned: Mapping[str, Version]) -> bool:
    version = pinned.get(canonicalize_name(cap.requirement.name))
    return version is None or cap.requirement.specifier.contains(version, prereleases=True)


def parted(
    pins: Sequence[ParentPin],
    newest: Mapping[str, str],
    held: Mapping[str, str],
    builds: Mapping[str, str],
) -> PartedPins:
    """Part pins by how they may move; those of `builds` are meant in these builds."""
    # What belongs to a build whose needs are not known stays as it is.
    stays = any(version_of(pin).local and name_of(pin) not in builds for pin in pins)
    firm = [
        pin
        for pin in pins
        if (version_of(pin).local and name_of(pin) not in builds)
        or name_of(pin) not in newest
        or (stays and wish_rules.is_device_library(name_of(pin)))
    ]
    kept = [pin for pin in pins if pin not in firm and name_of(pin) in held]
    return PartedPins(
        # A made-up wheel stands in for each: the index that has it may be out of reach.
        firm=tuple(replace(pin, installed=True) for pin in firm),
        held=tuple(kept),
        free=tuple(pin for pin in pins if pin not in firm and pin not in kept),
        builds=builds,
    )


def question_of(lines: Sequence[str], pins: PartedPins, reader: IndexReader) -> Question:
    """Return the question for lines together; made-up wheels stand in for the firm pins."""
    folder = reader.asker.folder / "stand-ins"
    written = stand_ins.write(pins.firm, folder)
    return Question(
        requirements=tuple(lines),
        folders=(folder,) if written else (),
        prereleases=any(version_of(pin).is_prerelease for pin in (*pins.firm, *pins.free)),
    )


def _bound(cap: Wish) -> str:
    return f"{cap.requirement.name}{cap.requirement.specifier}"


def name_of(pin: ParentPin) -> str:
    """Return the canonical name of a pin's package."""
    return canonicalize_name(pin.requirement.name)
