"""ROCm against a site: an image brings its own, so the driver decides, or the host's MPI."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.planning.compatibility import ROCM_DRIVERS
from tests.misfits import GPU, doubted, refused

MPICH = {"family": "mpich", "name": "MPICH 4.1.2"}
GLIBC = {"os": {"distribution": "rocky", "release": "8", "glibc": "2.28"}}


def amd(**facts: Any) -> dict[str, Any]:
    return {**GLIBC, "accelerator": {**GPU, "vendor": "amd", **facts}}


def with_gtl(**facts: Any) -> dict[str, Any]:
    mpi = {"family": "mpich", "mode": "swap", "name": "Cray MPICH", "soname": "libmpi.so.12"}
    return {**amd(**facts), "mpi": {**mpi, "preload": ["/opt/gtl/libmpi_gtl_hsa.so.0"]}}


@pytest.mark.parametrize("rocm", ["6.1", "6.3.4", "6.4", "7.0", "7.0.2"])
def test_the_driver_decides_and_not_the_host_s_module(tmp_path: Path, rocm: str) -> None:
    site = amd(driver="6.10.5", toolkit="6.3.4")
    assert doubted(tmp_path, site, stack={"rocm": rocm}) == []


def test_a_rocm_that_the_driver_does_not_run(tmp_path: Path) -> None:
    site = amd(driver="6.10.5", toolkit="7.1")
    said = refused(tmp_path, site, stack={"rocm": "7.1"})
    assert "ROCm 7.1 is newer than what driver 6.10.5 runs, 6.1 to 7.0" in said
    assert "accelerator.driver" in said
    assert "Compatibility matrix" in said
    (only,) = doubted(tmp_path, site, stack={"rocm": "6.0.3"})
    assert only.startswith("ROCm 6.0.3 is older than what driver 6.10.5 is tested with, 6.1 to 7.0")
    (only,) = doubted(tmp_path, site, stack={"rocm": "7"})
    assert only == "ROCm 7 is not exact: driver 6.10.5 runs 6.1 to 7.0"


@pytest.mark.parametrize("driver", ["6.3.60300", "6.3.60300-2084815", "9.9.9", "weird"])
def test_a_driver_that_is_not_known_decides_nothing(tmp_path: Path, driver: str) -> None:
    # A package's version, 6.3.60300, is of ROCm 6.3; the module 6.3.6 is of ROCm 6.0.
    site = amd(driver=driver, toolkit="6.3.4")
    said = refused(tmp_path, site, stack={"rocm": "6.4"})
    assert "ROCm 6.4 is newer than the site's newest, 6.3.4" in said
    assert doubted(tmp_path, site, stack={"rocm": "6.3"}) == []


def test_the_lines_of_drivers_follow_each_other() -> None:
    modules = [line.module for line in ROCM_DRIVERS]
    assert modules == sorted(modules, reverse=True)
    for line, older in itertools.pairwise(ROCM_DRIVERS):
        assert line.first >= older.first
        assert line.last >= older.last
        assert line.first < line.last


def test_the_host_s_gpu_aware_mpi_wants_the_rocm_that_it_is_made_for(tmp_path: Path) -> None:
    newer = with_gtl(driver="6.16.13", toolkit="6.4.2")
    said = refused(tmp_path, newer, stack={"rocm": "7.1", "mpi": MPICH})
    assert "ROCm 7.1 is newer than the site's newest, 6.4.2" in said
    older = with_gtl(driver="6.16.13", toolkit="7.0.2")
    said = refused(tmp_path, older, stack={"rocm": "6.4", "mpi": MPICH})
    assert "ROCm 6.4 is of another major release than 7.0.2" in said
    assert "libmpi_gtl_hsa" in said
    for site, fine in ((newer, "6.4"), (newer, "6.3"), (older, "7.0")):
        assert doubted(tmp_path, site, stack={"rocm": fine, "mpi": MPICH}) == []
    # Without MPI in the image nothing of the host's ROCm comes in.
    for site, fine in ((newer, "7.1"), (older, "6.4")):
        assert doubted(tmp_path, site, stack={"rocm": fine}) == []
