"""What no resolver is asked: wishes that contradict a hard pin, another build's local parts."""

import re
from collections.abc import Iterable, Sequence

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.packages.resolve.resolution import ParentPin, Pin
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.packages.resolve.wishes import Wish

# What a framework's wheels bring along for devices: a variant has its own of these.
_DEVICE_LIBRARIES = re.compile(r"nvidia-.+|cuda-.+|triton|pytorch-triton.*")
# Linked against torch's C++: a wheel of another build of torch does not load.
_LINKED_TO_TORCH = frozenset({"torchaudio", "torchvision"})


def local_of(wish: Wish) -> str | None:
    """Return the local part that a wish names: `cu126` of `torch==2.9.1+cu126`."""
    for specifier in wish.requirement.specifier:
        try:
            local = Version(specifier.version).local
        except InvalidVersion:
            continue  # a version with a star
        if local:
            return local
    return None


def require_local_parts(wishes: Iterable[Wish], pins: Sequence[ParentPin]) -> None:
    """Refuse local parts that the parent's pins do not have; without any there, all are taken.

    Raises MisfitError.
    """
    locals_ = sorted({local for pin in pins if (local := version_of(pin).local)})
    for wish in wishes:
        local = local_of(wish)
        if local and locals_ and local not in locals_:
            pin = next(pin for pin in pins if version_of(pin).local)
            raise MisfitError(
                f"{wish.requirement}: a build for +{local}, this variant is +{locals_[0]}",
                where=wish.origin,
                why=f"{pin.requirement} stands at {pin.origin}",
                next_step=f"leave out +{local}, or choose a site or variant with it",
            )


def require_hard(wishes: Iterable[Wish], pins: Sequence[ParentPin]) -> None:
    """Refuse wishes and constraints that exclude a hard pin; raises MisfitError."""
    hard = {canonicalize_name(pin.requirement.name): pin for pin in pins if pin.strength == "hard"}
    for wish in wishes:
        pin = hard.get(canonicalize_name(wish.requirement.name))
        if pin is None:
            continue
        if not wish.requirement.specifier.contains(version_of(pin), prereleases=True):
            raise MisfitError(
                f"{wish.requirement} contradicts {pin.requirement}",
                where=wish.origin,
                why=f"the recipe below has {pin.requirement} at {pin.origin}, and its device code "
                "and checks are for that version",
                next_step=f"change {wish.origin}, or build on a recipe or a variant with another "
                f"{pin.requirement.name}",
            )


def without_device_libraries(wishes: Sequence[Wish], pins: Sequence[ParentPin]) -> tuple[Wish, ...]:
    """Leave out of a closure what another build of the framework brought along.

    A lock from a laptop has the CUDA libraries of the index's torch; the variant has its own.
    """
    if not any(version_of(pin).local for pin in pins):
        return tuple(wishes)
    names = {canonicalize_name(pin.requirement.name) for pin in pins}

    def is_brought(wish: Wish) -> bool:
        name = canonicalize_name(wish.requirement.name)
        return name not in names and _DEVICE_LIBRARIES.fullmatch(name) is not None

    return tuple(wish for wish in wishes if not is_brought(wish))


def require_linked(chosen: Iterable[Pin], pins: Sequence[ParentPin]) -> list[str]:
    """Refuse wheels that are linked to another build of torch than the parent's.

    Returns notes where it can't be told. Raises MisfitError: such a wheel fails at import
    (`operator torchvision::nms does not exist`).
    """
    torch = next((pin for pin in pins if canonicalize_name(pin.requirement.name) == "torch"), None)
    local = version_of(torch).local if torch is not None else None
    notes: list[str] = []
    for pin in chosen:
        if torch is None or local is None or pin.name not in _LINKED_TO_TORCH:
            continue
        if Version(pin.version).local == local:
            continue
        doubt = f"{pin.name} {pin.version} of the index is not known to be built for +{local}"
        if local.startswith("cu"):
            notes.append(f"{doubt}: it must be for the CUDA of {torch.requirement}")
            continue
        raise MisfitError(
            f"{pin.name} {pin.version} is built for another torch than {torch.requirement}",
            where=pin.asked_at or torch.origin,
            why=f"its +{local} build is on the framework's own index, which has to be reached",
            next_step=f"give the wheel {pin.name}==…+{local} in a folder of routing.wheels, or a "
            "mirror of that index in routing.upstreams of the site",
        )
    return notes


def require_hashes(wish: Wish, offered: frozenset[str]) -> str | None:
    """Compare a wish's hashes with the index's; return a note where the index gives none.

    Raises ConfigError where the index has other bytes.
    """
    if not wish.hashes:
        return None
    if not offered:
        return f"{wish.origin}: the index gives no SHA-256 of {wish.requirement.name} to compare"
    if wish.hashes & offered:
        return None
    raise ConfigError(
        f"{wish.requirement}: the index has other files than this hash",
        where=wish.origin,
        why=f"the file allows {min(wish.hashes)[:12]}…, the index has {min(offered)[:12]}…",
        next_step="find out which of them is right before you use the package",
    )
