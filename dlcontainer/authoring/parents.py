"""The parent recipe of one's own packages: the one whose framework they name."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dlcontainer.packages.resolve.wishes import WishList

# Name of a framework's package -> the recipe that has it. What is named without its framework
# (torchvision, keras) asks for one in what it needs: `named` sees that in the pins.
FRAMEWORKS: Mapping[str, str] = {
    "jax": "jax",
    "jaxlib": "jax",
    "mxnet": "mxnet",
    "tensorflow": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "torch": "pytorch",
}
# Extras of a framework's package that ask for the libraries of a device: how they begin.
_DEVICE_EXTRAS: Mapping[str, tuple[str, ...]] = {
    "jax": ("cuda", "rocm"),
    "tensorflow": ("and-cuda",),
}
# Images are of Linux: what a file asks for on other systems asks for nothing.
_LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}


def of_wishes(wishes: WishList, recipes: Collection[str]) -> str | None:
    """Return the recipe whose framework a file names; None where it names several, or none."""
    return named((wish.requirement for wish in wishes.wishes), recipes)


def named(requirements: Iterable[Requirement], recipes: Collection[str]) -> str | None:
    """Return the one recipe of `recipes` whose framework is among requirements, or None."""
    meant = set(_meant(requirements).values())
    return meant.pop() if len(meant) == 1 and meant <= set(recipes) else None


def without_one(wishes: WishList) -> str:
    """Say why a file is on no recipe: `names no framework and needs none`, or several of them."""
    meant = _meant(wish.requirement for wish in wishes.wishes)
    if not meant:
        return "names no framework and needs none"
    names = " and ".join(sorted(meant))
    if len(set(meant.values())) == 1:
        return f"names {names}, and there is no recipe {next(iter(meant.values()))} to put it on"
    return f"names {names}, and no recipe has more than one framework"


def _meant(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Map the names of frameworks among requirements to the recipes that have them."""
    names = {
        canonicalize_name(requirement.name)
        for requirement in requirements
        if _is_for_linux(requirement)
    }
    return {name: FRAMEWORKS[name] for name in names if name in FRAMEWORKS}


def without_device_extras(wishes: WishList, below: Collection[str]) -> tuple[WishList, list[str]]:
    """Take away a framework's extras for a device, as in jax[cuda12]; with a note for each.

    The variant of the parent recipe (`below` names it, and those below that) has the libraries of
    the site's device: of another release, a second plugin would stand beside its own.
    """
    kept, notes = [], []
    for wish in wishes.wishes:
        requirement = wish.requirement
        name = canonicalize_name(requirement.name)
        begins = _DEVICE_EXTRAS.get(name, ())
        dropped = {extra for extra in requirement.extras if extra.startswith(begins)}
        if not begins or not dropped or FRAMEWORKS[name] not in below:
            kept.append(wish)
            continue
        plain = Requirement(str(requirement))
        plain.extras -= dropped
        kept.append(replace(wish, requirement=plain))
        shown = f"{name}[{','.join(sorted(dropped))}]"
        notes.append(
            f"{wish.origin}: {shown} is taken as {name}: the recipe {FRAMEWORKS[name]} has the "
            "device's libraries where the site has a device"
        )
    return replace(wishes, wishes=tuple(kept)), notes


def _is_for_linux(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**_LINUX, "extra": ""})
