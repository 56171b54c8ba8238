"""Texts in ELF files, and names that they export: for what is loaded by name when a program runs.

Source: Tool Interface Standard, ELF 1.2, "Symbol Table"; man page elf(5).
"""

import mmap
import re
import struct
from collections.abc import Iterator, Sequence

from dlcontainer.image.contents import elf_format
from dlcontainer.image.contents.elf_format import ElfForm, ElfSection

_TEXTS, _SYMBOLS, _NAMES = (".rodata", ".dynstr"), ".dynsym", ".dynstr"
_WORD = re.compile(rb"\w+", re.ASCII)
_LONGEST = 64
# Of one beginning, and of one file's symbols: a plug-in has some thousands.
_MOST_PLACES = 4096
_MOST_SYMBOLS = 65_536
_UNDEFINED = 0


def words(data: mmap.mmap, of: ElfForm, starts: Sequence[bytes]) -> frozenset[str]:
    """Return the texts of one word that begin in one of several ways: ncclNetPlugin_v8.

    Reads no more than the file once for each; raises one of `elf_format.DAMAGE`.
    """
    texts = list(_parts(data, of, _TEXTS))
    return frozenset(
        word for start in starts for part in texts for word in _beginning(data, part, start)
    )


def exported(data: mmap.mmap, of: ElfForm, start: str) -> frozenset[str]:
    """Return the names of symbols that a library defines for others, of one beginning.

    Raises one of `elf_format.DAMAGE`.
    """
    parts = {part.name: part for part in _parts(data, of, (_SYMBOLS, _NAMES))}
    table, names = parts.get(_SYMBOLS), parts.get(_NAMES)
    if table is None or names is None:
        return frozenset()
    layout = struct.Struct(of.order + ("IBBHQQ" if of.wide else "IIIBBH"))
    section = 3 if of.wide else 5
    symbols = (
        layout.unpack_from(data, table.offset + number * layout.size)
        for number in range(min(table.size // layout.size, _MOST_SYMBOLS))
    )
    defined = (symbol[0] for symbol in symbols if symbol[section] != _UNDEFINED)
    prefix = start.encode()
    return frozenset(
        elf_format.string(data, names.offset + at)
        for at in defined
        if data[names.offset + at : names.offset + at + len(prefix)] == prefix
    )


def _parts(data: mmap.mmap, of: ElfForm, kinds: Sequence[str]) -> Iterator[ElfSection]:
    """Yield sections of some names, in all no more than the file: others lie over each other."""
    remaining = len(data)
    for section in elf_format.sections(data, of):
        if any(section.name == kind or section.name.startswith(f"{kind}.") for kind in kinds):
            remaining -= section.size
            if remaining < 0:
                raise IndexError("sections are larger than their file")
            yield section


def _beginning(data: mmap.mmap, part: ElfSection, start: bytes) -> Iterator[str]:
    at, end = part.offset, part.offset + part.size
    for _ in range(_MOST_PLACES):
        at = data.find(start, at, end)
        if at < 0:
            return
        text, is_whole, _ = data[at : min(at + _LONGEST, end)].partition(b"\0")
        is_begun = at > part.offset and _WORD.match(data[at - 1 : at])
        if is_whole and not is_begun and _WORD.fullmatch(text):
            yield text.decode()
        at += len(start)
