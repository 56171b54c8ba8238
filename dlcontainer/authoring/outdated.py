"""How old a recipe's pins are: the newest release beside each, and the one that fits the rest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.authoring import parent_pins, pin_inquiry, releases
from dlcontainer.authoring.pin_ages import PinAge, VariantAge
from dlcontainer.authoring.pin_inquiry import Inquiry, PartedPins
from dlcontainer.authoring.releases import IndexReader, ReleaseLedger
from dlcontainer.errors import BuildError, MisfitError
from dlcontainer.packages.resolve import words
from dlcontainer.packages.resolve.asking import Answer, NoSolutionError, Question
from dlcontainer.packages.resolve.resolution import ParentPin
from dlcontainer.packages.resolve.resolve import Asker
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.planning import built_for
from dlcontainer.planning.plan import Plan


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
        newest = ledger.newest(sorted(map(pin_inquiry.name_of, pins)), reader)
        if not newest:
            return _unchecked(age, "no index answered", pins)
        return _aged(age, pin_inquiry.inquiry_of(plan, pins, newest, reader, ledger))
    except (BuildError, MisfitError) as error:
        return _unchecked(age, error.what, pins)


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
        newest = ledger.newest(sorted(map(pin_inquiry.name_of, pins)), reader)
        lines = {pin_inquiry.name_of(pin): str(version_of(pin)) for pin in pins} | dict(versions)
        builds = {name: lines[name] for name in pin_inquiry.newest_builds_of(pins, reader, ledger)}
        parted = pin_inquiry.parted(pins, newest, {}, builds)
        question = pin_inquiry.question_of(
            [f"{name}=={text}" for name, text in lines.items()], parted, reader
        )
        answer = reader.resolver.ask(question).versions
        lost = [f"{name}=={version}" for name, version in answer.items() if name not in lines]
        if lost:
            return f"no pin names {', '.join(lost)}"
        return _needs_of_firm(versions, parted, reader)
    except NoSolutionError as error:
        return " ".join(words.because(error.text))


def _aged(age: VariantAge, inquiry: Inquiry) -> VariantAge:
    pins, answer, why = _fitting(inquiry, inquiry.newest_builds)
    why_build = None
    if why is not None and inquiry.newest_builds != inquiry.pinned_builds:
        why_build = why
        pins, answer, why = _fitting(inquiry, inquiry.pinned_builds)
    ages = [_firm_age(pin, inquiry) for pin in pins.firm]
    ages += [_held_age(pin, inquiry) for pin in pins.held]
    for pin in pins.free:
        of_build = why_build if pin_inquiry.name_of(pin) in inquiry.builds else None
        ages.append(_free_age(pin, inquiry, answer.versions, why or of_build))
    needed = _needed(answer.versions, inquiry.every)
    return replace(
        age,
        pins=tuple(sorted(ages, key=lambda pin: pin.name)),
        needed=tuple(f"{name}=={version}" for name, version in needed.items()),
        needed_by={name: by for name in needed if (by := _needing(name, answer, inquiry.every))},
        unneeded=_unneeded(answer, pins, inquiry),
    )


def _fitting(inquiry: Inquiry, builds: Mapping[str, str]) -> tuple[PartedPins, Answer, str | None]:
    """Return how pins part, what fits together of them, and why nothing does."""
    pins = inquiry.parted(builds)
    try:
        answer = inquiry.reader.resolver.ask(inquiry.question([*pins.lines], pins))
        why = _needs_of_firm(answer.versions, pins, inquiry.reader)
    except NoSolutionError as error:
        fault = words.index_fault(error.text)
        why = fault.what if fault else " ".join(words.because(error.text))
    return (pins, answer, None) if why is None else (pins, Answer(versions={}), why)


def _needs_of_firm(
    versions: Mapping[str, str], pins: PartedPins, reader: IndexReader
) -> str | None:
    """Hold moved pins against the needs of those that a made-up wheel stands in for.

    Their public versions have the same needs; of one that no index has they are not known.
    """
    free = {pin_inquiry.name_of(pin) for pin in pins.free}
    bounds = tuple(f"{name}=={version}" for name, version in versions.items() if name in free)
    for pin in pins.firm:
        if not version_of(pin).local:
            continue
        public = f"{pin_inquiry.name_of(pin)}=={version_of(pin).public}"
        try:
            reader.resolver.ask(Question(requirements=(public,), constraints=bounds))
        except NoSolutionError as error:
            if words.unknown_name(error.text) is None and any(name in error.text for name in free):
                return " ".join(words.because(error.text))
    return None


def _firm_age(pin: ParentPin, inquiry: Inquiry) -> PinAge:
    name, version = pin_inquiry.name_of(pin), version_of(pin)
    public = inquiry.newest.get(name)
    if version.local is None and public is not None:
        why = "it belongs to the framework's build"
    elif public is None:
        why = "no index has it"
    else:
        return _uncompared(pin, inquiry)
    if public is not None and Version(public).public != version.public:
        why = f"{public} is out; {why}"
    return PinAge(name=name, origin=pin.origin, pinned=str(version), why=why)


def _uncompared(pin: ParentPin, inquiry: Inquiry) -> PinAge:
    """Say of a build that no index here tells of newer ones."""
    version, public = version_of(pin), inquiry.newest[pin_inquiry.name_of(pin)]
    why = f"builds +{version.local} are not compared: "
    if inquiry.elsewhere:
        why += f"look at {inquiry.elsewhere} (out of reach here), and write the version by hand"
    else:
        why += "no index here has this one"
    if Version(public).public != version.public:
        why = f"{public} is out; {why}"
    return PinAge(name=pin_inquiry.name_of(pin), origin=pin.origin, pinned=str(version), why=why)


def _held_age(pin: ParentPin, inquiry: Inquiry) -> PinAge:
    name, pinned = pin_inquiry.name_of(pin), str(version_of(pin))
    return PinAge(
        name=name,
        origin=pin.origin,
        pinned=pinned,
        newest=inquiry.newest.get(name),
        fitting=pinned,
        why=f"the recipe holds it: {inquiry.held[name]}",
    )


def _free_age(
    pin: ParentPin, inquiry: Inquiry, fitting: Mapping[str, str], why: str | None
) -> PinAge:
    name, pinned = pin_inquiry.name_of(pin), str(version_of(pin))
    # A pin may be newer than the index that answers.
    top = inquiry.builds.get(name) or inquiry.newest.get(name)
    takes = fitting.get(name, pinned if why and top else None)
    if inquiry.elsewhere and inquiry.builds.get(name) == pinned:
        return _uncompared(pin, inquiry)
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
    names = {pin_inquiry.name_of(pin) for pin in pins}
    return {name: version for name, version in versions.items() if name not in names}


def _needing(name: str, answer: Answer, pins: Sequence[ParentPin]) -> str | None:
    """Return the pin that needs a package, by whatever others."""
    pinned = {pin_inquiry.name_of(pin) for pin in pins}
    seen, todo = {name}, [name]
    while todo:
        for by in answer.needed_by.get(todo.pop(0), ()):
            if by in pinned:
                return by
            if by not in seen:
                seen.add(by)
                todo.append(by)
    return None


def _unneeded(answer: Answer, pins: PartedPins, inquiry: Inquiry) -> tuple[str, ...]:
    """List the pins that others needed in their pinned versions, and need no more.

    It takes a second question, and is a matter of a framework's releases.
    """
    moved = any(
        pin.strength == "hard"
        and answer.versions.get(pin_inquiry.name_of(pin)) != str(version_of(pin))
        for pin in pins.free
    )
    if not answer.needed_by or not moved:
        return ()
    exact = [f"{pin_inquiry.name_of(pin)}=={version_of(pin)}" for pin in inquiry.every]
    try:
        before = inquiry.reader.resolver.ask(
            pin_inquiry.question_of(exact, inquiry.parted({}), inquiry.reader)
        )
    except NoSolutionError:
        return ()
    names = sorted(pin_inquiry.name_of(pin) for pin in (*pins.free, *pins.held))
    return tuple(
        name for name in names if before.needed_by.get(name) and not answer.needed_by.get(name)
    )


def _unchecked(age: VariantAge, why: str, pins: Sequence[ParentPin] = ()) -> VariantAge:
    ages = tuple(
        PinAge(
            name=pin_inquiry.name_of(pin), origin=pin.origin, pinned=str(version_of(pin)), why=why
        )
        for pin in pins
    )
    return replace(age, pins=ages, why=why)
