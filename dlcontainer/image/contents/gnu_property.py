"""The level of x86-64 that a linker wrote into a file, and that glibc's loader holds the CPU to.

Source: x86-64 psABI, "Program Property"; Linux Extensions to gABI, ".note.gnu.property". glibc 2.36
refuses a file of a level that the CPU has not: "CPU ISA level is lower than required".
"""

import mmap
import struct

from dlcontainer.image.contents import elf_format
from dlcontainer.image.contents.elf_format import ElfForm

_X86_64 = 62
_SEGMENT = 0x6474E553
_NOTE_HEAD = struct.Struct("<3I4s")
_PROPERTY_HEAD = struct.Struct("<2I")
_OF_PROPERTIES = (4, 5, b"GNU\0")  # size of the name, type, name
_ISA_1_NEEDED = 0xC0008002
_LEVELS = 4  # a bit each, the baseline's first
# Linkers write 32 or 48 bytes.
_MOST_BYTES = 4096


def x86_level(data: mmap.mmap, of: ElfForm) -> int:
    """Return the level that a file needs, 1 to 4; 0 where it says none.

    Raises one of `elf_format.DAMAGE`.
    """
    if of.machine != _X86_64 or not of.wide or of.order != "<":
        return 0
    bits = 0
    for header in elf_format.headers(data, of):
        if header.kind == _SEGMENT:
            bits |= _needed(data[header.offset : header.offset + min(header.size, _MOST_BYTES)])
    return (bits & (1 << _LEVELS) - 1).bit_length()


def _needed(note: bytes) -> int:
    """Read the bits of a note's property; 0 of another or a damaged note, as the loader does."""
    if len(note) < _NOTE_HEAD.size:
        return 0
    name_size, size, kind, name = _NOTE_HEAD.unpack_from(note)
    if (name_size, kind, name) != _OF_PROPERTIES:
        return 0
    at, end = _NOTE_HEAD.size, _NOTE_HEAD.size + min(size, len(note) - _NOTE_HEAD.size)
    while at + _PROPERTY_HEAD.size <= end:
        kind, length = _PROPERTY_HEAD.unpack_from(note, at)
        at += _PROPERTY_HEAD.size
        if kind == _ISA_1_NEEDED:
            return int.from_bytes(note[at : min(at + 4, end)], "little")
        at += length + -length % 8
    return 0
