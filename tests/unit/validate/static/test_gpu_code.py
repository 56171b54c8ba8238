"""GPU code in an image's files, against the GPUs and the driver of a site.

Containers and bundles are made by hand, in the layout of fatbinary 13.5.37 and of a real wheel.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf, bundle, fatbin
from tests.unpacked import (
    AMD,
    DEBIAN,
    NVIDIA,
    PACKAGES,
    USES_C,
    findings,
    lines,
    only,
)

TORCH = f"{PACKAGES}/torch/lib/libtorch.so"
KERNELS = f"{PACKAGES}/kernels/lib/libkernels.so"
OF_ONE, OF_FAMILY = 0x100000, 0x200000
# The architectures of real builds, as cuobjdump lists them: torch 2.14.1 (cu13), cupy-cuda12x.
TORCH_2_14 = [("elf", sm, 0) for sm in (75, 80, 86, 89, 90, 100, 103, 120)]
CUPY = [*(("elf", sm, 0) for sm in (50, 60, 70, 75, 80, 86, 89, 90, 100, 120)), ("ptx", 100, 0)]


def code(*entries: Any, isa: tuple[int, int] = (8, 4), needed: str = "") -> Elf:
    more: dict[str, Any] = {**USES_C, "needed": ("libc.so.6", *([needed] if needed else []))}
    return Elf(soname="libtorch.so", sections={".nv_fatbin": fatbin(*entries, isa=isa)}, **more)


def at(folder: Path, files: Any, rule: str = "gpu-code", **accelerator: Any) -> Any:
    gpu = {**NVIDIA, **accelerator}
    return [one for one in findings(folder, files, accelerator=gpu, os=DEBIAN) if one.rule == rule]


@pytest.mark.parametrize(
    ("entries", "target", "level", "what"),
    [
        ([("elf", 90, 0)], "sm_90", "note", "native code for sm_90 (sm_90)"),
        ([("elf", 80, 0)], "sm_86", "note", "code of a related GPU for sm_86 (sm_80)"),
        ([("elf", 90, OF_ONE)], "sm_90", "note", "native code for sm_90 (sm_90a)"),
        # `a` is for that very part, as cubin and as PTX
        ([("elf", 90, OF_ONE), ("ptx", 90, OF_ONE)], "sm_100", "error", "only compute_90a, sm_90a"),
        ([("elf", 100, OF_FAMILY)], "sm_103", "note", "a related GPU for sm_103 (sm_100f)"),
        ([("elf", 100, OF_FAMILY)], "sm_120", "error", "no GPU code for sm_120, only sm_100f"),
        ([("elf", 80, 0)], "sm_90", "error", "no GPU code for sm_90, only sm_80"),
        # an embedded part's code and that of others never mix
        ([("elf", 80, 0)], "sm_87", "error", "no GPU code for sm_87"),
        (TORCH_2_14, "sm_70", "error", "no GPU code for sm_70"),
        (TORCH_2_14, "sm_90", "note", "native code"),
        (CUPY, "sm_70", "note", "native code"),
        (CUPY, "sm_103", "note", "code of a related GPU for sm_103 (sm_100)"),
    ],
)
def test_native_related_or_none(
    tmp_path: Path, entries: Any, target: str, level: str, what: str
) -> None:
    one = only(at(tmp_path, {TORCH: code(*entries)}, target=target))
    assert (one.level, one.file) == (level, TORCH)
    assert what in one.what


@pytest.mark.parametrize(
    ("isa", "changes", "level", "why"),
    [
        # a driver of a newer line of CUDA compiles all of an older one
        ((8, 8), {"driver": "580.65.06"}, "warning", "PTX of CUDA 12.9: the first start takes"),
        # 550 runs programs of all of CUDA 12, and compiles PTX of its own release and older
        ((8, 8), {"driver": "550.54.15"}, "not decided", "the site's newest CUDA is open"),
        ((8, 8), {"driver": "550.54.15", "toolkit": "12.4"}, "error", "newer than the site's"),
        ((8, 4), {"driver": "550.54.15", "toolkit": "12.4"}, "warning", "PTX of CUDA 12.4"),
        ((8, 0), {"driver": "470.57.02"}, "error", "PTX of CUDA 12.0 is newer"),
        ((8, 0), {"driver": None}, "not decided", "PTX of CUDA 12.0"),
        ((99, 1), {}, "not decided", "PTX ISA 99.1"),
    ],
)
def test_ptx_and_the_driver(
    tmp_path: Path, isa: tuple[int, int], changes: Any, level: str, why: str
) -> None:
    files = {TORCH: code(("elf", 80, 0), ("ptx", 80, 0), isa=isa)}
    (one,) = at(tmp_path, files, **changes)
    assert one.what == f"{TORCH}: for sm_90 only compute_80, compiled when a program starts"
    assert one.level == level, one.why
    assert why in one.why


def test_others_code_may_be_for_other_gpus(tmp_path: Path) -> None:
    """A package of kernels for one newer part, beside a PyTorch that runs."""
    files = {TORCH: code(("elf", 80, 0)), KERNELS: code(("elf", 90, OF_ONE))}
    assert [(one.level, one.file) for one in at(tmp_path, files, target="sm_80")] == [
        ("warning", KERNELS),
        ("note", TORCH),
    ]


def test_a_library_beside_the_framework_s_own(tmp_path: Path) -> None:
    """As cuSPARSELt, which a PyTorch is linked to and has no code for older GPUs."""
    beside = f"{PACKAGES}/nvidia/lib/libbeside.so"
    torch = Elf(
        needed=("libbeside.so", "libc.so.6"),
        runpath="$ORIGIN/../../nvidia/lib",
        sections={".nv_fatbin": fatbin(("elf", 75, 0))},
    )
    files = {TORCH: torch, beside: code(("elf", 80, 0))}
    found = at(tmp_path, files, target="sm_75")
    assert [(one.level, one.file) for one in found] == [("warning", beside), ("note", TORCH)]
    # The other way round it is of no use, whatever NCCL can.
    files[TORCH] = replace(torch, sections={".nv_fatbin": fatbin(("elf", 90, 0))})
    found = at(tmp_path / "none", files, target="sm_80", model="NVIDIA A100")
    assert [(one.level, one.file) for one in found] == [("error", TORCH), ("note", beside)]


@pytest.mark.parametrize(
    ("target", "level", "what"),
    [
        ("gfx90a", "note", "native code for gfx90a (gfx90a)"),
        ("gfx90a:xnack+", "note", "native code"),
        ("gfx942", "note", "native code for gfx942 (gfx942:xnack-)"),
        ("gfx942:xnack+", "error", "no GPU code for gfx942:xnack+"),
        ("gfx908", "error", "no GPU code for gfx908, only gfx90a, gfx942:xnack-"),
    ],
)
def test_code_of_amd(tmp_path: Path, target: str, level: str, what: str) -> None:
    sections = {".hip_fatbin": bundle("gfx90a", "gfx942:xnack-")}
    files = {TORCH: Elf(soname="libtorch.so", sections=sections, **USES_C)}
    (one,) = at(tmp_path, files, **{**AMD, "target": target, "driver": None})
    assert one.level == level
    assert what in one.what


def test_code_of_another_vendor(tmp_path: Path) -> None:
    (one,) = at(tmp_path, {TORCH: code(("elf", 90, 0))}, **{**AMD, "driver": None})
    assert (one.level, one.what.partition(": ")[2]) == (
        "error",
        "no GPU code for gfx90a, only sm_90",
    )


def test_a_site_that_does_not_say(tmp_path: Path) -> None:
    one = only(at(tmp_path, {TORCH: code(("elf", 90, 0))}, target=None))
    assert (one.level, one.fix) == ("not decided", "write accelerator.target: sm_90, gfx90a …")
    # Without GPUs there is nothing to hold it against.
    assert findings(tmp_path / "cpu", {TORCH: code(("elf", 90, 0))}) == []


def test_an_image_without_gpu_code(tmp_path: Path) -> None:
    one = only(at(tmp_path, {}))
    assert (one.level, one.what) == (
        "note",
        "no file of the image has GPU code that this tool reads",
    )


@pytest.mark.parametrize(
    ("needed", "driver", "level", "what"),
    [
        ("libcudart.so.13", "550.54.15", "error", "CUDA 13, which needs driver 580 or newer"),
        ("libcudart.so.12", "550.54.15", "", ""),
        ("libcudart.so.12", "470.57.02", "error", "CUDA 12, which needs driver 525"),
        ("libcudart.so.11.0", "470.57.02", "", ""),
        ("libcudart.so.10.2", "418.39", "error", "CUDA 10.2, which needs driver 440.33"),
        ("libcudart.so.12", None, "not decided", "not stated (accelerator.driver)"),
        ("libcudart.so.99", "550.54.15", "not decided", "needs CUDA 99"),
    ],
)
def test_cuda_and_the_driver(
    tmp_path: Path, needed: str, driver: str | None, level: str, what: str
) -> None:
    files = {
        TORCH: code(("elf", 90, 0), needed=needed),
        f"{PACKAGES}/torch/lib/{needed}": Elf(soname=needed),
    }
    found = at(tmp_path, files, rule="gpu-driver", driver=driver)
    assert [one.level for one in found] == ([level] if level else [])
    assert all(what in one.what for one in found), lines(found)


@pytest.mark.parametrize(
    ("needed", "driver", "level", "what"),
    [
        ("libamdhip64.so.7", "6.7.0", "error", "ROCm 7; driver 6.7.0 runs 5.7 to 6.4"),
        ("libamdhip64.so.5", "6.16.13", "error", "ROCm 5; driver 6.16.13 runs 6.3 to 10.0"),
        ("libamdhip64.so.7", "6.10.5", "", ""),
        ("libamdhip64.so.6", "6.16.13", "", ""),
        ("libamdhip64.so.6", None, "not decided", "accelerator.driver is not stated"),
        # the version of a package, which is not the module's
        ("libamdhip64.so.6", "6.3.60300", "not decided", "driver (6.3.60300) runs are open"),
    ],
)
def test_rocm_and_the_driver(
    tmp_path: Path, needed: str, driver: str | None, level: str, what: str
) -> None:
    files = {
        TORCH: code(("elf", 90, 0), needed=needed),
        f"{PACKAGES}/torch/lib/{needed}": Elf(soname=needed),
    }
    gpu = {**AMD, "driver": driver, "remembered": [*AMD["remembered"], "driver"]}
    gpu = gpu if driver else {**AMD, "driver": None}
    found = at(tmp_path, files, rule="gpu-driver", **gpu)
    assert [one.level for one in found] == ([level] if level else [])
    assert all(what in one.what for one in found), lines(found)


def test_code_that_is_not_read_is_not_decided(tmp_path: Path) -> None:
    torn = fatbin(("elf", 90, 0))[:-40]
    files = {TORCH: Elf(soname="libtorch.so", sections={".nv_fatbin": torn}, **USES_C)}
    found = at(tmp_path, files)
    assert [one.level for one in found] == ["not decided", "note"]
    assert "a container of NVIDIA code ends beyond its section" in found[0].what


def test_files_of_a_verdict_are_told_together(tmp_path: Path) -> None:
    codes = {"a": ("elf", 80, 0), "b": ("elf", 90, OF_ONE), "c": ("elf", 100, OF_ONE)}
    files = {
        f"/opt/lib{name}.so": Elf(sections={".nv_fatbin": fatbin(code)})
        for name, code in codes.items()
    }
    (told,) = at(tmp_path / "70", files, target="sm_70")
    assert told.what == "/opt/liba.so and 2 more: no GPU code for sm_70, only sm_80"
    files["/opt/libd.so"] = Elf(sections={".nv_fatbin": fatbin(("elf", 90, 0))})
    warning, note = at(tmp_path / "90", files, target="sm_90")
    assert warning.what.startswith("/opt/liba.so and 1 more: no GPU code for sm_90")
    assert note.what == "/opt/libb.so and 1 more: native code for sm_90 (sm_90, sm_90a)"
