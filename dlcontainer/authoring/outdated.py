"""How old a recipe's pins are: the newest release beside each, and the one that fits the rest."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.authoring import parent_pins
from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.resolve import resolve, stand_ins, wish_rules, words
from dlcontainer.packages.resolve.asking import NoSolutionError, PackageResolver, Question
from dlcontainer.packages.resolve.resolution import ParentPin, Target
from dlcontainer.packages.resolve.resolve import Asker
from dlcontainer.packages.resolve.stand_ins import version_of
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

    `needed` are packages that the fitting versions need and no pin names.
    """

    recipe: str
    variant: str | None
    site: str
    target: Target | None
    pins: tuple[PinAge, ...] = ()
    needed: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pins:
    """The pins of a variant: those of a build of its own (`+cpu`) keep theirs, the others move."""

    firm: tuple[ParentPin, ...]
    free: tuple[ParentPin, ...]


def age_of(plan: Plan, asker: Asker) -> VariantAge:
    """Ask for newer releases of a variant's pins; what no index tells is said to be so."""
    variant = plan.choice.name if plan.choice else None
    target, pins = parent_pins.target_of(plan), parent_pins.pins_of(plan)
    site = built_for.named(plan.site)
    age = VariantAge(recipe=plan.recipe.name, variant=variant, site=site, target=target)
    unseen = "it pins no Python packages" if not pins else parent_pins.unseen(plan)
    if unseen is not None or target is None:
        return _unchecked(age, unseen or "")
    try:
        resolver = resolve.resolver_for(target, asker)
        return _asked(age, pins, resolver, asker)
    except (BuildError, MisfitError) as error:
        return _unchecked(age, error.what, pins)


def resolves(plan: Plan, versions: Mapping[str, str], asker: Asker) -> str | None:
    """Return why a variant's pins do not fit together in these versions; None where they do."""
    target, pins = parent_pins.target_of(plan), parent_pins.pins_of(plan)
    if target is None:
        return "Python and C library of its base are not known"
    try:
        resolver = resolve.resolver_for(target, asker)
        indexed = _newest([_name(pin) for pin in pins], resolver)
        return _misfit(
            pins, versions, _parted(pins, {*map(_name, pins)} - {*indexed}), resolver, asker
        )
    except NoSolutionError as error:
        return " ".join(words.because(error.text))


def _misfit(
    pins: Sequence[ParentPin],
    versions: Mapping[str, str],
    parted: _Pins,
    resolver: PackageResolver,
    asker: Asker,
) -> str | None:
    lines = [f"{_name(pin)}=={versions.get(_name(pin), version_of(pin))}" for pin in pins]
    lost = _needed(resolver.ask(_question(lines, parted, asker)).versions, pins)
    if lost:
        return f"no pin names {', '.join(lost)}"
    return _needs_of_firm(versions, parted, resolver)


def _parted(pins: Sequence[ParentPin], unknown: Collection[str] = ()) -> _Pins:
    """Part the pins; `unknown` names packages that no index has."""
    has_local = any(version_of(pin).local for pin in pins)
    firm = [
        pin
        for pin in pins
        if version_of(pin).local
        or _name(pin) in unknown
        or (has_local and wish_rules.is_device_library(_name(pin)))
    ]
    return _Pins(
        # A made-up wheel stands in for each: the index that has it may be out of reach.
        firm=tuple(replace(pin, installed=True) for pin in firm),
        free=tuple(pin for pin in pins if pin not in firm),
    )


