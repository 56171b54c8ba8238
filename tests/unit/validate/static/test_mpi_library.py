"""The MPI that programs are linked to, against the site's, as real programs ran (two ranks).

mpich's program under Intel MPI or MPICH by name works; under Open MPI by that name it crashes;
under a launcher of the other family each rank is rank 0 of 1.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf
from tests.unpacked import DEBIAN, LIB, PACKAGES, PYTHON, findings, only

MPI4PY = f"{PACKAGES}/mpi4py/MPI.cpython-311-x86_64-linux-gnu.so"


def mpi(family: str, mode: str, soname: str | None = None, **changes: Any) -> dict[str, Any]:
    site = {"family": family, "mode": mode, "name": "the site's", **changes}
    site |= {"soname": soname} if soname else {}
    return {**site, "remembered": list(site)}


@pytest.mark.parametrize(
    ("needed", "site", "level", "what"),
    [
        ("libmpi.so.12", mpi("mpich", "swap", "libmpi.so.12"), "note", "whose place the site's"),
        ("libmpi.so.40", mpi("openmpi", "swap", "libmpi.so.40"), "note", "whose place"),
        ("libmpi.so.40", mpi("mpich", "swap", "libmpi.so.12"), "error", "of another family"),
        ("libmpi.so.12", mpi("openmpi", "swap", "libmpi.so.40"), "error", "of another family"),
        # Debian's MPICH has a name of its own: nothing takes its place
        ("libmpich.so.12", mpi("mpich", "swap", "libmpi.so.12"), "error", "takes no place of it"),
        ("libmpi_abi.so.1", mpi("mpich", "swap", "libmpi.so.12"), "error", "takes no place of it"),
        ("libmpi_abi.so.1", mpi("mpich", "swap", "libmpi_abi.so.1"), "note", "whose place"),
        ("libmpi.so.40", mpi("spectrum", "compile", "libmpi_ibm.so.3"), "error", "another family"),
        ("libmpi.so.40", mpi("openmpi", "container"), "", ""),
        ("libmpi.so.12", mpi("openmpi", "container"), "warning", "starts images with openmpi"),
        ("libmpi.so.12", mpi("openmpi", "container", also=["mpich"]), "", ""),
        ("libmpi_abi.so.1", mpi("openmpi", "container"), "", ""),
        ("libmpi.so.12", None, "not decided", "the site's file states no MPI"),
    ],
)
def test_the_family_and_the_way(
    tmp_path: Path, needed: str, site: Any, level: str, what: str
) -> None:
    files = {MPI4PY: Elf(needed=(needed,)), f"{LIB}/{needed}": Elf(soname=needed)}
    found = findings(tmp_path, files, os=DEBIAN, **({"mpi": site} if site else {}))
    assert [one.level for one in found] == ([level] if level else []), found
    for one in found:
        assert (one.rule, one.file) == ("mpi-library", MPI4PY)
        assert what in one.what


def test_the_mpi_s_own_parts_are_no_users(tmp_path: Path) -> None:
    """libmpi_mpifh asks for libmpi, whoever uses either."""
    files = {
        MPI4PY: Elf(needed=("libmpi_mpifh.so.40",)),
        f"{LIB}/libmpi_mpifh.so.40": Elf(soname="libmpi_mpifh.so.40", needed=("libmpi.so.40",)),
        f"{LIB}/libmpi.so.40": Elf(soname="libmpi.so.40"),
    }
    assert findings(tmp_path, files, mpi=mpi("mpich", "container")) == []


def test_two_families_in_one_image(tmp_path: Path) -> None:
    """One fits, the other is a warning: it may be a program that nobody starts here."""
    other = "/opt/demo/bin/osu_bw"
    files = {
        MPI4PY: Elf(needed=("libmpi.so.12",)),
        f"{LIB}/libmpi.so.12": Elf(soname="libmpi.so.12"),
        other: Elf(needed=("libmpi.so.40",)),
        f"{LIB}/libmpi.so.40": Elf(soname="libmpi.so.40"),
    }
    found = findings(tmp_path, files, mpi=mpi("mpich", "swap", "libmpi.so.12"), os=DEBIAN)
    assert [(one.level, one.file) for one in found] == [("warning", other), ("note", MPI4PY)]


def test_a_site_s_own_library_need_not_be_in_the_image(tmp_path: Path) -> None:
    """Compiled against the host's, which is bound."""
    site = mpi("spectrum", "compile", "libmpi_ibm.so.3", libraries=["$MPI_ROOT/libmpi_ibm.so.3"])
    found = findings(tmp_path, {MPI4PY: Elf(needed=("libmpi_ibm.so.3",))}, mpi=site, os=DEBIAN)
    assert only(found).level == "note"


@pytest.mark.parametrize(
    ("user", "site", "level"),
    [
        ({"rpath": LIB}, {}, "error"),
        ({"rpath": LIB, "runpath": LIB}, {}, "note"),
        ({"runpath": LIB}, {}, "note"),
        ({"rpath": "/nowhere"}, {}, "note"),
        # preloaded before all, or bound over the very file
        ({"rpath": LIB}, {"preload": ["/host/lib/libmpi.so.12"]}, "note"),
        ({"rpath": LIB}, {"binds": [f"/host/libmpi.so.12:{LIB}/libmpi.so.12"]}, "note"),
        ({"rpath": LIB}, {"binds": [f"/host/lib:{LIB}"]}, "note"),
        ({"rpath": LIB}, {"binds": ["/host/lib:/hostlib"]}, "error"),
    ],
)
def test_an_rpath_comes_before_the_host_s(tmp_path: Path, user: Any, site: Any, level: str) -> None:
    files = {
        MPI4PY: Elf(needed=("libmpi.so.12",), **user),
        f"{LIB}/libmpi.so.12": Elf(soname="libmpi.so.12"),
    }
    facts = mpi("mpich", "swap", "libmpi.so.12", **site)
    one = only([one for one in findings(tmp_path, files, mpi=facts) if one.rule == "mpi-library"])
    assert (one.level, one.file) == (level, MPI4PY)
    if level == "error":
        assert f"by an RPATH that leads to the image's own {LIB}/libmpi.so.12" in one.what


def test_a_python_s_rpath_is_its_modules_too(tmp_path: Path) -> None:
    files = {
        PYTHON: Elf(needed=("libc.so.6",), rpath=LIB),
        MPI4PY: Elf(needed=("libmpi.so.12",)),
        f"{LIB}/libmpi.so.12": Elf(soname="libmpi.so.12"),
    }
    site = mpi("mpich", "swap", "libmpi.so.12")
    found = [one for one in findings(tmp_path, files, mpi=site) if one.rule == "mpi-library"]
    assert only(found).level == "error"


def test_another_family_under_the_host_s_name(tmp_path: Path) -> None:
    """An MPICH program over an Open MPI of that name crashed."""
    files = {MPI4PY: Elf(needed=("libmpi.so.12",)), f"{LIB}/libmpi.so.12": Elf(soname=MPI4PY)}
    site = mpi("openmpi", "swap", "libmpi.so.12")
    found = [one for one in findings(tmp_path, files, mpi=site) if one.rule == "mpi-library"]
    assert (only(found).level, "is of another family" in only(found).what) == ("error", True)
