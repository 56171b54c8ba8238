"""How old a recipe's pins are: the newest release beside each, and the one that fits the rest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.authoring import parent_pins, releases
from dlcontainer.authoring.releases import IndexReader, ReleaseLedger
from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.resolve import stand_ins, target_rules, wish_rules, words
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.resolution import ParentPin, Target
from dlcontainer.packages.resolve.resolve import Asker
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.packages.resolve.wishes import Wish
from dlcontainer.planning import built_for
from dlcontainer.planning.plan import Plan

State = Literal["newest", "newer", "held back", "not checked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PinAge:
    """A pin and what is newer; None where nobody could tell.

    `newest` is the newest release with a wheel for the variant; `fitting` the newest that the
    resolver takes together with the other pins. `why` says what is not known, or what holds it.
    """

    name: str
    origin: str
    pinned: str
    newest: str | None = None
    fitting: str | None = None
    why: str | None = None

    @property
    def state(self) -> State:
        """Return how the pin stands."""
        if self.newest is None or self.fitting is None:
            return "not checked"
        if Version(self.fitting) > Version(self.pinned):
            return "newer"
        return "held back" if Version(self.newest) > Version(self.pinned) else "newest"


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantAge:
    """The pins of one variant. `why`: nothing of it was checked, and why.

    `needed` are packages that the fitting versions need and no pin names, `needed_by` the pin that
    needs each; `unneeded` are pins that no fitting version needs any more.
    """

    recipe: str
    variant: str | None
    site: str
    target: Target | None
    pins: tuple[PinAge, ...] = ()
    needed: tuple[str, ...] = ()
    needed_by: Mapping[str, str] = field(default_factory=dict)
    unneeded: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pins:
    """The pins of a variant, by how they may move.

    A made-up wheel stands in for each of `firm`: builds of their own (`+cpu`) with no newer one,
    what belongs to them, and what no index has. `held` stay as the recipe wants it. `builds` have
    the newer build of a pin. The others, `free`, may be newer.
    """

    firm: tuple[ParentPin, ...]
    held: tuple[ParentPin, ...]
    free: tuple[ParentPin, ...]
    builds: Mapping[str, str]

    @property
    def lines(self) -> Iterator[str]:
        """The requirements of a question for newer versions."""
        for pin in (*self.firm, *self.held):
            yield f"{_name(pin)}=={version_of(pin)}"
        for pin in self.free:
            build = self.builds.get(_name(pin))
            yield f"{_name(pin)}=={build}" if build else f"{_name(pin)}>={version_of(pin)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Inquiry:
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
    def newer_builds(self) -> dict[str, str]:
        """The builds that are newer than their pins, which may move."""
        pinned = {_name(pin): str(version_of(pin)) for pin in self.every}
        return {
            name: build
            for name, build in self.builds.items()
            if build != pinned[name] and name not in self.held
        }

    def parted(self, builds: Mapping[str, str]) -> _Pins:
        """Part the pins where these builds take the place of pins."""
        return _parted(self.every, self.newest, self.held, builds)

    def question(self, lines: Sequence[str], pins: _Pins) -> Question:
        """Ask for lines together, below the caps of what is free."""
        staying = {_name(pin) for pin in (*pins.firm, *pins.held)}
        capped = [cap for cap in self.caps if canonicalize_name(cap.requirement.name) in staying]
        bounds = [_bound(cap) for cap in self.caps if cap not in capped]
        return replace(_question(lines, pins, self.reader), constraints=tuple(bounds))


def age_of(plan: Plan, asker: Asker, ledger: ReleaseLedger) -> VariantAge:
    """Ask for newer releases of a variant's pins; what no index tells is said to be so."""
    variant = plan.choice.name if plan.choice else None
    target, pins = parent_pins.target_of(plan), parent_pins.pins_of(plan)
    site = built_for.named(plan.site)
    age = VariantAge(recipe=plan.recipe.name, variant=variant, site=site, target=target)
    unseen = "it pins no Python packages" if not pins else parent_pins.unseen(plan)
    if unseen is not None or target is None:
        return _unchecked(age, unseen or "")
    try:
        reader = releases.reader_of(target, asker)
        newest = ledger.newest(sorted(map(_name, pins)), reader)
        if not newest:
            return _unchecked(age, "no index answered", pins)
        return _aged(age, _inquiry(plan, pins, newest, reader, ledger))
    except (BuildError, MisfitError) as error:
        return _unchecked(age, error.what, pins)


