"""What the image's own MPI has for the site's fabric: by file names, needs and texts."""

from pathlib import Path
from typing import Any

import pytest

from tests.elves import Elf, texts
from tests.unit.validate.static.test_fabric_plugin import INFINIBAND, SLINGSHOT
from tests.unit.validate.static.test_mpi_library import MPI4PY, mpi
from tests.unpacked import LIB, findings, lines, only

OMNI_PATH = {"kind": "omni-path", "model": "Omni-Path", "remembered": ["kind", "model"]}
ARIES = {"kind": "aries", "model": "Aries", "remembered": ["kind", "model"]}
ETHERNET = {"kind": "ethernet", "model": "10 GbE", "remembered": ["kind", "model"]}
MPI = f"{LIB}/libmpi.so.12"
FABRIC = f"{LIB}/libfabric.so.1"
OWN = mpi("mpich", "container")
# As the wheel's: its list of names has cxi, and nothing of it is built in.
NAMES = texts("fi_getinfo", "SHM+CXI", "cxi", "psm2")


def image(**parts: Elf) -> dict[str, Elf]:
    """Make an MPICH on libfabric; names of further parts are their files' with _ for . and -."""
    return {
        MPI4PY: Elf(needed=("libmpi.so.12",)),
        MPI: Elf(soname="libmpi.so.12", needed=("libfabric.so.1",)),
        FABRIC: Elf(soname="libfabric.so.1", sections=NAMES),
        **parts,
    }


@pytest.mark.parametrize(
    ("network", "parts", "fits"),
    [
        (SLINGSHOT, {}, False),
        (SLINGSHOT, {"libcxi-fi.so": Elf(needed=("libcxi.so.1",))}, True),
        (SLINGSHOT, {"libfabric.so.1": Elf(sections=texts("fi_getinfo", "cxip_domain"))}, True),
        (SLINGSHOT, {"libverbs-fi.so": Elf(sections=texts("vrb_domain"))}, False),
        (INFINIBAND, {}, False),
        (INFINIBAND, {"libverbs-fi.so": Elf()}, True),
        (INFINIBAND, {"ucx/libuct_ib.so.0": Elf()}, True),
        # It is linked to libibverbs, and drives AWS's devices alone.
        (INFINIBAND, {"libefa-fi.so": Elf(needed=("libefa.so.1", "libibverbs.so.1"))}, False),
        (OMNI_PATH, {}, False),
        (OMNI_PATH, {"libfabric.so.1": Elf(needed=("libpsm2.so.2",))}, True),
        (OMNI_PATH, {"libopx-fi.so": Elf()}, True),
        (ARIES, {"libfabric.so.1": Elf(sections=texts("gnix_domain_open"))}, True),
        (ARIES, {}, False),
        (ETHERNET, {}, True),
    ],
)
def test_ways_over_a_fabric(tmp_path: Path, network: Any, parts: Any, fits: bool) -> None:
    files = {**image(), **{f"{LIB}/{name}": part for name, part in parts.items()}}
    files |= {f"{LIB}/{name}": Elf(soname=name) for part in parts.values() for name in part.needed}
    found = findings(tmp_path, files, network=network, mpi=OWN)
    if fits:
        assert lines(found) == []
        return
    one = only(found)
    assert (one.rule, one.level, one.file) == ("fabric-transport", "warning", MPI4PY)
    assert one.what.endswith(f"; the site has {network['model']}")
    assert "TCP" in one.why


@pytest.mark.parametrize(("ucx", "level"), [(False, "error"), (True, "warning")])
def test_a_provider_that_jobs_insist_on(tmp_path: Path, ucx: bool, level: str) -> None:
    """Without its device an MPICH on libfabric ended, and one with UCX too ran on."""
    files = image()
    if ucx:
        files[f"{LIB}/libucp.so.0"] = Elf(soname="libucp.so.0")
    site = {"network": SLINGSHOT, "mpi": {**OWN, "inside": {"FI_PROVIDER": "cxi"}}}
    one = only(findings(tmp_path, files, **site))
    assert (one.level, one.why.partition(",")[0]) == (level, "FI_PROVIDER=cxi is set")


def test_the_site_s_mpi_is_not_judged(tmp_path: Path) -> None:
    swapped = mpi("mpich", "swap", "libmpi.so.12")
    assert {one.rule for one in findings(tmp_path, image(), network=SLINGSHOT, mpi=swapped)} <= {
        "mpi-library",
        "host-library",
    }


def test_an_image_without_mpi(tmp_path: Path) -> None:
    files = {FABRIC: Elf(soname="libfabric.so.1", sections=NAMES)}
    assert lines(findings(tmp_path, files, network=SLINGSHOT, mpi=OWN)) == []


def test_the_host_s_libfabric_serves_who_uses_it(tmp_path: Path) -> None:
    """As a hook that puts cxi into containers: an MPICH on UCX has nothing of it."""
    hook = {**OWN, "flags": ["com.hooks.cxi.enabled=true"]}
    assert lines(findings(tmp_path / "ofi", image(), network=SLINGSHOT, mpi=hook)) == []
    on_ucx = {
        MPI4PY: Elf(needed=("libmpi.so.12",)),
        MPI: Elf(soname="libmpi.so.12", needed=("libucp.so.0",)),
        f"{LIB}/libucp.so.0": Elf(soname="libucp.so.0"),
    }
    one = only(findings(tmp_path / "ucx", on_ucx, network=SLINGSHOT, mpi=hook))
    assert (one.rule, one.level) == ("fabric-transport", "warning")
    assert "an MPI of the image that does not use libfabric" in one.what


def test_libraries_of_an_mpi_that_need_each_other(tmp_path: Path) -> None:
    files = image()
    files[FABRIC] = Elf(soname="libfabric.so.1", needed=("libmpi.so.12",))
    assert only(findings(tmp_path, files, network=SLINGSHOT, mpi=OWN)).rule == "fabric-transport"
