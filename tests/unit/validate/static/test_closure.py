"""What an image loads: each library by the loader's own rules, and for the site's machine."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.elves import AARCH64, Elf
from tests.unpacked import (
    IMAGE,
    LIB,
    NVIDIA,
    PACKAGES,
    PYTHON,
    TORCH,
    USES_C,
    findings,
    lines,
    only,
)

OPTIONAL = f"{PACKAGES}/extra/_fast.abi3.so"


def test_a_right_image_has_no_finding(tmp_path: Path) -> None:
    assert lines(findings(tmp_path)) == []


def test_what_python_needs_and_is_nowhere(tmp_path: Path) -> None:
    one = only(findings(tmp_path, {PYTHON: Elf(needed=("libgone.so.1", "libc.so.6"))}))
    assert (one.rule, one.level, one.file) == ("missing-library", "error", PYTHON)
    assert one.what == f"{PYTHON} needs libgone.so.1, which the loader does not find"


def test_what_an_optional_module_needs_is_a_warning(tmp_path: Path) -> None:
    one = only(findings(tmp_path, {OPTIONAL: Elf(needed=("libgone.so.1",))}))
    assert (one.level, one.file) == ("warning", OPTIONAL)


def test_a_library_of_pytorch_s_core_is_an_error(tmp_path: Path) -> None:
    one = only(findings(tmp_path, {f"{PACKAGES}/torch/lib/libtorch.so": None}))
    assert (one.level, one.file) == ("error", TORCH)


def test_one_that_is_elsewhere_may_be_loaded_before(tmp_path: Path) -> None:
    """As torchvision's modules, which find what `import torch` has loaded."""
    one = only(findings(tmp_path, {OPTIONAL: Elf(needed=("libtorch.so",))}))
    assert one.level == "note"
    assert f"{PACKAGES}/torch/lib/libtorch.so is in none of its folders" in one.what
    # A program has nothing that loads it before.
    files = {"/opt/demo/bin/tool": Elf(needed=("libtorch.so",)), OPTIONAL: None}
    one = only(findings(tmp_path / "program", files))
    assert (one.level, one.file) == ("warning", "/opt/demo/bin/tool")


def cache(*paths: str) -> bytes:
    """Make a cache as far as it is read: its texts."""
    return b"glibc-ld.so.cache1.1" + bytes(28) + b"\0".join(path.encode() for path in paths) + b"\0"


@pytest.mark.parametrize(
    ("tool", "files"),
    [
        ({"rpath": "$ORIGIN/../own"}, {}),
        ({"runpath": "${ORIGIN}/../own:/nowhere"}, {}),
        ({"runpath": "/opt/demo/$LIB"}, {"/opt/demo/lib64/libown.so": Elf(soname="libown.so")}),
        ({}, {"/etc/ld.so.cache": cache("libown.so", "/opt/demo/own/libown.so")}),
        (
            {},
            {
                "/.singularity.d/env/90-environment.sh": b"export PATH=/opt/demo/bin\n"
                b"export LD_LIBRARY_PATH=/opt/demo/own:$LD_LIBRARY_PATH\n"
            },
        ),
        ({}, {f"{LIB}/libown.so": "../../../opt/demo/own/libown.so"}),
        ({}, {f"{LIB}/libown.so": "/opt/demo/own/libown.so"}),
        # by the RPATH of the one that loads it
        (
            {"needed": ("libmid.so",), "rpath": "/opt/demo/own"},
            {"/opt/demo/own/libmid.so": Elf(soname="libmid.so", needed=("libown.so",))},
        ),
    ],
)
def test_the_loader_s_folders(tmp_path: Path, tool: dict[str, Any], files: Any) -> None:
    own = {"/opt/demo/own/libown.so": Elf(soname="libown.so")}
    program = {"/opt/demo/bin/tool": Elf(**{"needed": ("libown.so",), **tool})}
    assert lines(findings(tmp_path, {**program, **own, **files})) == []


