"""The C library of a base against what is put on it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer.config import KeyPath
from dlcontainer.planning.compatibility import MUSL_DISTRIBUTIONS, WHEEL_GLIBC, WHEEL_SOURCE
from dlcontainer.planning.conflicts.model import (
    Contradiction,
    FactConflict,
    UnknownFact,
    base_path,
    glibc_of,
)
from dlcontainer.planning.versions import Numbers, compare, numbers, written
from dlcontainer.recipes.base import Base
from dlcontainer.recipes.recipe import Recipe
from dlcontainer.sites.site import Site

MUSL_SOURCE = "PEP 656: manylinux wheels are for glibc, musl takes musllinux ones"
_MUSL_NAME = re.compile(r"(?<![a-z0-9])(?:alpine|musl)(?![a-z])")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Wheel:
    """A pinned package that comes as a wheel, where it stands, and the glibc that it needs."""

    package: str
    place: KeyPath
    glibc: Numbers


def musl(recipe: Recipe) -> Iterator[FactConflict | UnknownFact]:
    """Refuse a base on musl below wheels that are for glibc only; of others it is a doubt."""
    if not _is_musl(recipe.base):
        return
    wheels = list(_wheels(recipe))
    for wheel in wheels[:1]:
        yield FactConflict(
            what=f"the base's C library is musl, but the wheel of {wheel.package} needs glibc "
            f"{written(wheel.glibc)} or newer",
            why=f"pip finds no wheel of it, or the wheel's libraries do not load ({MUSL_SOURCE})",
            first=base_path(recipe.base),
            second=wheel.place,
            way_out="use a base with glibc: Debian, Ubuntu, Red Hat or SUSE",
        )
    if not wheels and any(step.python_packages for step in recipe.steps):
        yield UnknownFact(
            text="the base's C library is musl: cannot guarantee that the recipe's packages "
            "have wheels for it (musllinux)"
        )


def _is_musl(base: Base) -> bool:
    if base.facts is not None:
        return base.facts.distribution in MUSL_DISTRIBUTIONS
    return bool(base.image and _MUSL_NAME.search(base.image.partition("@")[0]))


def wheels_newer(recipe: Recipe) -> Iterator[FactConflict]:
    """Refuse a base whose glibc is older than the tag of a wheel."""
    inside = numbers(glibc_of(recipe.base) or "")
    for wheel in _wheels(recipe) if inside else ():
        if inside and compare(inside, wheel.glibc) == -1:
            yield FactConflict(
                what=f"the base's glibc {written(inside)} is older than "
                f"{written(wheel.glibc)}, which the wheels of {wheel.package} need",
                why=f"pip accepts none of its wheels ({WHEEL_SOURCE})",
                first=base_path(recipe.base),
                second=wheel.place,
                way_out=f"use a base with glibc {written(wheel.glibc)} or newer, or an "
                "older version of the package",
            )


def _wheels(recipe: Recipe) -> Iterator[_Wheel]:
    """Yield the pinned packages whose wheels are known to need a glibc."""
    for index, step in enumerate(recipe.steps):
        listed = step.python_packages.packages if step.python_packages else ()
        for at, package in enumerate(listed):
            name, _, version = package.partition("==")
            plain = re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()
            pinned = numbers(version)
            for since, glibc in WHEEL_GLIBC.get(plain, ()):
                if pinned and compare(pinned, since) in (0, 1):
                    place = ("steps", index, "python_packages", "packages", at)
                    yield _Wheel(package=package, place=place, glibc=glibc)
                    break


def unsaid_base(site: Site, recipe: Recipe) -> Iterator[Contradiction]:
    """Note a base of the site's that does not say its system: nothing of it can be checked."""
    image = recipe.base.image
    if image is None or recipe.base.facts is not None:
        return
    site_base = site.recipes.get(recipe.name, {}).get("base")
    places: tuple[tuple[object, KeyPath], ...] = (
        (site_base, ("recipes", recipe.name, "base", "image")),
        (site.base, ("base", "image")),
    )
    for base, place in places:
        if isinstance(base, dict) and base.get("image") == image:
            yield Contradiction(
                what=f"the site replaces the recipe's base with {image}, and does not "
                "describe its system",
                why="dlcontainer cannot check the C library and the Python of this image",
                in_site=place,
                in_recipe=("steps",),
                way_out="write base.system beside the image: distribution, release, glibc, "
                "python, source",
            )
            return
