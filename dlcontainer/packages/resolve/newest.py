"""Versions that are old because only wheels are taken: said, or refused.

A package whose own newest version has a wheel is old for that reason too where what it needs has
none: a resolver then goes back to a version that did not need it, years ago.
"""

from collections.abc import Iterable, Mapping, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from dlcontainer.errors import MisfitError
from dlcontainer.packages.resolve import words
from dlcontainer.packages.resolve.asking import NoSolutionError, PackageResolver, Question
from dlcontainer.packages.resolve.wishes import Wish


def compare(
    wishes: Sequence[Wish],
    bounds: Iterable[Requirement],
    versions: Mapping[str, str],
    resolver: PackageResolver,
) -> list[str]:
    """Ask for the newest of each wish within its bounds, archives among them; return notes.

    Raises MisfitError where wheels, of the package or of what it needs, end a major or minor
    release before the archives do.
    """
    by_name = {canonicalize_name(wish.requirement.name): wish for wish in wishes}
    specifiers = {name: SpecifierSet() for name in by_name}
    for requirement in (*(wish.requirement for wish in wishes), *bounds):
        name = canonicalize_name(requirement.name)
        if name in specifiers:
            specifiers[name] &= requirement.specifier
    everything = resolver.newest([f"{n}{s}" for n, s in specifiers.items()], wheels=False)
    older = [name for name in by_name if _is_older(versions.get(name), everything.get(name))]
    if not older:
        return []
    wheels = resolver.newest([f"{name}{specifiers[name]}" for name in older], wheels=True)
    notes = []
    for name in older:
        newest, wheel = Version(everything[name]), wheels.get(name, versions[name])
        if not _is_older(wheel, str(newest)):
            notes.append(_of_needs(by_name[name], versions[name], newest, resolver))
        elif Version(wheel).release[:2] == newest.release[:2]:
            notes.append(f"{name} {versions[name]} is chosen: {newest} has no wheel")
        else:
            raise _ancient(by_name[name], wheel, str(newest))
    return notes


def _of_needs(wish: Wish, version: str, newest: Version, resolver: PackageResolver) -> str:
    """Say why a version whose newest has a wheel is older; raises MisfitError as `compare`."""
    name = canonicalize_name(wish.requirement.name)
    lacking = _needs_no_wheel(f"{name}=={newest}", resolver)
    if lacking is None:
        return f"{name} {version} is chosen, {newest} does not fit the rest"
    if Version(version).release[:2] == newest.release[:2]:
        return f"{name} {version} is chosen: {newest} needs {lacking}, which has no wheel"
    raise MisfitError(
        f"{name}: {newest} needs {lacking}, which has no wheel; {version} does not need it",
        where=wish.origin,
        why=f"{lacking} is a source archive alone, which would have to be compiled",
        next_step=f"{words.wheel_advice(lacking)}, or ask for the old one by name: "
        f"{name}=={version}",
    )


def _needs_no_wheel(requirement: str, resolver: PackageResolver) -> str | None:
    """Name what one version needs and no wheel has; None where it is free of such."""
    try:
        resolver.ask(Question(requirements=(requirement,)))
    except NoSolutionError as error:
        return words.without_wheel(error.text)
    return None


def _is_older(version: str | None, newest: str | None) -> bool:
    return version is not None and newest is not None and Version(version) < Version(newest)


def _ancient(wish: Wish, wheel: str, newest: str) -> MisfitError:
    name = wish.requirement.name
    return MisfitError(
        f"{name}: the newest wheel is {wheel}, the newest version {newest}",
        where=wish.origin,
        why=f"{newest} is a source archive alone, which would have to be compiled",
        next_step=f"{words.wheel_advice(f'{name}=={newest}')}, or ask for the old one by name: "
        f"{name}=={wheel}",
    )
