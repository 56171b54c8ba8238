"""The parts of an ELF file: its form, program headers, sections and dynamic section, as numbers.

Nothing a file claims is believed further than a fixed count: a small one costs little.

Source: Tool Interface Standard, ELF 1.2; man page elf(5).
"""

import contextlib
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NEEDED, STRTAB, SONAME, RPATH, RUNPATH = 1, 5, 14, 15, 29
VERDEF, VERDEFNUM, VERNEED, VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
_LOAD, _DYNAMIC, INTERPRETER = 1, 2, 3
# Of headers, of entries of the dynamic section, of versions, and of characters in a name: far
# beyond any linker's, so that a small file that names itself over and over costs nothing.
MOST_HEADERS = 4096
MOST_TAGS = 16_384
LONGEST_NAME = 4096
LEAST_BYTES = 64  # of the longer file header
# What reading a file that was cut, or that lies, may raise.
DAMAGE = (struct.error, IndexError, OverflowError)


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfForm:
    """A file's class, 64 or 32 bits, its byte order as struct writes it, and its machine."""

    wide: bool
    order: str
    machine: int

    @property
    def word(self) -> str:
        """An address of this class, as struct writes it."""
        return self.order + ("Q" if self.wide else "I")


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramHeader:
    """Where a segment of a file lies, and where it is loaded."""

    kind: int
    offset: int
    address: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ElfSection:
    """A section by its name: where it lies in the file."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Dynamic:
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

    def table(self, tag: int) -> int | None:
        """Return where in the file the table of a tag lies; None without one."""
        return self.place(self.values[tag][0]) if tag in self.values else None


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """Map a file; raises OSError, and ValueError for an empty one."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def form(data: mmap.mmap) -> ElfForm | None:
    """Return a file's form; None for what is no ELF file."""
    if data[:4] != b"\x7fELF" or len(data) < LEAST_BYTES:
        return None
    if data[4] not in (1, 2) or data[5] not in (1, 2):
        return None
    order = "<>"[data[5] - 1]
    (machine,) = struct.unpack_from(order + "H", data, 18)
    return ElfForm(wide=data[4] == 2, order=order, machine=machine)


def headers(data: mmap.mmap, of: ElfForm) -> Iterator[ProgramHeader]:
    """Yield the program headers."""
    (start,) = struct.unpack_from(of.word, data, 32 if of.wide else 28)
    size, count = struct.unpack_from(of.order + "HH", data, 54 if of.wide else 42)
    for number in range(min(count, MOST_HEADERS)):
        at = start + number * size
        if of.wide:
            kind, _, offset, address, _, length = struct.unpack_from(of.order + "IIQQQQ", data, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(of.order + "5I", data, at)
        yield ProgramHeader(kind=kind, offset=offset, address=address, size=length)


def sections(data: mmap.mmap, of: ElfForm) -> Iterator[ElfSection]:
    """Yield the sections; none where a file has no list of them."""
    (start,) = struct.unpack_from(of.word, data, 40 if of.wide else 32)
    size, count, names = struct.unpack_from(of.order + "HHH", data, 58 if of.wide else 46)
    if not start or names >= count:
        return
    layout = of.order + ("IIQQQQ" if of.wide else "6I")
    raw = [
        struct.unpack_from(layout, data, start + number * size)
        for number in range(min(count, MOST_HEADERS))
    ]
    for name, _, _, _, offset, length in raw:
        yield ElfSection(name=string(data, raw[names][4] + name), offset=offset, size=length)


def dynamic(data: mmap.mmap, of: ElfForm) -> Dynamic | None:
    """Return the dynamic section; None where a file has none."""
    loads, segment = [], None
    for header in headers(data, of):
        if header.kind == _LOAD:
            loads.append((header.address, header.offset, header.size))
        elif header.kind == _DYNAMIC:
            segment = header
    if segment is None:
        return None
    step = struct.calcsize(of.word)
    end = segment.offset + min(segment.size, len(data) - segment.offset)
    values: dict[int, list[int]] = {}
    for at in range(segment.offset, end, 2 * step)[:MOST_TAGS]:
        (tag,) = struct.unpack_from(of.word, data, at)
        (value,) = struct.unpack_from(of.word, data, at + step)
        if tag == 0:
            break
        values.setdefault(tag, []).append(value)
    return Dynamic(values=values, loads=loads, order=of.order)


def string(data: mmap.mmap, at: int) -> str:
    """Return the text that begins at a place; empty for one without an end."""
    end = data.find(b"\0", at, at + LONGEST_NAME)
    return data[at:end].decode("utf-8", "replace") if 0 <= at < end else ""
