"""What no resolver is asked: wishes that contradict a hard pin, another build's local parts."""

import re
from collections.abc import Callable, Iterable, Sequence

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dlcontainer.errors import ConfigError, MisfitError
from dlcontainer.packages.resolve import words
from dlcontainer.packages.resolve.asking import Answer
from dlcontainer.packages.resolve.resolution import ParentPin, Pin, Target
from dlcontainer.packages.resolve.stand_ins import version_of
from dlcontainer.packages.resolve.wishes import Wish

# What a framework's wheels bring along for devices: a variant has its own of these. Other packages
# of the same makers (nvidia-ml-py, nvidia-dali-…, cuda-python) are asked for by people.
# Source: the needs of the index's torch and jax, CUDA 11 to 13.
_DEVICE_LIBRARIES = re.compile(
    r"nvidia-(?:cublas|cuda-[a-z]+|cudnn|cudnn-frontend|cufft|cufile|curand|cusolver|cusparse"
    r"|cusparselt|nccl|nvjitlink|nvshmem|nvtx|nvvm)(?:-cu\d+)?"
    r"|cuda-(?:bindings|pathfinder|toolkit)|triton|pytorch-triton.*"
)
_FRAMEWORK = "torch"
_MOST_NAMES = 5
# Linked against torch's C++: a wheel of another build of torch does not load.
_LINKED_TO_TORCH = frozenset({"torchaudio", "torchvision"})


def is_device_library(name: str) -> bool:
    """Return whether a package (by its canonical name) belongs to one build of a framework."""
    return _DEVICE_LIBRARIES.fullmatch(name) is not None


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
    # The framework first: it decides which libraries are right.
    for wish in sorted(wishes, key=_is_device_library):
        pin = hard.get(canonicalize_name(wish.requirement.name))
        if pin is None:
            continue
        if not wish.requirement.specifier.contains(version_of(pin), prereleases=True):
            demand = f"{wish.requirement.name}{wish.requirement.specifier}"  # markers can be long
            raise MisfitError(
                f"{demand} contradicts {pin.requirement}",
                where=wish.origin,
                why=f"the parent recipe has {pin.requirement} at {pin.origin}, and its device code "
                "and checks are for that version",
                next_step=f"change {wish.origin}, or {words.another(pin.requirement.name)}",
            )


def is_frozen(wishes: Iterable[Wish]) -> bool:
    """Return whether a list is what an installation had: torch and its libraries, each exact.

    `pip freeze` writes no word of itself into such a file.
    """
    exact = [wish for wish in wishes if str(wish.requirement.specifier).startswith("==")]
    names = {canonicalize_name(wish.requirement.name) for wish in exact}
    return _FRAMEWORK in names and any(map(_is_device_library, exact))


def _is_device_library(wish: Wish) -> bool:
    return is_device_library(canonicalize_name(wish.requirement.name))


def without_device_libraries(wishes: Sequence[Wish], pins: Sequence[ParentPin]) -> tuple[Wish, ...]:
    """Leave out of a closure what another build of the framework brought along.

    A lock from a laptop has the CUDA libraries of the index's torch; the variant has its own.
    """
    if not any(version_of(pin).local for pin in pins):
        return tuple(wishes)
    names = {canonicalize_name(pin.requirement.name) for pin in pins}

    def is_brought(wish: Wish) -> bool:
        return canonicalize_name(wish.requirement.name) not in names and _is_device_library(wish)

    return tuple(wish for wish in wishes if not is_brought(wish))


def unlisted(wishes: Iterable[Wish], answer: Answer, pins: Sequence[ParentPin]) -> str | None:
    """Say which packages a closure does not have for its target; None where it has all of them.

    A lock that was made for other systems leaves out what is needed on this one alone.
    """
    listed = {canonicalize_name(wish.requirement.name) for wish in wishes}
    listed |= {canonicalize_name(pin.requirement.name) for pin in pins}
    added = [name for name in sorted(answer.versions) if name not in listed]
    if not added:
        return None
    shown = [
        f"{name} {answer.versions[name]}{_for(answer.needed_by.get(name, ()))}" for name in added
    ]
    more = f" and {len(added) - _MOST_NAMES} more" if len(added) > _MOST_NAMES else ""
    noun = "package is" if len(added) == 1 else "packages are"
    return (
        f"{len(added)} {noun} not in the file and needed here, without a hash of it: "
        f"{', '.join(shown[:_MOST_NAMES])}{more}"
    )


def _for(needed_by: Sequence[str]) -> str:
    return f" (for {needed_by[0]})" if needed_by else ""


def require_linked(
    chosen: Iterable[Pin],
    pins: Sequence[ParentPin],
    asked_by: Callable[[str], tuple[str, str] | None] = lambda _: None,
    unreached: Sequence[str] = (),
) -> list[str]:
    """Refuse wheels that are linked to another build of torch than the parent's.

    `asked_by` tells of a package which wish needs it, and where that stands; `unreached` says what
    index was out of reach. Returns notes where it can't be told. Raises MisfitError: such a wheel
    fails at import (`operator torchvision::nms does not exist`).
    """
    torch = next(
        (pin for pin in pins if canonicalize_name(pin.requirement.name) == _FRAMEWORK), None
    )
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
        asker = asked_by(pin.name) if pin.asked_at is None else None
        needs = f", and {asker[0]} needs it" if asker else ""
        raise MisfitError(
            f"{pin.name} {pin.version} is built for another torch than {torch.requirement}{needs}",
            where=pin.asked_at or (asker[1] if asker else torch.origin),
            why="; ".join(
                (f"its +{local} build is on the framework's own index alone", *unreached)
            ),
            next_step=f"give the wheel {pin.name}==…+{local} in a folder of routing.wheels, or a "
            "mirror of that index in routing.upstreams of the site",
        )
    return notes


def require_hashes(wish: Wish, offered: frozenset[str], target: Target) -> str | None:
    """Compare a wish's hashes with the chosen file's; return a note where the index gives none.

    Raises ConfigError where the index has other bytes for the target.
    """
    if not wish.hashes:
        return None
    if not offered:
        return f"{wish.origin}: the index gives no SHA-256 of {wish.requirement.name} to compare"
    if wish.hashes & offered:
        return None
    raise ConfigError(
        f"{wish.requirement}: the wheel for Python {target.python} on {target.arch} has none of "
        "the hashes in the file",
        where=wish.origin,
        why=f"the file allows {_begins(wish.hashes)}; the index's wheel is {_begins(offered)}",
        next_step="write the file's hashes again, for this Python and Linux; where they were for "
        "these, find out which is right before you use the package",
    )


def _begins(hashes: frozenset[str]) -> str:
    more = f" and {len(hashes) - 1} more" if len(hashes) > 1 else ""
    return f"{min(hashes)[:12]}…{more}"
