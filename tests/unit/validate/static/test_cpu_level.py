"""The level of x86-64 that files ask for, against the site's processor.

A library of GCC 12's `-Wl,-z,x86-64-v3` has the property 0xc0008002 with the bit 4; with a bit that
the CPU has not glibc 2.36 said "CPU ISA level is lower than required".
"""

import struct
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.image.contents import elf
from tests.elves import AARCH64, Elf, texts
from tests.unpacked import LIB, PACKAGES, PYTHON, USES_C, findings, only

NEEDED, USED, SHADOW_STACK = 0xC0008002, 0xC0010002, 0xC0000002
TOOLS = "/opt/demo/bin/tool"


def cpu(target: str | None) -> dict[str, Any]:
    facts = {"model": "a CPU", "cores": 64, **({"target": target} if target else {})}
    return {"cpu": {**facts, "remembered": list(facts)}}


def needs(bits: int, **more: Any) -> Elf:
    return Elf(**{**USES_C, "properties": [(SHADOW_STACK, 3), (NEEDED, bits), (USED, 15)], **more})


@pytest.mark.parametrize(
    ("bits", "target", "level"),
    [
        (0b0001, "x86-64", ""),
        (0b0010, "x86-64", "error"),
        (0b0100, "ivybridge", "error"),
        (0b0111, "ivybridge", "error"),
        (0b0111, "haswell", ""),
        (0b0100, "znver3", ""),
        (0b1000, "znver3", "error"),
        (0b1000, "znver4", ""),
        # Phi has AVX-512, and not all of it that level 4 asks for
        (0b1000, "knl", "error"),
        (0b0100, "knl", ""),
        (0b0100, None, "not decided"),
        (0b0100, "own-cpu", "not decided"),
        (0b0001, None, ""),
    ],
)
def test_levels(tmp_path: Path, bits: int, target: str | None, level: str) -> None:
    found = findings(tmp_path, {PYTHON: needs(bits)}, **cpu(target))
    if not level:
        assert found == []
        return
    one = only(found)
    assert (one.rule, one.level, one.file) == ("cpu-level", level, PYTHON)
    name = f"x86-64-v{bits.bit_length()}"
    assert one.what.startswith(f"{PYTHON} needs {name}; the site's processor is ")


def test_what_is_required_is_named_first(tmp_path: Path) -> None:
    files = {TOOLS: needs(4), f"{PACKAGES}/a/_x.abi3.so": needs(4), PYTHON: needs(4)}
    one = only(findings(tmp_path, files, **cpu("x86-64-v2")))
    assert (one.level, one.file) == ("error", PYTHON)
    assert one.what.startswith(f"{PYTHON} and 2 more need x86-64-v3; ")


def test_what_is_not_required_warns(tmp_path: Path) -> None:
    files = {TOOLS: needs(4), f"{LIB}/libalone.so.1": needs(4)}
    one = only(findings(tmp_path, files, **cpu("x86-64-v2")))
    assert (one.level, one.file) == ("warning", TOOLS)


def test_a_library_that_the_python_loads(tmp_path: Path) -> None:
    files = {PYTHON: Elf(needed=("libfast.so.1",)), f"{LIB}/libfast.so.1": needs(8)}
    one = only(findings(tmp_path, files, **cpu("znver3")))
    assert (one.level, one.file) == ("error", f"{LIB}/libfast.so.1")


@pytest.mark.parametrize(
    "path",
    [
        f"{LIB}/glibc-hwcaps/x86-64-v3/libfast.so.1",
        "/opt/demo/lib/libmkl_avx512.so.2",
        "/opt/demo/lib/libmkl_vml_avx2.so.2",
        "/opt/demo/lib/libggml-cpu-skylakex.so",
    ],
)
def test_what_is_loaded_only_where_it_runs(tmp_path: Path, path: str) -> None:
    one = only(findings(tmp_path, {path: needs(4)}, **cpu("x86-64-v2")))
    assert (one.rule, one.level, one.file) == ("cpu-level", "note", path)
    assert one.what == f"{path} chooses its code by the CPU when it runs"


def test_libraries_that_ask_the_cpu(tmp_path: Path) -> None:
    """Two in one note; what such a file needs by its note is held all the same."""
    blas, torch = f"{LIB}/libscipy_openblas64_-r0-0cf96a72.3.23.so", f"{LIB}/libtorch_cpu.so"
    for_one = f"{LIB}/libopenblas.so.0"
    files = {blas: Elf(sections=texts("gotoblas_dynamic_init")), torch: Elf(), for_one: Elf()}
    one = only(findings(tmp_path / "asks", files, **cpu("x86-64")))
    assert one.what == f"{blas} and 1 more choose their code by the CPU when it runs"
    found = findings(tmp_path / "needs", {torch: needs(4)}, **cpu("x86-64-v2"))
    assert [one.level for one in found] == ["warning", "note"]


def test_another_architecture_has_no_levels(tmp_path: Path) -> None:
    files = {f"{PACKAGES}/x.abi3.so": needs(4, machine=AARCH64)}
    assert all(one.rule != "cpu-level" for one in findings(tmp_path, files, **cpu("x86-64")))


def test_code_that_is_used_and_not_needed(tmp_path: Path) -> None:
    """Dispatch: compilers note what is there, and the loader does not look."""
    files = {PYTHON: Elf(**USES_C, properties=[(USED, 15)])}
    assert findings(tmp_path, files, **cpu("x86-64")) == []


@pytest.mark.parametrize("cut", range(1, 64))
def test_a_damaged_note_is_none(tmp_path: Path, cut: int) -> None:
    """As for the loader: a note that ends too early says nothing, and damages nothing."""
    data = needs(4).data()
    at = data.index(struct.pack("<3I", 4, 48, 5) + b"GNU\0")
    header = data.index(struct.pack("<I", 0x6474E553))
    torn = bytearray(data)
    torn[header + 32 : header + 40] = struct.pack("<Q", 64 - cut)
    (tmp_path / "x").write_bytes(torn)
    described = elf.read_object(tmp_path / "x")
    assert described is not None
    assert described.x86_level in (0, 3)
    torn[header + 8 : header + 16] = struct.pack("<Q", 2**64 - cut)
    torn[at : at + 4] = b"\xff" * 4
    (tmp_path / "x").write_bytes(torn)
    described = elf.read_object(tmp_path / "x")
    assert described is not None
    assert described.x86_level == 0
