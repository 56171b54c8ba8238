"""Names in shared libraries: what one is called, and what it needs. Standard library only.

Versions of symbols: Linux Standard Base 5.0, Core, "Symbol Versioning".

Source: Tool Interface Standard, ELF 1.2; man page elf(5).
"""

import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.image.contents.model import Entry, Library

_NEEDED, _SONAME, _STRTAB = 1, 14, 5
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_LOAD, _DYNAMIC = 1, 2
# Of headers, of entries of the dynamic section, of versions, and of characters in a name: far
# beyond any linker's, so that a small file that names itself over and over costs nothing.
_MOST_HEADERS = 4096
_MOST_TAGS = 16_384
_LONGEST_NAME = 4096
LEAST_BYTES = 64  # of the longer file header


def is_library(entry: Entry) -> bool:
    """Tell by its name whether a file may be a shared library: libx.so, libx.so.1.2, x.so."""
    name = entry.path.rsplit("/", 1)[-1]
    return (
        entry.kind == "-" and entry.size > LEAST_BYTES and (name.endswith(".so") or ".so." in name)
    )


def libraries(found: Mapping[str, Path]) -> tuple[Library, ...]:
    """Read the libraries among files of a tree; what is none, or damaged, is passed over."""
    return tuple(_libraries(sorted(found.items())))


def _libraries(found: Iterable[tuple[str, Path]]) -> Iterator[Library]:
    for path, there in found:
        try:
            with (
                there.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            ):
                names = _names(data)
        except (OSError, ValueError, struct.error, IndexError, OverflowError):
            continue
        if names is not None:
            yield Library(path=path, soname=names[0], needed=names[1])


def version_needs(path: Path) -> frozenset[str]:
    """Name the versions of symbols that a library needs of others: GLIBC_2.34, GLIBCXX_3.4.30.

    Raises OSError; ValueError for a file that is no library, or damaged.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            dynamic = _dynamic(data)
            if dynamic is None:
                raise ValueError("not a shared library")
            return frozenset(_needs(data, dynamic))
        except (struct.error, IndexError, OverflowError) as error:
            raise ValueError(f"a damaged library: {error}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dynamic:
    """The dynamic section: each tag's values, and what of the file is loaded where."""

    values: Mapping[int, list[int]]
    loads: list[tuple[int, int, int]]
    order: str

    def place(self, address: int) -> int | None:
        """Say where in the file that lies which is loaded at an address."""
        for start, at, size in self.loads:
            if 0 <= address - start < size:
                return at + address - start
        return None


def _needs(data: mmap.mmap, dynamic: _Dynamic) -> Iterator[str]:
    """Go through the two linked lists: libraries, and the versions of each."""
    order, values = dynamic.order, dynamic.values
    names = dynamic.place(values[_STRTAB][0]) if _STRTAB in values else None
    at = dynamic.place(values[_VERNEED][0]) if _VERNEED in values else None
    if names is None:
        raise ValueError("a damaged library: it has no names")
    if at is None:
        return
    left = _MOST_TAGS
    for _ in range(min(values.get(_VERNEEDNUM, [0])[0], _MOST_HEADERS)):
        _, count, _, first, following = struct.unpack_from(order + "HHIII", data, at)
        entry = at + first
        left -= count
        if left < 0:
            raise ValueError(f"a damaged library: more than {_MOST_TAGS} versions")
        for _ in range(count):
            _, _, _, name, step = struct.unpack_from(order + "IHHII", data, entry)
            yield _string(data, names + name)
            entry += step
        at += following


def _names(data: mmap.mmap) -> tuple[str, tuple[str, ...]] | None:
    dynamic = _dynamic(data)
    if dynamic is None:
        return None
    start = dynamic.place(dynamic.values.get(_STRTAB, [0])[0])
    if start is None:
        return None
    soname = [_string(data, start + at) for at in dynamic.values.get(_SONAME, [])]
    needed = [_string(data, start + at) for at in dynamic.values.get(_NEEDED, [])]
    return (soname or [""])[0], tuple(needed)


def _dynamic(data: mmap.mmap) -> _Dynamic | None:
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    wide, order = data[4] == 2, "<>"[data[5] - 1]
    word = order + ("Q" if wide else "I")
    loads, dynamic = _segments(data, wide=wide, order=order)
    if dynamic is None:
        return None
    values: dict[int, list[int]] = {}
    step = struct.calcsize(word)
    for at in range(dynamic[0], dynamic[0] + dynamic[1], 2 * step)[:_MOST_TAGS]:
        (tag,) = struct.unpack_from(word, data, at)
        (value,) = struct.unpack_from(word, data, at + step)
        if tag == 0:
            break
        values.setdefault(tag, []).append(value)
    return _Dynamic(values=values, loads=loads, order=order)


def _segments(
    data: mmap.mmap, *, wide: bool, order: str
) -> tuple[list[tuple[int, int, int]], tuple[int, int] | None]:
    """Give (address, place, size) of what is loaded, and (place, size) of the dynamic section."""
    (start,) = struct.unpack_from(order + ("Q" if wide else "I"), data, 32 if wide else 28)
    size, count = struct.unpack_from(order + "HH", data, 54 if wide else 42)
    loads, dynamic = [], None
    for number in range(min(count, _MOST_HEADERS)):
        at = start + number * size
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(order + "IIQQQQ", data, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(order + "5I", data, at)
        if kind == _LOAD:
            loads.append((address, offset, length))
        elif kind == _DYNAMIC:
            dynamic = (offset, min(length, len(data) - offset))
    return loads, dynamic


def _string(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at, at + _LONGEST_NAME)
    return data[at:end].decode("utf-8", "replace") if 0 <= at < end else ""
