"""Which build of a library: a build-id where there is one, else its size and a digest."""

import importlib.util
import struct
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dlcontainer.resources import PROBE


@pytest.fixture
def probed() -> ModuleType:
    spec = importlib.util.spec_from_file_location("attested", PROBE / "attest_libraries.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def elf(build: bytes, *, wide: bool, order: str) -> bytes:
    """Make a file with one note and no more than a reader of notes needs."""
    note = struct.pack(order + "III", 4, len(build), 3) + b"GNU\0" + build
    begin, size = (64, 56) if wide else (52, 32)
    head = bytearray(begin)
    head[:6] = b"\x7fELF" + bytes([2 if wide else 1, 1 if order == "<" else 2])
    at = begin + size
    if wide:
        struct.pack_into(order + "Q", head, 32, begin)
        struct.pack_into(order + "HH", head, 54, size, 1)
        entry = struct.pack(order + "IIQQQQQQ", 4, 4, at, 0, 0, len(note), len(note), 4)
    else:
        struct.pack_into(order + "I", head, 28, begin)
        struct.pack_into(order + "HH", head, 42, size, 1)
        entry = struct.pack(order + "IIIIIIII", 4, at, 0, 0, len(note), len(note), 4, 4)
    return bytes(head) + entry + note + bytes(64)


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_build_id(probed: ModuleType, tmp_path: Path, wide: bool, order: str) -> None:
    file = tmp_path / "lib x.so.1"
    file.write_bytes(elf(b"\x01\xabcd", wide=wide, order=order))
    assert probed.builds([str(file)], [str(tmp_path)]) == {"lib x.so.1": "01ab6364"}


def test_without_one_the_content_counts(probed: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.so"
    found = []
    for content in (b"", b"\x7fELF", b"\x7fELF" + bytes(3 << 20), bytes(3 << 20) + b"x"):
        file.write_bytes(content)
        found.append(probed.builds([str(file)], [str(tmp_path)])["a.so"])
    assert len(set(found)) == 4
    assert all(" bytes, " in text for text in found)


def test_a_table_that_points_nowhere_is_no_error(probed: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "a.so"
    bad = bytearray(elf(b"abcd", wide=True, order="<"))
    struct.pack_into("<Q", bad, 32, 1 << 40)
    file.write_bytes(bytes(bad))
    assert probed.builds([str(file)], [str(tmp_path)]) == {"a.so": None}
    assert probed.builds([str(tmp_path / "gone.so")], [str(tmp_path)]) == {"gone.so": None}


def test_pythons_own_and_the_systems_are_left_out(probed: ModuleType) -> None:
    import _json

    own = getattr(_json, "__file__", "/usr/lib/python3/lib-dynload/_json.so")
    assert probed.builds([own, "/lib/x86_64-linux-gnu/libc.so.6"], sys.path) == {}
