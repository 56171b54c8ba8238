"""Resolving: wishes on top of a parent's pins -> the pins of an image. Nothing of them is run."""

import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlcontainer.errors import BuildError
from dlcontainer.packages.resolve import (
    ladder,
    newest,
    resolvers,
    stand_ins,
    target_rules,
    wish_rules,
)
from dlcontainer.packages.resolve.asking import Answer, PackageResolver, Question
from dlcontainer.packages.resolve.host_pip import HostPip
from dlcontainer.packages.resolve.index_access import IndexAccess
from dlcontainer.packages.resolve.resolution import Pin, Resolution, ResolveRequest, Target
from dlcontainer.packages.resolve.uv import Uv
from dlcontainer.packages.resolve.wishes import Wish
from dlcontainer.packages.resolve.words import Place
from dlcontainer.system.environ import proxies
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.process import Runner


@dataclass(frozen=True, kw_only=True, slots=True)
class Asker:
    """Who asks, here: `folder` is private and there, `cache` keeps what indexes told.

    `note` is told what goes on.
    """

    access: IndexAccess
    host: HostMachine
    runner: Runner
    folder: Path
    cache: Path
    note: Callable[[str], None]


def resolve(request: ResolveRequest, asker: Asker) -> Resolution:
    """Choose versions for a request's target: wheels alone, no pre-release that nobody names.

    Raises ConfigError for a wrong file, MisfitError for what is incompatible with the parent's
    pins or the target, or where no resolver answers for the target; BuildError where an index
    fails.
    """
    wishes, constraints, notes = _checked(request)
    notes += asker.access.notes
    if not wishes:
        return Resolution(pins=(), notes=tuple(notes))
    resolver = resolver_for(request.target, asker)
    asker.note(f"resolving with {resolver.title}")
    places = _places(request, wishes, constraints, asker.access.caps)
    folder = asker.folder / "stand-ins"
    written = stand_ins.write(request.pins, folder)
    question = Question(
        requirements=tuple(target_rules.bare(wish.requirement) for wish in wishes),
        constraints=tuple(_constraint(wish.requirement) for wish in constraints),
        folders=(folder,) if written else (),
        prereleases=any(map(_names_prerelease, [place.requirement for place in places])),
        exact_hashes=any(wish.hashes for wish in wishes),
    )
    caps = target_rules.active(asker.access.caps, request.target)
    climb = ladder.Climb(
        request=request,
        resolver=resolver,
        caps=tuple(cap.requirement for cap in caps),
        places=places,
        note=asker.note,
    )
    with proxies.naming_faults(asker.access.environment):
        reached = ladder.climb(question, climb)
        answer = reached.answer
        notes += answer.notes
        notes += _hash_notes(request, wishes, answer)
        pins = _pins(request, wishes, answer)
        asked_by = partial(_asked_by, wishes=wishes, answer=answer)
        notes += wish_rules.require_linked(pins, request.pins, asked_by, asker.access.notes)
        if request.wishes.is_locked and (note := wish_rules.unlisted(wishes, answer, request.pins)):
            notes.append(note)
        bounds = [wish.requirement for wish in (*constraints, *caps)]
        notes += _age_notes(request, wishes, bounds, answer, resolver)
    return Resolution(
        pins=pins, changes=reached.changes, resolver=resolver.title, notes=tuple(notes)
    )


def resolver_for(target: Target, asker: Asker) -> PackageResolver:
    """Return the resolver that answers for a target from here; raises MisfitError for none."""
    program = resolvers.find_uv(asker.host, asker.runner)
    if program is not None:
        return Uv(
            program=program.path,
            version=program.version,
            target=target,
            access=asker.access,
            host=asker.host,
            runner=asker.runner,
            folder=asker.folder,
            cache=asker.cache / "uv",
        )
    resolvers.require_pip_fits(target, asker.host)
    return HostPip(
        version=importlib.metadata.version("pip"),
        target=target,
        access=asker.access,
        host=asker.host,
        runner=asker.runner,
        folder=asker.folder,
    )