def _inquiry(
    plan: Plan,
    pins: tuple[ParentPin, ...],
    newest: Mapping[str, str],
    reader: IndexReader,
    ledger: ReleaseLedger,
) -> _Inquiry:
    builds = {
        _name(pin): build
        for pin in pins
        if version_of(pin).local
        and (build := ledger.newest_build(_name(pin), version_of(pin), reader)) is not None
    }
    upstream = parent_pins.upstream_of(plan, [str(version_of(pin)) for pin in pins])
    url = str(plan.recipe.upstreams[upstream].url) if upstream else ""
    pinned = {_name(pin): version_of(pin) for pin in pins}
    caps = target_rules.active(reader.asker.access.caps, reader.target)
    return _Inquiry(
        every=pins,
        held={name: why for name in pinned if (why := plan.recipe.why_held(name))},
        newest=newest,
        builds=builds,
        elsewhere="" if url in reader.asker.access.upstreams else url,
        # One that a pin is over already says nothing.
        caps=tuple(cap for cap in caps if _allows(cap, pinned)),
        reader=reader,
    )


def _allows(cap: Wish, pinned: Mapping[str, Version]) -> bool:
    version = pinned.get(canonicalize_name(cap.requirement.name))
    return version is None or cap.requirement.specifier.contains(version, prereleases=True)


def resolves(
    plan: Plan, versions: Mapping[str, str], asker: Asker, ledger: ReleaseLedger
) -> str | None:
    """Return why a variant's pins do not fit together in these versions; None where they do.

    A package that no pin names is one that the new versions need.
    """
    target, pins = parent_pins.target_of(plan), parent_pins.pins_of(plan)
    if target is None:
        return "Python and C library of its base are not known"
    try:
        reader = releases.reader_of(target, asker)
        newest = ledger.newest(sorted(map(_name, pins)), reader)
        builds = {name: text for name, text in versions.items() if Version(text).local}
        parted = _parted(pins, newest, {}, builds)
        lines = {_name(pin): str(version_of(pin)) for pin in pins} | dict(versions)
        question = _question([f"{name}=={text}" for name, text in lines.items()], parted, reader)
        answer = reader.resolver.ask(question).versions
        lost = [f"{name}=={version}" for name, version in answer.items() if name not in lines]
        if lost:
            return f"no pin names {', '.join(lost)}"
        return _needs_of_firm(versions, parted, reader)
    except NoSolutionError as error:
        return " ".join(words.because(error.text))


def _parted(
    pins: Sequence[ParentPin],
    newest: Mapping[str, str],
    held: Mapping[str, str],
    builds: Mapping[str, str],
) -> _Pins:
    # Without a newer build, what belongs to a build stays as it is.
    stays = any(version_of(pin).local for pin in pins) and not builds
    firm = [
        pin
        for pin in pins
        if (version_of(pin).local and _name(pin) not in builds)
        or _name(pin) not in newest
        or (stays and wish_rules.is_device_library(_name(pin)))
    ]
    kept = [pin for pin in pins if pin not in firm and _name(pin) in held]
    return _Pins(
        # A made-up wheel stands in for each: the index that has it may be out of reach.
        firm=tuple(replace(pin, installed=True) for pin in firm),
        held=tuple(kept),
        free=tuple(pin for pin in pins if pin not in firm and pin not in kept),
        builds=builds,
    )


def _aged(age: VariantAge, inquiry: _Inquiry) -> VariantAge:
    pins, answer, why = _fitting(inquiry, inquiry.newer_builds)
    held_builds: Mapping[str, str] = {}
    if why is not None and inquiry.newer_builds:
        held_builds = dict.fromkeys(inquiry.newer_builds, why)
        pins, answer, why = _fitting(inquiry, {})
    ages = [_firm_age(pin, inquiry, held_builds) for pin in pins.firm]
    ages += [_held_age(pin, inquiry) for pin in pins.held]
    ages += [_free_age(pin, inquiry, answer.versions, why) for pin in pins.free]
    needed = _needed(answer.versions, inquiry.every)
    return replace(
        age,
        pins=tuple(sorted(ages, key=lambda pin: pin.name)),
        needed=tuple(f"{name}=={version}" for name, version in needed.items()),
        needed_by={name: by for name in needed if (by := _needing(name, answer, inquiry.every))},
        unneeded=_unneeded(answer, pins, inquiry),
    )


def _fitting(inquiry: _Inquiry, builds: Mapping[str, str]) -> tuple[_Pins, Answer, str | None]:
    """Return how pins part, what fits together of them, and why nothing does."""
    pins = inquiry.parted(builds)
    try:
        answer = inquiry.reader.resolver.ask(inquiry.question([*pins.lines], pins))
        why = _needs_of_firm(answer.versions, pins, inquiry.reader)
    except NoSolutionError as error:
        fault = words.index_fault(error.text)
        why = fault.what if fault else " ".join(words.because(error.text))
    return (pins, answer, None) if why is None else (pins, Answer(versions={}), why)


def _question(lines: Sequence[str], pins: _Pins, reader: IndexReader) -> Question:
    folder = reader.asker.folder / "stand-ins"
    written = stand_ins.write(pins.firm, folder)
    return Question(
        requirements=tuple(lines),
        folders=(folder,) if written else (),
        prereleases=any(version_of(pin).is_prerelease for pin in (*pins.firm, *pins.free)),
    )


def _bound(cap: Wish) -> str:
    return f"{cap.requirement.name}{cap.requirement.specifier}"


