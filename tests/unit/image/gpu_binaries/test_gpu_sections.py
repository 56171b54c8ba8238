"""Device code in ELF files: each kind, compressed ones, and what lies about its lengths."""

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from dlcontainer.image.contents import zstd
from dlcontainer.image.gpu_binaries import gpu_sections
from dlcontainer.image.gpu_binaries.code_counts import DeviceCode
from tests.elves import PPC64, Elf, bundle, fatbin, packed
from tests.skips import skip

GFX = ("gfx90a:xnack-", "gfx942", "gfx9-4-generic")


def read(folder: Path, sections: Mapping[str, bytes], **changes: object) -> DeviceCode:
    path = folder / "x.so"
    path.write_bytes(Elf(sections=sections, **changes).data())  # type: ignore[arg-type]
    return gpu_sections.read(path)


def test_containers_of_nvidia(tmp_path: Path) -> None:
    first = fatbin(("elf", 90, 0), ("elf", 90, 0x100000), ("ptx", 90, 0x108000), isa=(8, 8))
    second = fatbin(("elf", 100, 0x1200000), ("ptx", 80, 0), isa=(7, 8))
    last = fatbin(("ptx", 80, 0), isa=(8, 0))
    code = read(tmp_path, {".nv_fatbin": first + bytes(8) + second + last})
    assert code.codes == {"sm_90": 1, "sm_90a": 1, "compute_90a": 1, "sm_100f": 1, "compute_80": 2}
    # The newest of several: each kernel must be compiled.
    assert code.ptx_isa == {"compute_90a": (8, 8), "compute_80": (8, 0)}
    assert code.notes == ()


def test_a_cubin_without_kernels_is_no_code(tmp_path: Path) -> None:
    section = {".nv_fatbin": fatbin(("elf", 75, 0), content=b"\x7fELF".ljust(64) + b".nv.info")}
    assert read(tmp_path, section).is_empty
    section = {".nv_fatbin": fatbin(("elf", 75, 0), content=b"\x7fELF".ljust(64) + b".text.add")}
    assert read(tmp_path, section).codes == {"sm_75": 1}


def test_code_that_was_not_linked_never_runs(tmp_path: Path) -> None:
    assert read(tmp_path, {"__nv_relfatbin": fatbin(("elf", 90, 0))}).is_empty


@pytest.mark.parametrize("section", [".ldata", ".cask_resource", ".rodata", ".lrodata"])
def test_code_among_the_data_of_nvidias_own_libraries(tmp_path: Path, section: str) -> None:
    magic = struct.pack("<I", 0xBA55ED50)
    # Other data: the magic number by itself, out of line, with a length beyond the section.
    other = magic * 4 + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**40) + b"\1" * 4
    data = other.ljust(64, b"\1") + fatbin(("elf", 90, 0), ("ptx", 90, 0))
    code = read(tmp_path, {".nv_fatbin": fatbin(("elf", 75, 0), ("elf", 90, 0)), section: data})
    assert code.codes == {"sm_75": 1, "sm_90": 2, "compute_90": 1}
    assert code.notes == ()
    assert read(tmp_path, {section: data}).is_empty  # a tool for GPUs, without code of its own


def test_a_big_endian_host_s_own_order_is_not_the_code_s(tmp_path: Path) -> None:
    code = read(tmp_path, {".nv_fatbin": fatbin(("elf", 70, 0))}, machine=PPC64)
    assert code.codes == {"sm_70": 1}


def test_bundles_of_amd(tmp_path: Path) -> None:
    code = read(tmp_path, {".hip_fatbin": bundle(*GFX) + bytes(4096) + bundle("gfx908")})
    assert code.codes == {"gfx90a:xnack-": 1, "gfx942": 1, "gfx9-4-generic": 1, "gfx908": 1}
    assert code.notes == ()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_compressed_bundles(tmp_path: Path, version: int) -> None:
    plain = bundle(*GFX)
    one = packed(plain, zlib.compress(plain), version).ljust(4096, b"\0")
    code = read(tmp_path, {".hip_fatbin": one * 3})
    assert code.codes == dict.fromkeys(GFX, 3)
    assert code.notes == ()


