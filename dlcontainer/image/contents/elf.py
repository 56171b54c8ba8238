"""What ELF files say: a library's name and needs, a program's loader. Standard library only.

Versions of symbols: Linux Standard Base 5.0, Core, "Symbol Versioning".

Source: Tool Interface Standard, ELF 1.2; man page elf(5).
"""

import mmap
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.image.contents.model import Library, TreeEntry

_NEEDED, _SONAME, _STRTAB = 1, 14, 5
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
# Of headers, of entries of the dynamic section, of versions, and of characters in a name: far
# beyond any linker's, so that a small file that names itself over and over costs nothing.
_MOST_HEADERS = 4096
_MOST_TAGS = 16_384
_LONGEST_NAME = 4096
LEAST_BYTES = 64  # of the longer file header


def is_library(entry: TreeEntry) -> bool:
    """Return whether a file may be a shared library, by its name: libx.so, libx.so.1.2, x.so."""
    name = entry.path.rsplit("/", 1)[-1]
    return (
        entry.kind == "-" and entry.size > LEAST_BYTES and (name.endswith(".so") or ".so." in name)
    )


def libraries(files: Mapping[str, Path]) -> tuple[Library, ...]:
    """Read the libraries among files of a tree; what is none, or damaged, is passed over."""
    return tuple(_libraries(sorted(files.items())))


def _libraries(files: Iterable[tuple[str, Path]]) -> Iterator[Library]:
    for path, place in files:
        try:
            with (
                place.open("rb") as file,
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


def interpreter(program: Path) -> str | None:
    """Return the loader that a program asks for; None where it needs none.

    Raises OSError; ValueError for a file that is no ELF program, or damaged.
    """
    if program.stat().st_size < LEAST_BYTES:
        raise ValueError(f"{program} is not an ELF program")
    try:
        with (
            program.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            form = _form(data)
            if form is None:
                raise ValueError(f"{program} is not an ELF program")
            for header in _headers(data, form):
                if header.kind == _INTERPRETER:
                    length = min(header.size, _LONGEST_NAME)
                    name = data[header.offset : header.offset + length]
                    return name.rstrip(b"\0").decode(errors="replace")
    except (struct.error, IndexError, OverflowError):
        raise ValueError(f"{program} is truncated in its program headers") from None
    return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Dynamic:
    """The dynamic section: each tag's values, and what of the file is loaded where."""

    values: Mapping[int, list[int]]
    loads: list[tuple[int, int, int]]
    order: str

    def place(self, address: int) -> int | None:
        """Return where in the file that lies which is loaded at an address."""
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
        raise ValueError("a damaged library: it has no string table")
    if at is None:
        return
    remaining = _MOST_TAGS
    for _ in range(min(values.get(_VERNEEDNUM, [0])[0], _MOST_HEADERS)):
        _, count, _, first, following = struct.unpack_from(order + "HHIII", data, at)
        entry = at + first
        remaining -= count
        if remaining < 0:
            raise ValueError(f"a damaged library: more than {_MOST_TAGS} symbol versions")
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
    form = _form(data)
    if form is None:
        return None
    loads, dynamic = [], None
    for header in _headers(data, form):
        if header.kind == _LOAD:
            loads.append((header.address, header.offset, header.size))
        elif header.kind == _DYNAMIC:
            dynamic = header
    if dynamic is None:
        return None
    word = form.order + ("Q" if form.wide else "I")
    step = struct.calcsize(word)
    end = dynamic.offset + min(dynamic.size, len(data) - dynamic.offset)
    values: dict[int, list[int]] = {}
    for at in range(dynamic.offset, end, 2 * step)[:_MOST_TAGS]:
        (tag,) = struct.unpack_from(word, data, at)
        (value,) = struct.unpack_from(word, data, at + step)
        if tag == 0:
            break
        values.setdefault(tag, []).append(value)
    return _Dynamic(values=values, loads=loads, order=form.order)


@dataclass(frozen=True, kw_only=True, slots=True)
class _ElfForm:
    """The class of a file, 64 or 32 bits, and its byte order as struct writes it."""

    wide: bool
    order: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Header:
    """A program header: where a segment of a file lies, and where it is loaded."""

    kind: int
    offset: int
    address: int
    size: int


def _form(data: mmap.mmap) -> _ElfForm | None:
    if data[:4] != b"\x7fELF" or data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    return _ElfForm(wide=data[4] == 2, order="<>"[data[5] - 1])


def _headers(data: mmap.mmap, form: _ElfForm) -> Iterator[_Header]:
    (start,) = struct.unpack_from(
        form.order + ("Q" if form.wide else "I"), data, 32 if form.wide else 28
    )
    size, count = struct.unpack_from(form.order + "HH", data, 54 if form.wide else 42)
    for number in range(min(count, _MOST_HEADERS)):
        at = start + number * size
        if form.wide:
            kind, _, offset, address, _, length = struct.unpack_from(
                form.order + "IIQQQQ", data, at
            )
        else:
            kind, offset, address, _, length = struct.unpack_from(form.order + "5I", data, at)
        yield _Header(kind=kind, offset=offset, address=address, size=length)


def _string(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at, at + _LONGEST_NAME)
    return data[at:end].decode("utf-8", "replace") if 0 <= at < end else ""