def _asked(
    age: VariantAge, every: Sequence[ParentPin], resolver: PackageResolver, asker: Asker
) -> VariantAge:
    names = {_name(pin) for pin in every}
    newest = _newest(sorted(names), resolver)
    if not newest:
        return _unchecked(age, "no index answered", every)
    pins = _parted(every, names - {*newest})
    exact = [f"{_name(pin)}=={version_of(pin)}" for pin in pins.firm]
    bounds = [f"{_name(pin)}>={version_of(pin)}" for pin in pins.free]
    fitting: Mapping[str, str] = {}
    why = None
    try:
        fitting = resolver.ask(_question([*exact, *bounds], pins, asker)).versions
        why = _needs_of_firm(fitting, pins, resolver)
    except NoSolutionError as error:
        fault = words.index_fault(error.text)
        why = fault.what if fault else " ".join(words.because(error.text))
    if why is not None:
        fitting = {}
    ages = [_firm_age(pin, newest, asker) for pin in pins.firm]
    ages += [_free_age(pin, newest, fitting, why) for pin in pins.free]
    return replace(
        age,
        pins=tuple(sorted(ages, key=lambda pin: pin.name)),
        needed=_needed(fitting, every),
    )


def _question(lines: Sequence[str], pins: _Pins, asker: Asker) -> Question:
    folder = asker.folder / "stand-ins"
    written = stand_ins.write(pins.firm, folder)
    return Question(
        requirements=tuple(lines),
        folders=(folder,) if written else (),
        prereleases=any(version_of(pin).is_prerelease for pin in (*pins.firm, *pins.free)),
    )


def _newest(names: Sequence[str], resolver: PackageResolver) -> dict[str, str]:
    """Return the newest wheel of each; where one is on no index, the others all the same.

    Raises BuildError where an index does not answer.
    """
    together = dict(resolver.newest(names, wheels=True))
    if together:
        return together
    try:
        resolver.ask(Question(requirements=(names[0],)))
    except NoSolutionError as error:
        fault = words.index_fault(error.text)
        if fault is not None:
            raise fault from None
    for name in names:
        together |= resolver.newest([name], wheels=True)
    return together


def _needs_of_firm(
    versions: Mapping[str, str], pins: _Pins, resolver: PackageResolver
) -> str | None:
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
            resolver.ask(Question(requirements=(public,), constraints=bounds))
        except NoSolutionError as error:
            if words.unknown_name(error.text) is None and any(name in error.text for name in free):
                return " ".join(words.because(error.text))
    return None


def _firm_age(pin: ParentPin, newest: Mapping[str, str], asker: Asker) -> PinAge:
    name, version = _name(pin), version_of(pin)
    public = newest.get(name)
    if version.local is None and public is not None:
        why = "it belongs to the framework's build"
    elif public is None:
        why = "no index has it"
    elif asker.access.upstreams:
        why = f"a build +{version.local} moves with all that it needs: write it by hand"
    else:
        why = f"builds +{version.local} are on the framework's own index alone, out of reach"
    if public is not None and Version(public).public != version.public:
        why = f"{public} is out; {why}"
    return PinAge(name=name, origin=pin.origin, pinned=str(version), newest=None, why=why)


def _free_age(
    pin: ParentPin, newest: Mapping[str, str], fitting: Mapping[str, str], why: str | None
) -> PinAge:
    name, pinned = _name(pin), str(version_of(pin))
    # A pin may be newer than the index that answers.
    top = newest.get(name)
    constraint = "another pin, or what needs it, asks for an older one"
    takes = fitting.get(name, pinned if why and top else None)
    is_held = top and takes and Version(top) > Version(takes)
    return PinAge(
        name=name,
        origin=pin.origin,
        pinned=pinned,
        newest=top,
        fitting=takes,
        why=(why or constraint) if is_held else (None if top else "no index has it"),
    )


def _needed(versions: Mapping[str, str], pins: Sequence[ParentPin]) -> tuple[str, ...]:
    names = {_name(pin) for pin in pins}
    return tuple(f"{name}=={version}" for name, version in versions.items() if name not in names)


def _unchecked(age: VariantAge, why: str, pins: Sequence[ParentPin] = ()) -> VariantAge:
    ages = tuple(
        PinAge(name=_name(pin), origin=pin.origin, pinned=str(version_of(pin)), why=why)
        for pin in pins
    )
    return replace(age, pins=ages, why=why)


def _name(pin: ParentPin) -> str:
    return canonicalize_name(pin.requirement.name)
