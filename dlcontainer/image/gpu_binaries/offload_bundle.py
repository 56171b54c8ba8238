"""AMD's device code in a program or library: which processors it is for.

`.hip_fatbin` holds bundles: a table of targets, then their code. A compressed one has a head of its
own; only as much of it is unpacked as its table needs.
    Source: LLVM, clang-offload-bundler, "Bundled Binary File Layout" and "Compression and
    Decompression" (CCOB, versions 1 to 3); version 3 read in the wheel jax-rocm7-plugin 0.12.0.
"""

import mmap
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dlcontainer.image.contents import zstd
from dlcontainer.image.gpu_binaries.code_counts import DeviceCode

SECTION = ".hip_fatbin"
_PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
_BUNDLE = re.compile(b"CCOB|" + _PLAIN)
_COUNT = struct.Struct("<Q")
_TARGET = struct.Struct("<3Q")
# magic, version, method; then version 1: size; 2: length, size; 3: the same, in 64 bits; a hash
_HEAD = struct.Struct("<4s2H")
_SIZES = {1: struct.Struct("<I"), 2: struct.Struct("<2I"), 3: struct.Struct("<2Q")}
_HASH = 8
_ZLIB, _ZSTD = 0, 1
# Bundles of a file, targets of a bundle, bytes of a table of such; of what is unpacked at first.
_MOST_BUNDLES = 100_000
_MOST_TARGETS = 1000
_MOST_TABLE = 1 << 20
_FIRST = 1 << 14
# Compressed bytes that are looked at for a table: a window's worth.
_MOST_PACKED = 1 << 22
_TARGETS = re.compile(r"hip(?:v4)?-amdgcn-amd-amdhsa-[^-]*-(gfx[0-9a-z:+-]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Bundle:
    """The targets of a bundle, and where it ends; None where only the next one's head tells."""

    targets: tuple[str, ...]
    end: int | None


def read(data: mmap.mmap, start: int, end: int) -> DeviceCode:
    """Read the targets of a section's bundles."""
    codes: Counter[str] = Counter()
    notes: list[str] = []
    at, end = start, min(end, len(data))
    for _ in range(_MOST_BUNDLES):
        match = _BUNDLE.search(data, at, end)
        if match is None:
            break
        at = match.start()
        try:
            bundle = _plain(data, at) if match[0] == _PLAIN else _packed(data, at, end)
        except (struct.error, ValueError, zlib.error) as error:
            notes.append(f"a bundle of AMD code was not read: {error}")
            at += len(match[0])
            continue
        codes.update(_codes(bundle.targets))
        after = bundle.end or at + len(match[0])
        if after > end:
            notes.append("a bundle of AMD code ends beyond its section")
        at = max(after, at + len(match[0]))
    else:
        notes.append(f"more than {_MOST_BUNDLES} bundles of AMD code: the rest was not read")
    return DeviceCode(codes=dict(codes), notes=tuple(dict.fromkeys(notes)))


def _codes(targets: tuple[str, ...]) -> Iterator[str]:
    for target in targets:
        match = _TARGETS.fullmatch(target)
        if match:
            yield match[1]


def _plain(data: mmap.mmap | bytes, at: int) -> _Bundle:
    """Read a table of targets; raises struct.error for one that ends too early."""
    place = at + len(_PLAIN)
    (count,) = _COUNT.unpack_from(data, place)
    if count > _MOST_TARGETS:
        raise ValueError(f"it lists {count} targets")
    place += _COUNT.size
    targets, end = [], 0
    for _ in range(count):
        offset, size, length = _TARGET.unpack_from(data, place)
        place += _TARGET.size
        if length > _MOST_TABLE or place + length > len(data):
            raise struct.error(f"a target's name of {length} bytes")
        targets.append(data[place : place + length].decode("ascii", "replace"))
        place += length
        end = max(end, at + offset + size)
    return _Bundle(targets=tuple(targets), end=end or place)


def _packed(data: mmap.mmap, at: int, end: int) -> _Bundle:
    _, version, method = _HEAD.unpack_from(data, at)
    sizes = _SIZES.get(version)
    if sizes is None:
        raise ValueError(f"version {version} of the format is not known")
    numbers = sizes.unpack_from(data, at + _HEAD.size)
    length = numbers[0] if len(numbers) > 1 else None
    if length is not None and not 0 < length <= end - at:
        raise ValueError(f"it claims {length} bytes, and its section has {end - at}")
    begin = at + _HEAD.size + sizes.size + _HASH
    stop = min(at + length if length else end, begin + _MOST_PACKED)
    packed = data[begin:stop]
    most = _FIRST
    while True:
        text = _unpacked(packed, method, most)
        try:
            if not text.startswith(_PLAIN):
                raise ValueError("it does not unpack to a bundle")
            return _Bundle(targets=_plain(text, 0).targets, end=at + length if length else None)
        except struct.error:
            if most >= _MOST_TABLE or len(text) < most:
                raise ValueError("its table of targets is incomplete") from None
            most *= 8


def _unpacked(packed: bytes, method: int, most: int) -> bytes:
    if method == _ZLIB:
        return zlib.decompressobj().decompress(packed, most)
    if method == _ZSTD:
        return zstd.head(packed, most)
    raise ValueError(f"compression method {method} is not known")
