"""Read the head of a SIF file: is it one, and for which architecture. No engine is needed."""

from collections.abc import Mapping
from pathlib import Path

from dlcontainer.errors import ChecksFailedError

# Layout of the global header: 32 bytes of launch script, 10 of magic, 3 of version, 3 of
# architecture. Source: github.com/apptainer/sif, pkg/sif/sif.go and arch.go.
_LAUNCH, _MAGIC, _VERSION, _ARCH = 32, 10, 3, 3
_ARCHES = {
    "01": "i386",
    "02": "x86_64",
    "03": "arm",
    "04": "aarch64",
    "05": "ppc64",
    "06": "ppc64le",
    "07": "mips",
    "08": "mipsle",
    "09": "mips64",
    "10": "mips64le",
    "11": "s390x",
    "12": "riscv64",
}


def arch(image: Path) -> str:
    """Tell an image's architecture as `uname -m` names it.

    Raises ChecksFailedError for what is not a SIF.
    """
    try:
        with image.open("rb") as file:
            head = file.read(_LAUNCH + _MAGIC + _VERSION + _ARCH)
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {image}: {error.strerror}", next_step="give the path of an image (.sif)"
        ) from None
    if head[_LAUNCH : _LAUNCH + _MAGIC] != b"SIF_MAGIC\0":
        raise ChecksFailedError(
            f"{image} is not a SIF image",
            why=f"it begins with {head[:16]!r}",
            next_step="give an image that `dlcontainer build` made, or one of Apptainer's",
        )
    code = head[_LAUNCH + _MAGIC + _VERSION :].rstrip(b"\0").decode("ascii", "replace")
    return _ARCHES.get(code, f"unknown ({code})")


def part_options(arch: str) -> Mapping[str, tuple[str, ...]]:
    """Give the options of `sif add` for the parts of an image of this architecture.

    Numbers as `apptainer sif add --help` lists them.
    """
    number = {"x86_64": "2", "aarch64": "4", "ppc64le": "6"}[arch]
    return {
        "definition": ("--datatype", "1"),
        "inspection": ("--datatype", "6"),
        "sbom": ("--datatype", "9", "--sbomformat", "cyclonedx-json"),
        "tree": ("--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", number),
    }


def set_identity(image: Path, identity: bytes) -> None:
    """Write an image's 16-byte id, which is random as made: the same content, the same image."""
    with image.open("r+b") as file:
        file.seek(_LAUNCH + _MAGIC + _VERSION + _ARCH)
        file.write(identity[:16])
