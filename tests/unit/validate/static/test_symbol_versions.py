"""Versions of symbols: the image's own libraries, and those that a host brings in."""

from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf
from tests.unpacked import DEBIAN, LIB, NVIDIA, PACKAGES, PYTHON, findings, only

SWAP: dict[str, Any] = {
    "family": "mpich",
    "mode": "swap",
    "name": "Cray MPICH",
    "soname": "libmpi.so.12",
    "libraries": ["$HOST_MPI/libmpi.so.12"],
    "remembered": ["family", "mode", "name", "soname", "libraries"],
}


def test_a_newer_glibc_than_the_image_s(tmp_path: Path) -> None:
    newer = Elf(needed=("libc.so.6",), needs={"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.38")})
    one = only(findings(tmp_path, {PYTHON: newer}))
    assert (one.rule, one.level, one.file) == ("symbol-version", "error", PYTHON)
    assert one.what == (
        f"{PYTHON} needs GLIBC_2.38, and {LIB}/libc.so.6 has no such version "
        "(it has up to GLIBC_2.36)"
    )
    optional = {f"{PACKAGES}/extra/_fast.abi3.so": newer}
    assert only(findings(tmp_path / "optional", optional)).level == "warning"


def test_the_c_plus_plus_library_that_is_loaded_first(tmp_path: Path) -> None:
    """One in the prefix (as conda's) is found by RPATH, and the distribution's is older."""
    names = ("libstdc++.so.6", "GLIBCXX_3.4.28", "CXXABI_1.3.12")
    module = f"{PACKAGES}/extra/_fast.abi3.so"
    needs = {"libstdc++.so.6": ("GLIBCXX_3.4.30", "CXXABI_1.3.13")}
    files: dict[str, Any] = {
        f"{LIB}/libstdc++.so.6": Elf(soname="libstdc++.so.6", versions=names),
        "/opt/demo/lib/libstdc++.so.6": Elf(
            soname="libstdc++.so.6", versions=(*names, *needs["libstdc++.so.6"])
        ),
        module: Elf(needed=("libstdc++.so.6",), needs=needs),
    }
    found = findings(tmp_path, files)
    assert [one.what.split(",")[0].split(" needs ")[1] for one in found] == [
        "CXXABI_1.3.13",
        "GLIBCXX_3.4.30",
    ]
    files[module] = Elf(needed=("libstdc++.so.6",), needs=needs, runpath="$ORIGIN/../../..")
    assert findings(tmp_path / "own", files) == []


def test_what_the_loader_lets_pass(tmp_path: Path) -> None:
    weak = Elf(
        needed=("libc.so.6",), needs={"libc.so.6": ("GLIBC_2.99",)}, weak=frozenset({"GLIBC_2.99"})
    )
    assert findings(tmp_path, {PYTHON: weak}) == []
    # A library without versions (musl's, one built by hand) is not asked.
    plain = {PYTHON: Elf(needed=("liba.so",), needs={"liba.so": ("A_1",)})}
    assert findings(tmp_path / "plain", {**plain, f"{LIB}/liba.so": Elf(soname="liba.so")}) == []


def test_a_host_library_that_is_here(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    newer = Elf(soname="libmpi.so.12", needs={"libc.so.6": ("GLIBC_2.38",)})
    (host / "libmpi.so.12").write_bytes(newer.data())
    one = only(findings(tmp_path, None, {"HOST_MPI": str(host)}, mpi=SWAP, os=DEBIAN))
    assert (one.rule, one.level) == ("host-library", "error")
    assert "needs GLIBC_2.38; the image's libc.so.6 has up to GLIBC_2.36" in one.what


@pytest.mark.parametrize(
    ("os", "what"),
    [
        (None, "the site's file states no glibc"),
        ({**DEBIAN, "glibc": "2.39"}, "the host's glibc is 2.39, the image's 2.36"),
        (DEBIAN, ""),
    ],
)
def test_host_libraries_that_are_not_here(tmp_path: Path, os: Any, what: str) -> None:
    sites: list[dict[str, Any]] = [{"mpi": SWAP}, {"accelerator": NVIDIA}]
    for number, site in enumerate(sites):
        changes: dict[str, Any] = {**site, **({"os": os} if os else {})}
        found = [
            one for one in findings(tmp_path / str(number), **changes) if one.rule == "host-library"
        ]
        assert [one.level for one in found] == (["not decided"] if what else [])
        assert all(one.what.startswith(what) for one in found)


def test_an_image_without_glibc(tmp_path: Path) -> None:
    files = {f"{LIB}/libc.so.6": None, PYTHON: Elf(), f"{PACKAGES}/torch/lib/libtorch.so": None}
    files |= {f"{PACKAGES}/torch/_C.cpython-311-x86_64-linux-gnu.so": None}
    one = only(findings(tmp_path, files, mpi=SWAP))
    assert (one.level, one.what) == ("not decided", "the image has no glibc that can be read")
