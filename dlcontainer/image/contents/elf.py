"""Names in shared libraries: what one is called, and what it needs. Standard library only.

Source: Tool Interface Standard, ELF 1.2; man page elf(5).
"""

import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dlcontainer.image.contents.model import Entry, Library

_NEEDED, _SONAME, _STRTAB = 1, 14, 5
_LOAD, _DYNAMIC = 1, 2
_MOST_HEADERS = 4096
_HEAD = 64  # bytes of the longer file header


def is_library(entry: Entry) -> bool:
    """Tell by its name whether a file may be a shared library: libx.so, libx.so.1.2, x.so."""
    name = entry.path.rsplit("/", 1)[-1]
    return entry.kind == "-" and entry.size > _HEAD and (name.endswith(".so") or ".so." in name)


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


def _names(data: mmap.mmap) -> tuple[str, tuple[str, ...]] | None:
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    wide, order = data[4] == 2, "<>"[data[5] - 1]
    word = order + ("Q" if wide else "I")
    loads, dynamic = _segments(data, wide=wide, order=order)
    if dynamic is None:
        return None
    values: dict[int, list[int]] = {}
    step = struct.calcsize(word)
    for at in range(dynamic[0], dynamic[0] + dynamic[1], 2 * step):
        (tag,) = struct.unpack_from(word, data, at)
        (value,) = struct.unpack_from(word, data, at + step)
        if tag == 0:
            break
        values.setdefault(tag, []).append(value)
    table = values.get(_STRTAB, [0])[0]
    # The table's address when loaded; each segment says where in the file its addresses lie.
    starts = [at + table - address for address, at, size in loads if 0 <= table - address < size]
    if not starts:
        return None
    soname = [_string(data, starts[0] + at) for at in values.get(_SONAME, [])]
    needed = [_string(data, starts[0] + at) for at in values.get(_NEEDED, [])]
    return (soname or [""])[0], tuple(needed)


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
    end = data.find(b"\0", at)
    return data[at:end].decode("utf-8", "replace") if 0 <= at < end else ""
