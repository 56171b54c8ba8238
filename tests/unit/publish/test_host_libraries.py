"""Libraries of the host that enter an image: their needs, read from the files."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.image.contents import elf
from dlcontainer.publish import host_libraries
from dlcontainer.sites.facts import Mpi
from tests.unit.publish.test_modulefiles import RELEASE


def mpi(**more: object) -> Mpi:
    return Mpi.model_validate_json(
        json.dumps({"family": "mpich", "mode": "swap", "name": "M", **more})
    )


def notes(site: Mpi, *, glibc: str | None = None, gcc: str | None = None, **environ: str) -> str:
    said: list[str] = []
    release = replace(RELEASE, glibc=glibc, gcc=gcc)
    host_libraries.require_fit(site, release, environ, said.append)
    return "\n".join(said)


@pytest.fixture
def needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    file = tmp_path / "libcxi.so.1"
    file.write_bytes(b"x")
    found = frozenset(
        {"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_PRIVATE", "GLIBCXX_3.4.32", "CXXABI_1.3"}
    )
    monkeypatch.setattr(elf, "version_needs", lambda path: found)
    return file


def test_a_c_library_that_is_too_old(needs: Path) -> None:
    site = mpi(libraries=[str(needs)])
    with pytest.raises(
        PublishError, match=re.escape(f"{needs} needs GLIBC_2.34, but the image has")
    ):
        notes(site, glibc="2.28")
    assert notes(site, glibc="2.34", gcc="13.2") == ""
    assert notes(site) == ""  # nothing is known of the image
    assert "needs GLIBCXX_3.4.32; GCC 12" in notes(site, glibc="2.36", gcc="12")


def test_preloads_and_bound_files_are_looked_at_too(needs: Path) -> None:
    for site in (mpi(preload=[str(needs)]), mpi(binds=[f"{needs}:/usr/lib/x.so"])):
        with pytest.raises(PublishError):
            notes(site, glibc="2.28")


def test_what_is_not_on_this_host_is_a_note(tmp_path: Path, needs: Path) -> None:
    missing = tmp_path / "libno.so"
    assert "missing on this host" in notes(mpi(libraries=[str(missing)]))
    site = mpi(libraries=["$ROOT/libcxi.so.1"])
    assert "$ROOT is not set here" in notes(site)
    with pytest.raises(PublishError):
        notes(site, glibc="2.28", ROOT=str(tmp_path))


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    for data in (b"", b"text", b"\x7fELF\x02\x01" + b"\0" * 90):
        (tmp_path / "lib.so").write_bytes(data)
        assert "not checked" in notes(mpi(libraries=[str(tmp_path / "lib.so")]))
