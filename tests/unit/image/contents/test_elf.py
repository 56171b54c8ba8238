"""Names in shared libraries: made by hand, and one of this machine's."""

import struct
from pathlib import Path

import pytest

from dlcontainer.image.contents import TreeEntry, elf


def library(wide: bool, order: str, needed: tuple[str, ...] = ("libm.so.6", "libc.so.6")) -> bytes:
    """Make a library of two segments: all of the file at 0x1000, and the dynamic section."""
    word, size = ("Q", 8) if wide else ("I", 4)
    head, entry = (64, 56) if wide else (52, 32)
    strings = b"\0libx.so.1\0" + b"".join(name.encode() + b"\0" for name in needed)
    places = [strings.index(name.encode()) for name in needed]
    dynamic_at = head + 2 * entry
    tags = [(1, place) for place in places] + [(14, 1)]
    strings_at = dynamic_at + (len(tags) + 2) * 2 * size
    tags += [(5, 0x1000 + strings_at), (0, 0)]
    dynamic = b"".join(struct.pack(order + 2 * word, *pair) for pair in tags)
    total = strings_at + len(strings)
    ident = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2, 1]) + bytes(9)
    file_head = ident + struct.pack(order + "HHI" + 3 * word, 3, 0, 1, 0, head, 0)
    file_head += struct.pack(order + "I6H", 0, head, entry, 2, 0, 0, 0)
    assert len(file_head) == head
    segments = b""
    for kind, at, length in ((1, 0, total), (2, dynamic_at, len(dynamic))):
        numbers = (at, 0x1000 + at, 0x1000 + at, length, length)
        if wide:
            segments += struct.pack(order + "II6Q", kind, 0, *numbers, 1)
        else:
            segments += struct.pack(order + "8I", kind, *numbers, 0, 1)
    return file_head + segments + dynamic + strings


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_names(tmp_path: Path, wide: bool, order: str) -> None:
    path = tmp_path / "libx.so.1.2"
    path.write_bytes(library(wide, order))
    (found,) = elf.libraries({"/opt/libx.so.1.2": path})
    assert (found.path, found.soname) == ("/opt/libx.so.1.2", "libx.so.1")
    assert found.needed == ("libm.so.6", "libc.so.6")


def test_what_is_none_or_damaged(tmp_path: Path) -> None:
    whole = library(wide=True, order="<")
    path = tmp_path / "x.so"
    for data in (b"", b"/* GNU ld script */\nGROUP ( libc.so.6 )" * 9, bytes(200)):
        path.write_bytes(data)
        assert elf.libraries({"/x.so": path}) == ()
    for end in range(5, len(whole), 7):
        path.write_bytes(whole[:end])
        for one in elf.libraries({"/x.so": path}):  # what is read is read right, or not at all
            assert one.soname in ("", "libx.so.1")
    assert elf.libraries({"/gone.so": tmp_path / "gone.so"}) == ()


@pytest.mark.parametrize("number", [2**64 - 1, 2**63, 2**63 - 1, 2**40])
def test_numbers_that_lead_out_of_the_file(tmp_path: Path, number: int) -> None:
    """Wherever such a number stands: what is read is read right, or not at all."""
    whole = library(wide=True, order="<")
    path = tmp_path / "x.so"
    for at in range(8, len(whole) - 8, 4):
        path.write_bytes(whole[:at] + struct.pack("<Q", number) + whole[at + 8 :])
        assert len(elf.libraries({"/x.so": path})) <= 1


def test_a_real_one() -> None:
    (path, *_) = sorted(Path("/").glob("usr/lib*/**/libm.so.6"))
    (found,) = elf.libraries({"/libm.so.6": path})
    assert (found.soname, found.needed[0]) == ("libm.so.6", "libc.so.6")


@pytest.mark.parametrize(
    ("name", "size", "is_one"),
    [
        ("libx.so", 100, True),
        ("libx.so.1.2", 100, True),
        ("_C.cpython-311-x86_64-linux-gnu.so", 100, True),
        ("libx.so", 10, False),
        ("libx.solo", 100, False),
        ("also.txt", 100, False),
    ],
)
def test_which_files(name: str, size: int, is_one: bool) -> None:
    assert elf.is_library(TreeEntry(path=f"/opt/{name}", kind="-", size=size)) is is_one
    assert not elf.is_library(TreeEntry(path=f"/opt/{name}", kind="l", size=size))


def test_the_versions_that_a_real_one_needs(tmp_path: Path) -> None:
    import _ctypes

    path = Path(_ctypes.__file__)
    found = elf.version_needs(path)
    assert any(name.startswith("GLIBC_2.") for name in found)
    # Each is a text of the file, and none is cut or runs on.
    assert all(b"\0" + name.encode() + b"\0" in path.read_bytes() for name in found)
    for data in (b"x" * 90, path.read_bytes()[:700]):
        (tmp_path / "x.so").write_bytes(data)
        with pytest.raises(ValueError, match="library"):
            elf.version_needs(tmp_path / "x.so")


@pytest.mark.timeout(60)
def test_a_library_that_names_itself_over_and_over(tmp_path: Path) -> None:
    """A million entries that name a string without end, in a few MB."""
    whole = bytearray(library(wide=True, order="<"))
    (at,) = struct.unpack_from("<Q", whole, 64 + 56 + 8)
    entries = struct.pack("<2Q", 1, 1) * 1_000_000
    place = len(whole)
    struct.pack_into("<QQQQ", whole, 64 + 56 + 8, place, 0, 0, len(entries))
    path = tmp_path / "x.so"
    path.write_bytes(bytes(whole) + entries + b"x" * 1_000_000)
    assert at
    for one in elf.libraries({"/x.so": path}):
        assert len(one.needed) <= 16_384
    assert elf.version_needs.__doc__
