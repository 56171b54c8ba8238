"""Read a SIF file: is it one, for which architecture, of which parts. No engine is needed."""

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dlcontainer.config.field_types import SIF_ARCH
from dlcontainer.errors import ChecksFailedError
from dlcontainer.system import foreign_files

# Layout of the global header: 32 bytes of launch script, 10 of magic, 3 of version, 3 of
# architecture, 16 of id; then times, counts and places, see _COUNTS.
# Source: github.com/apptainer/sif, pkg/sif/sif.go, descriptor.go and arch.go.
_LAUNCH, _MAGIC, _VERSION, _ARCH, _ID = 32, 10, 3, 3, 16
_LAUNCHER = b"#!/usr/bin/env run-singularity\n\0"
# created, modified; descriptors free, of all; descriptors' place and length; data's place, length
_COUNTS = struct.Struct("<8q")
_COUNTS_AT = _LAUNCH + _MAGIC + _VERSION + _ARCH + _ID
# A descriptor: kind, used, id, group, link; place, size, size with padding; created, modified;
# user, group; name; 384 bytes that depend on the kind.
_DESCRIPTOR = struct.Struct("<i?3I3q2q2q128s384s")
_TIMES = struct.Struct("<2q")
_DESCRIPTOR_TIMES_AT = struct.calcsize("<i?3I3q")
_PARTITION = struct.Struct("<2i")
_MOST_PARTS = 4096
# Of a part that is read whole (a bill of materials), and of all that lies before the parts.
_MOST_READ = 256_000_000
_KINDS = {
    0x4001: "definition",
    0x4002: "environment",
    0x4003: "labels",
    0x4004: "partition",
    0x4005: "signature",
    0x4006: "json",
    0x4007: "generic",
    0x4008: "crypto",
    0x4009: "sbom",
    0x400A: "oci-index",
    0x400B: "oci-blob",
}
_SQUASHFS, _PRIMARY = 1, 2

# Older engines do not know this kind of part: the bill is inside all the same.
BILL = "sbom.cdx.json"
NO_BILLS = "the engine does not support bills of materials: the SIF's list has none"
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


@dataclass(frozen=True, kw_only=True, slots=True)
class SifPart:
    """One part of an image: what it is, where it lies in the file, how many bytes it has."""

    number: int
    kind: str
    name: str
    offset: int
    size: int
    # of a partition: does it hold the system's tree, as SquashFS
    is_tree: bool = False


def arch(image: Path) -> str:
    """Return the words for an image's architecture as `uname -m` names it.

    Raises ChecksFailedError for what is not a SIF.
    """
    with _opened(image) as file:
        return _arch(file, image)


@contextlib.contextmanager
def _opened(image: Path) -> Iterator[BinaryIO]:
    try:
        file = foreign_files.opened(image)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ChecksFailedError(
            f"can't read {image}: {reason}", next_step="give the path of an image (.sif)"
        ) from None
    with file:
        try:
            yield file
        except OSError as error:
            raise ChecksFailedError(
                f"can't read {image}: {error.strerror}", next_step="copy the image again"
            ) from None


def _arch(file: BinaryIO, image: Path) -> str:
    file.seek(0)
    head = file.read(_LAUNCH + _MAGIC + _VERSION + _ARCH)
    if head[_LAUNCH : _LAUNCH + _MAGIC] != b"SIF_MAGIC\0":
        raise ChecksFailedError(
            f"{image} is not a SIF image",
            why=f"it begins with {head[:16]!r}",
            next_step="give an image that `dlcontainer build` or `apptainer build` made",
        )
    code = head[_LAUNCH + _MAGIC + _VERSION :].rstrip(b"\0").decode("ascii", "replace")
    return _ARCHES.get(code, f"unknown ({code})")


def part_options(arch: str) -> Mapping[str, tuple[str, ...]]:
    """Return the options of `sif add` for the parts of an image of this architecture.

    Numbers as `apptainer sif add --help` lists them.
    """
    number = SIF_ARCH[arch]
    return {
        "definition": ("--datatype", "1"),
        "inspection": ("--datatype", "6"),
        "sbom": ("--datatype", "9", "--sbomformat", "cyclonedx-json"),
        "tree": ("--datatype", "4", "--parttype", "2", "--partfs", "1", "--partarch", number),
    }


