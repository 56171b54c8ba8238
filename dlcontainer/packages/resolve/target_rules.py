"""What a target says of wishes: its platform's name, its markers, its Python."""

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.packages.resolve.resolution import Target
from dlcontainer.packages.resolve.wishes import Wish, WishList

# The C libraries (2.N) that uv has a platform for; it refuses all others.
# Source: `uv pip compile --python-platform` of uv 0.13.9; those of ppc64le it takes unlisted.
_GLIBCS: Mapping[str, tuple[int, ...]] = {
    "x86_64": (17, 28, *range(31, 41)),
    "aarch64": (17, 28, *range(31, 41)),
    "ppc64le": (28, 39),
}
# Patch releases of a Python that a bound may name; none ever had as many.
_PATCHES = range(60)


def platform_of(target: Target) -> str:
    """Return uv's name of a target: the newest C library that is not above the base's.

    Raises MisfitError for a base older than any of them.
    """
    minor = int(target.glibc.split(".")[1])
    minors = [number for number in _GLIBCS.get(target.arch, ()) if number <= minor]
    if not target.glibc.startswith("2.") or not minors:
        raise MisfitError(
            f"uv resolves for no base with glibc {target.glibc} on {target.arch}",
            next_step="choose a newer base",
        )
    return f"{target.arch}-manylinux_2_{max(minors)}"


def markers_of(target: Target) -> dict[str, str]:
    """Return the environment of PEP 508 of a target."""
    return {
        "implementation_name": "cpython",
        "implementation_version": f"{target.python}.0",
        "os_name": "posix",
        "platform_machine": target.arch,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{target.python}.0",
        "python_version": target.python,
        "sys_platform": "linux",
        "extra": "",
    }


def active(wishes: Iterable[Wish], target: Target) -> tuple[Wish, ...]:
    """Keep the wishes whose markers hold on a target.

    Raises ConfigError for one with an address: no resolver ever gets it, for it may be run.
    """
    environment = markers_of(target)
    chosen = []
    for wish in wishes:
        if wish.requirement.url is not None:
            raise ConfigError(
                f"{wish.requirement.name}: an address instead of a version",
                where=wish.origin,
                why="a package from an address may run its own code on this host",
                next_step="name a version, or give a wheel in a folder of routing.wheels",
            )
        marker = wish.requirement.marker
        if marker is None or marker.evaluate(environment):
            chosen.append(wish)
    return tuple(chosen)


def bare(requirement: Requirement) -> str:
    """Return a requirement without its marker."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def require_python(wishes: WishList, target: Target) -> str | None:
    """Hold a file's bound on Python against the base's; return a note where it depends.

    Raises MisfitError where no patch release of the base's Python fits, ConfigError for no bound.
    """
    if not wishes.python:
        return None
    try:
        bound = SpecifierSet(wishes.python)
    except InvalidSpecifier:
        raise ConfigError(
            f"not a bound on Python: {wishes.python}",
            where=str(wishes.path),
            next_step="write it as >=3.11",
        ) from None
    fitting = [patch for patch in _PATCHES if bound.contains(f"{target.python}.{patch}")]
    if not fitting:
        raise MisfitError(
            f"this file wants Python {bound}, the base has Python {target.python}",
            where=wishes.python_at or str(wishes.path),
            next_step="choose a site, or a recipe to extend (--extends), whose base has such a "
            "Python, or change the bound in the file",
        )
    if len(fitting) < len(_PATCHES):
        return (
            f"{wishes.path} wants Python {bound}; whether the base's {target.python} has that "
            "patch release shows at the build"
        )
    return None
