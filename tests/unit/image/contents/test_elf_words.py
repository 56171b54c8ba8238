"""Texts and exports of ELF files: whole words, within bounds, whatever a file claims."""

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from dlcontainer.image.contents import elf_format, elf_words
from tests.elves import Elf, symbols, texts

START = "ncclNetPlugin_v"


def words(folder: Path, sections: Mapping[str, bytes], *starts: str) -> frozenset[str]:
    (folder / "x.so").write_bytes(Elf(sections=sections).data())
    with elf_format.mapped(folder / "x.so") as data:
        form = elf_format.form(data)
        assert form is not None
        return elf_words.words(data, form, [start.encode() for start in starts])


def exported(folder: Path, sections: Mapping[str, bytes]) -> frozenset[str]:
    (folder / "x.so").write_bytes(Elf(sections=sections).data())
    with elf_format.mapped(folder / "x.so") as data:
        form = elf_format.form(data)
        assert form is not None
        return elf_words.exported(data, form, START)


def test_words_stand_alone(tmp_path: Path) -> None:
    """A message that names a version asks for none."""
    section = texts(
        "ncclNetPlugin_v8",
        "Failed to find ncclNetPlugin_v7 symbol.",
        "ncclNetPlugin_v4 and lower",
        "XncclNetPlugin_v3",
        "ncclNetPlugin_v9",
        "PMI_FD",
    )
    assert words(tmp_path, section, START) == {"ncclNetPlugin_v8", "ncclNetPlugin_v9"}
    assert words(tmp_path, section, "PMI_FD", "cxip_") == {"PMI_FD"}
    split = {".rodata.str1.8": section[".rodata"], ".text": texts("ncclNetPlugin_v2")[".rodata"]}
    assert words(tmp_path, split, START) == {"ncclNetPlugin_v8", "ncclNetPlugin_v9"}
    assert words(tmp_path, {}, START) == frozenset()


def test_exports_are_defined(tmp_path: Path) -> None:
    section = symbols("ncclNetPlugin_v8", "other", used=["ncclNetPlugin_v7"])
    assert exported(tmp_path, section) == {"ncclNetPlugin_v8"}
    assert exported(tmp_path, {".dynsym": section[".dynsym"]}) == frozenset()
    assert exported(tmp_path, {**section, ".dynsym": section[".dynsym"][:30]}) == frozenset()


def test_a_name_that_leads_out_of_the_file(tmp_path: Path) -> None:
    section = symbols("ncclNetPlugin_v8")
    for at in (0, 2**31, 2**32 - 1):
        table = bytes(24) + struct.pack("<IBBHQQ", at, 0x11, 0, 7, 0x1000, 8)
        assert exported(tmp_path, {**section, ".dynsym": table}) == frozenset()


def test_one_word_over_and_over(tmp_path: Path) -> None:
    """Some thousands of places are read, and the rest is left."""
    section = {".rodata": b"\0" + b"PMI_FD\0" * 200_000 + b"PMI_FDS\0"}
    assert words(tmp_path, section, "PMI_FD") == {"PMI_FD"}
    endless = {".rodata": b"PMI_FD" + b"x" * 1_000_000}
    assert words(tmp_path, endless, "PMI_FD") == frozenset()


@pytest.mark.parametrize("size", [2**20, 2**40, 2**63])
def test_sections_that_lie_over_each_other(tmp_path: Path, size: int) -> None:
    """Thousands of sections, each as long as the file: read once, at most."""
    data = bytearray(Elf(sections={".rodata": bytes(2**20), ".dynstr": bytes(8)}).data())
    (start,) = struct.unpack_from("<Q", data, 40)
    for number in (2, 3):
        struct.pack_into("<QQ", data, start + number * 64 + 24, 0, size)
    (tmp_path / "x.so").write_bytes(data)
    with elf_format.mapped(tmp_path / "x.so") as mapped:
        form = elf_format.form(mapped)
        assert form is not None
        with pytest.raises(elf_format.DAMAGE):
            elf_words.words(mapped, form, [b"PMI_FD"])