def parts(image: Path) -> tuple[SifPart, ...]:
    """List the parts of an image.

    Raises ChecksFailedError for what is not a SIF, and for one that is cut.
    """
    with _opened(image) as file:
        return _parts(file, image)


def tree(image: Path, file: BinaryIO | None = None) -> SifPart:
    """Return the part that holds the image's files; of an open image, `image` is its name.

    Raises ChecksFailedError where there is none that unsquashfs can read.
    """
    for part in parts(image) if file is None else _parts(file, image):
        if part.is_tree:
            return part
    raise ChecksFailedError(
        f"{image} contains no readable file tree",
        why="it has no SquashFS system partition, or an encrypted one",
        next_step="give an image that `dlcontainer build` or `apptainer build` made",
    )


def read(image: Path, part: SifPart) -> bytes:
    """Read a part of an image; raises ChecksFailedError for one too large to be looked at."""
    return _read(image, part.offset, part.size)


def head(image: Path) -> bytes:
    """Return all of an image's file that lies before its parts."""
    first = min((part.offset for part in parts(image)), default=0)
    return _read(image, 0, first)


def _read(image: Path, offset: int, size: int) -> bytes:
    if size > _MOST_READ:
        raise _cut(image, f"one of its parts is too large to read: {size / 1e6:.0f} MB")
    with _opened(image) as file:
        file.seek(offset)
        return _whole(file.read(size), size, image)


def _parts(file: BinaryIO, image: Path) -> tuple[SifPart, ...]:
    _arch(file, image)
    size = file.seek(0, os.SEEK_END)
    parts = []
    for _, data in _descriptors(file, image):
        part = _part(data)
        if part.offset < 0 or part.size < 0 or part.offset + part.size > size:
            raise _cut(image, f"its part {part.name or part.kind!r} ends beyond the file")
        parts.append(part)
    return tuple(parts)


def settle(image: Path, identity: bytes, moment: int | None) -> None:
    """Write what is random or of the moment as made: the same content, the same image.

    The 16-byte id; where `moment` (s since 1970) is given, the times of the image and its parts.
    The launch script too, which lets a shell start the image and which `sif new` leaves out.
    """
    with image.open("r+b") as file:
        places = [at for at, _ in _descriptors(file, image)]
        file.seek(0)
        file.write(_LAUNCHER)
        file.seek(_COUNTS_AT - _ID)
        file.write(identity[:_ID])
        if moment is not None:
            for at in (_COUNTS_AT, *(place + _DESCRIPTOR_TIMES_AT for place in places)):
                file.seek(at)
                file.write(_TIMES.pack(moment, moment))


def _descriptors(file: BinaryIO, image: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the descriptors that are in use, with their places."""
    size = file.seek(0, os.SEEK_END)
    file.seek(_COUNTS_AT)
    counts = _COUNTS.unpack(_whole(file.read(_COUNTS.size), _COUNTS.size, image))
    free, total, start = counts[2:5]
    if not 0 <= free <= total <= _MOST_PARTS or start < 0:
        raise _cut(image, f"its header lists {total} parts, {free} of them free")
    if start + total * _DESCRIPTOR.size > size:
        raise _cut(image, "its list of parts ends beyond the file")
    for number in range(total):
        at = start + number * _DESCRIPTOR.size
        file.seek(at)
        data = _whole(file.read(_DESCRIPTOR.size), _DESCRIPTOR.size, image)
        if _DESCRIPTOR.unpack(data)[1]:
            yield at, data


def _part(data: bytes) -> SifPart:
    kind, _, number, _, _, offset, size, _, _, _, _, _, name, extra = _DESCRIPTOR.unpack(data)
    kind_name = _KINDS.get(kind, f"unknown ({kind:#x})")
    system = _PARTITION.unpack_from(extra) == (_SQUASHFS, _PRIMARY)
    return SifPart(
        number=number,
        kind=kind_name,
        name=name.rstrip(b"\0").decode("utf-8", "replace"),
        offset=offset,
        size=size,
        is_tree=kind_name == "partition" and system,
    )


def _whole(data: bytes, size: int, image: Path) -> bytes:
    if len(data) != size:
        raise _cut(image, "it ends in the middle of a part")
    return data


def _cut(image: Path, why: str) -> ChecksFailedError:
    return ChecksFailedError(
        f"{image} is truncated or damaged", why=why, next_step="copy or build the image again"
    )