def test_zstd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        import zstandard
    except ImportError:
        skip("no zstandard: pip install zstandard")
    plain = bundle(*GFX)
    section = {".hip_fatbin": packed(plain, zstandard.compress(plain), method=1)}
    assert read(tmp_path, section).codes == dict.fromkeys(GFX, 1)
    torn = {".hip_fatbin": packed(plain, b"\x28\xb5\x2f\xfd" + b"\xff" * 40, method=1)}
    assert "damaged zstd data" in read(tmp_path, torn).notes[0]
    monkeypatch.setattr(zstd, "_module", lambda name: None)
    assert read(tmp_path, section).notes == (f"a bundle of AMD code was not read: {zstd.MISSING}",)


PLAIN = bundle(*GFX)
SQUEEZED = zlib.compress(PLAIN)


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (packed(PLAIN, SQUEEZED, 3)[:-5], "it claims"),
        (b"CCOB" + struct.pack("<2HQQ", 3, 0, 2**63, 9) + bytes(64), "it claims"),
        (b"CCOB" + struct.pack("<2HQQ", 3, 0, 0, 9) + bytes(64), "it claims 0 bytes"),
        (b"CCOB" + struct.pack("<2H", 9, 0) + bytes(64), "version 9"),
        (packed(PLAIN, SQUEEZED, method=7), "compression method 7"),
        (packed(PLAIN, zlib.compress(b"something else")), "does not unpack to a bundle"),
        (packed(PLAIN, zlib.compress(PLAIN[:60])), "its table of targets is incomplete"),
        (packed(PLAIN, b"no zlib at all"), "was not read"),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 2**60), "it lists"),
        (
            b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<4Q", 1, 0, 0, 2**40) + bytes(64),
            "a target's name of",
        ),
        (b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<4Q", 1, 2**40, 8, 4) + b"host", "ends beyond"),
    ],
)
def test_bundles_that_lie(tmp_path: Path, data: bytes, note: str) -> None:
    code = read(tmp_path, {".hip_fatbin": data})
    assert code.codes == {}
    assert any(note in line for line in code.notes), code.notes


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**63) + bytes(80), "ends beyond its section"),
        (struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 80) + bytes(80), "head that is too short"),
        (
            struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 128)
            + struct.pack("<HHIQ", 2, 0x101, 64, 2**62)
            + bytes(112),
            "",
        ),
    ],
)
def test_containers_that_lie(tmp_path: Path, data: bytes, note: str) -> None:
    code = read(tmp_path, {".nv_fatbin": data})
    assert code.codes == {}
    assert any(note in line for line in code.notes) or not note


@pytest.mark.timeout(60)
def test_a_section_of_nothing_but_beginnings(tmp_path: Path) -> None:
    """Each costs a step, and none a search through the rest."""
    magics = struct.pack("<I", 0xBA55ED50) * 500_000
    code = read(tmp_path, {".nv_fatbin": magics, ".hip_fatbin": b"CCOB" * 500_000})
    assert code.codes == {}
    assert any("100000 bundles" in note for note in code.notes)
    assert len(code.notes) < 20


def test_what_has_no_sections(tmp_path: Path) -> None:
    path = tmp_path / "x.so"
    whole = Elf(sections={".nv_fatbin": fatbin(("elf", 90, 0))}).data()
    for start, number in ((40, 2**63), (40, 0), (58, 0), (60, 0xFFFF), (62, 0xFFFF)):
        size = 8 if start == 40 else 2
        path.write_bytes(whole[:start] + number.to_bytes(size, "little") + whole[start + size :])
        assert gpu_sections.read(path).codes in ({}, {"sm_90": 1})
    path.write_bytes(b"x" * 200)
    assert gpu_sections.read(path).is_empty