def _checked(request: ResolveRequest) -> tuple[tuple[Wish, ...], tuple[Wish, ...], list[str]]:
    """Refuse what needs no resolver; return the wishes and constraints that hold, and notes."""
    note = target_rules.require_python(request.wishes, request.target)
    notes = [note] if note else []
    wishes = target_rules.active(request.wishes.wishes, request.target)
    constraints = target_rules.active(request.wishes.constraints, request.target)
    if request.wishes.is_locked or wish_rules.is_frozen(wishes):
        kept = wish_rules.without_device_libraries(wishes, request.pins)
        if len(kept) < len(wishes):
            names = sorted(wish.requirement.name for wish in set(wishes) - set(kept))
            notes.append(
                f"left out {len(names)} device libraries of another build, the variant has its "
                f"own: {', '.join(names[:4])}{', …' if len(names) > 4 else ''}"
            )
        wishes = kept
    wish_rules.require_local_parts([*wishes, *constraints], request.pins)
    wish_rules.require_hard([*wishes, *constraints], request.pins)
    return wishes, constraints, notes


def _places(
    request: ResolveRequest,
    wishes: Iterable[Wish],
    constraints: Iterable[Wish],
    caps: Iterable[Wish],
) -> tuple[Place, ...]:
    texts = [
        Place(requirement=wish.requirement, origin=wish.origin)
        for wish in (*wishes, *constraints, *caps)
    ]
    pins = [
        Place(requirement=pin.requirement, origin=pin.origin, is_parents=True)
        for pin in request.pins
    ]
    return (*texts, *pins)


def _constraint(requirement: Requirement) -> str:
    # A constraint has no extras: they would ask for something.
    return f"{requirement.name}{requirement.specifier}"


def _names_prerelease(requirement: Requirement) -> bool:
    for specifier in requirement.specifier:
        try:
            if Version(specifier.version).is_prerelease:
                return True
        except InvalidVersion:
            continue  # a version with a star
    return False


def _hash_notes(request: ResolveRequest, wishes: Iterable[Wish], answer: Answer) -> list[str]:
    parents = {canonicalize_name(pin.requirement.name) for pin in request.pins}
    notes = []
    for wish in wishes:
        name = canonicalize_name(wish.requirement.name)
        if name not in parents:
            offered = answer.hashes.get(name, frozenset())
            note = wish_rules.require_hashes(wish, offered, request.target)
            notes += [note] if note else []
    return notes


def _pins(request: ResolveRequest, wishes: Iterable[Wish], answer: Answer) -> tuple[Pin, ...]:
    """Return the closure without the parent's pins that stay as they are."""
    staying: dict[str, Version] = {
        canonicalize_name(pin.requirement.name): stand_ins.version_of(pin) for pin in request.pins
    }
    places: dict[str, str] = {}
    for wish in wishes:
        places.setdefault(canonicalize_name(wish.requirement.name), wish.origin)
    return tuple(
        Pin(name=name, version=version, asked_at=places.get(name))
        for name, version in sorted(answer.versions.items())
        if staying.get(name) != Version(version)
    )


def _asked_by(name: str, wishes: Sequence[Wish], answer: Answer) -> tuple[str, str] | None:
    """Return the wish that needs a package, by whatever others, and where it stands."""
    origins: dict[str, str] = {
        canonicalize_name(wish.requirement.name): wish.origin for wish in wishes
    }
    seen, todo = {name}, [name]
    while todo:
        for by in answer.needed_by.get(todo.pop(0), ()):
            if by in origins:
                return by, origins[by]
            if by not in seen:
                seen.add(by)
                todo.append(by)
    return None


def _age_notes(
    request: ResolveRequest,
    wishes: Iterable[Wish],
    bounds: Iterable[Requirement],
    answer: Answer,
    resolver: PackageResolver,
) -> list[str]:
    if request.wishes.is_locked:
        return []
    parents = {canonicalize_name(pin.requirement.name) for pin in request.pins}
    fresh = [wish for wish in wishes if canonicalize_name(wish.requirement.name) not in parents]
    try:
        return newest.compare(fresh, bounds, answer.versions, resolver)
    except BuildError as error:
        # A resolution stands without it: an index may have no answer for archives.
        return [f"not compared with source archives: {error.what}"]