def _needs_of_firm(versions: Mapping[str, str], pins: _Pins, reader: IndexReader) -> str | None:
    """Hold moved pins against the needs of those that a made-up wheel stands in for.

    Their public versions have the same needs; of one that no index has they are not known.
    """
    free = {_name(pin) for pin in pins.free}
    bounds = tuple(f"{name}=={version}" for name, version in versions.items() if name in free)
    for pin in pins.firm:
        if not version_of(pin).local:
            continue
        public = f"{_name(pin)}=={version_of(pin).public}"
        try:
            reader.resolver.ask(Question(requirements=(public,), constraints=bounds))
        except NoSolutionError as error:
            if words.unknown_name(error.text) is None and any(name in error.text for name in free):
                return " ".join(words.because(error.text))
    return None


def _firm_age(pin: ParentPin, inquiry: _Inquiry, held_builds: Mapping[str, str]) -> PinAge:
    name, version = _name(pin), version_of(pin)
    age = PinAge(name=name, origin=pin.origin, pinned=str(version))
    build, public = inquiry.builds.get(name), inquiry.newest.get(name)
    if build is not None and (build != str(version) or not inquiry.elsewhere):
        why = inquiry.held.get(name) or held_builds.get(name)
        return replace(age, newest=build, fitting=str(version), why=why)
    if version.local is None and public is not None:
        why = "it belongs to the framework's build"
    elif public is None:
        why = "no index has it"
    elif inquiry.elsewhere:
        why = f"builds +{version.local} are not compared: look at {inquiry.elsewhere}"
        why += " (out of reach here), and write the version by hand"
    else:
        why = f"builds +{version.local} are not compared: no index here has this one"
    if public is not None and Version(public).public != version.public:
        why = f"{public} is out; {why}"
    return replace(age, why=why)


def _held_age(pin: ParentPin, inquiry: _Inquiry) -> PinAge:
    name, pinned = _name(pin), str(version_of(pin))
    return PinAge(
        name=name,
        origin=pin.origin,
        pinned=pinned,
        newest=inquiry.newest.get(name),
        fitting=pinned,
        why=f"the recipe holds it: {inquiry.held[name]}",
    )


def _free_age(
    pin: ParentPin, inquiry: _Inquiry, fitting: Mapping[str, str], why: str | None
) -> PinAge:
    name, pinned = _name(pin), str(version_of(pin))
    # A pin may be newer than the index that answers.
    top = inquiry.builds.get(name) or inquiry.newest.get(name)
    takes = fitting.get(name, pinned if why and top else None)
    is_held = top and takes and Version(top) > Version(takes)
    constraint = "another pin, or what needs it, asks for an older one"
    for cap in inquiry.caps:
        named = canonicalize_name(cap.requirement.name) == name
        if named and top and top not in cap.requirement.specifier:
            constraint = f"{cap.origin} allows {cap.requirement} alone"
    return PinAge(
        name=name,
        origin=pin.origin,
        pinned=pinned,
        newest=top,
        fitting=takes,
        why=(why or constraint) if is_held else (None if top else "no index has it"),
    )


def _needed(versions: Mapping[str, str], pins: Sequence[ParentPin]) -> dict[str, str]:
    names = {_name(pin) for pin in pins}
    return {name: version for name, version in versions.items() if name not in names}


def _needing(name: str, answer: Answer, pins: Sequence[ParentPin]) -> str | None:
    """Return the pin that needs a package, by whatever others."""
    pinned = {_name(pin) for pin in pins}
    seen, todo = {name}, [name]
    while todo:
        for by in answer.needed_by.get(todo.pop(0), ()):
            if by in pinned:
                return by
            if by not in seen:
                seen.add(by)
                todo.append(by)
    return None


def _unneeded(answer: Answer, pins: _Pins, inquiry: _Inquiry) -> tuple[str, ...]:
    """List the pins that others needed in their pinned versions, and need no more.

    It takes a second question, and is a matter of a framework's releases.
    """
    moved = any(
        pin.strength == "hard" and answer.versions.get(_name(pin)) != str(version_of(pin))
        for pin in pins.free
    )
    if not answer.needed_by or not moved:
        return ()
    exact = [f"{_name(pin)}=={version_of(pin)}" for pin in inquiry.every]
    try:
        before = inquiry.reader.resolver.ask(_question(exact, inquiry.parted({}), inquiry.reader))
    except NoSolutionError:
        return ()
    names = sorted(_name(pin) for pin in (*pins.free, *pins.held))
    return tuple(
        name for name in names if before.needed_by.get(name) and not answer.needed_by.get(name)
    )


def _unchecked(age: VariantAge, why: str, pins: Sequence[ParentPin] = ()) -> VariantAge:
    ages = tuple(
        PinAge(name=_name(pin), origin=pin.origin, pinned=str(version_of(pin)), why=why)
        for pin in pins
    )
    return replace(age, pins=ages, why=why)


def _name(pin: ParentPin) -> str:
    return canonicalize_name(pin.requirement.name)