@pytest.mark.parametrize(
    ("tool", "files"),
    [
        # RUNPATH is no RPATH for others, and makes the file's own RPATH void
        (
            {"needed": ("libmid.so",), "runpath": "/opt/demo/own"},
            {"/opt/demo/own/libmid.so": Elf(soname="libmid.so", needed=("libown.so",))},
        ),
        ({"rpath": "/opt/demo/own", "runpath": "/nowhere"}, {}),
        # ldconfig did not run: the loader reads no ld.so.conf
        ({}, {"/etc/ld.so.conf.d/own.conf": b"/opt/demo/own\n"}),
        # a loop of links, and a link that leads out of the tree
        ({}, {f"{LIB}/libown.so": "libown.so"}),
        ({}, {f"{LIB}/libown.so": "../../../../../../../nowhere/libown.so"}),
        # relative: it depends on the folder that the user stands in
        ({"rpath": "own"}, {}),
    ],
)
def test_where_the_loader_does_not_look(tmp_path: Path, tool: dict[str, Any], files: Any) -> None:
    own = {"/opt/demo/own/libown.so": Elf(soname="libown.so")}
    program = {"/opt/demo/bin/tool": Elf(**{"needed": ("libown.so",), **tool})}
    one = only(findings(tmp_path, {**program, **own, **files}))
    assert (one.rule, one.level) == ("missing-library", "warning")
    assert one.fix == "add /opt/demo/own to LD_LIBRARY_PATH in the image, or run ldconfig"


def test_what_python_has_loaded_is_there_for_its_modules(tmp_path: Path) -> None:
    python = Elf(needed=("libpython3.11.so.1.0",), runpath="$ORIGIN/../lib")
    files = {
        PYTHON: python,
        "/opt/demo/lib/libpython3.11.so.1.0": Elf(soname="libpython3.11.so.1.0"),
        OPTIONAL: Elf(needed=("libpython3.11.so.1.0",)),
    }
    assert lines(findings(tmp_path, files)) == []


def test_a_driver_s_library_comes_from_the_host(tmp_path: Path) -> None:
    files = {OPTIONAL: Elf(needed=("libcuda.so.1",))}
    at_gpus = [one.rule for one in findings(tmp_path / "gpu", files, accelerator=NVIDIA)]
    assert "missing-library" not in at_gpus
    one = only(findings(tmp_path / "cpu", files))
    assert (one.level, one.why.partition(",")[0]) == ("warning", "it is the driver's")


def test_a_library_of_another_machine_is_passed_over(tmp_path: Path) -> None:
    arm = Elf(soname="libown.so", machine=AARCH64)
    files = {"/opt/demo/bin/tool": Elf(needed=("libown.so",)), f"{LIB}/libown.so": arm}
    one = only(findings(tmp_path, files))
    assert one.what.endswith(f"{LIB}/libown.so is of another machine")


def test_programs_of_another_machine(tmp_path: Path) -> None:
    arm = {
        path: replace(file, machine=AARCH64)
        for path, file in IMAGE.items()
        if isinstance(file, Elf)
    }
    one = only(findings(tmp_path, arm))
    assert (one.rule, one.level, one.file) == ("machine", "error", PYTHON)
    assert "made for aarch64" in one.what
    # One optional module alone: the rest runs.
    one = only(findings(tmp_path / "one", {OPTIONAL: Elf(machine=AARCH64)}))
    assert (one.rule, one.level) == ("machine", "warning")


def test_an_elf_file_that_is_cut(tmp_path: Path) -> None:
    torch = f"{PACKAGES}/torch/lib/libtorch.so"
    whole = Elf(soname="libtorch.so", **USES_C).data()
    one = only(findings(tmp_path, {torch: whole[:200]}))
    assert (one.rule, one.level, one.file) == ("damaged-file", "error", torch)
    one = only(findings(tmp_path / "other", {f"{LIB}/libz.so.1": whole[:200]}))
    assert (one.rule, one.level) == ("damaged-file", "warning")


@pytest.mark.parametrize(
    "content", [bytes(4000), b"\x7fELF" + bytes(4000), b"\x7fELF\2\7" + bytes(90)]
)
def test_a_library_of_zeros(tmp_path: Path, content: bytes) -> None:
    told = only(findings(tmp_path, {f"{PACKAGES}/torch/lib/libtorch.so": content}))
    assert (told.rule, "a copy that was cut short?" in told.what) == ("damaged-file", True)


@pytest.mark.parametrize("end", range(64, 500, 29))
def test_no_cut_ends_in_a_traceback(tmp_path: Path, end: int) -> None:
    whole = Elf(soname="libtorch.so", **USES_C, sections={".nv_fatbin": b"x" * 64}).data()
    cut = {f"{PACKAGES}/torch/lib/libtorch.so": whole[:end]}
    assert {one.rule for one in findings(tmp_path, cut, accelerator=NVIDIA)} - {"gpu-code"}
