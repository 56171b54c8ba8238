"""The host's MPI, network and libraries against what the image holds."""

from pathlib import Path
from typing import Any

import pytest

from tests.misfits import MPI, doubted, refused
from tests.values import IMAGE_BASE

OPEN_MPI = {"mpi": {**MPI, "fabrics": ["infiniband", "ethernet"]}}
AMD = {"rocm": "6.4"}
MPICH = {"mpi": {"family": "mpich", "name": "MPICH 4.1.2"}}


def host_mpi(mode: str, family: str = "openmpi", **more: Any) -> dict[str, Any]:
    return {"mpi": {"family": family, "mode": mode, "name": "the site's MPI", **more}}


def network(kind: str) -> dict[str, Any]:
    return {"network": {"kind": kind, "model": "a network"}}


def os(glibc: str | None) -> dict[str, Any]:
    known = {"glibc": glibc} if glibc else {}
    return {"os": {"distribution": "sles", "release": "15", **known}}


@pytest.mark.parametrize("mode", ["swap", "compile"])
@pytest.mark.parametrize("family", ["mpich", "spectrum"])
def test_an_mpi_of_another_family(tmp_path: Path, mode: str, family: str) -> None:
    site = host_mpi(mode, family) | os("2.28")
    said = refused(tmp_path, site, stack=OPEN_MPI)
    assert "the image's Open MPI 4.1.4 belongs to the family openmpi" in said
    assert f" to {family}\n" in said
    assert "stack.mpi.family contradicts site.yaml:" in said
    assert ": mpi.family:" in said
    assert "mpich.org/abi" in said
    same = {"mpi": {**MPI, "family": family}}
    assert doubted(tmp_path, site, stack=same) == []


def test_an_image_s_own_mpi_may_be_of_any_family(tmp_path: Path) -> None:
    site = host_mpi("container", "mpich") | network("infiniband")
    assert doubted(tmp_path, site, stack=OPEN_MPI) == []
    assert doubted(tmp_path, host_mpi("swap", "mpich")) == []  # an image without MPI


@pytest.mark.parametrize(
    ("fabrics", "kind", "driver"),
    [
        (["infiniband"], "omni-path", "PSM2"),
        (["infiniband", "ethernet"], "omni-path", "PSM2"),
        (["omni-path"], "infiniband", "UCX or verbs"),
        (["infiniband", "omni-path"], "slingshot", "cxi"),
        (["slingshot"], "aries", "uGNI"),
    ],
)
def test_an_mpi_for_another_network(
    tmp_path: Path, fabrics: list[str], kind: str, driver: str
) -> None:
    site = host_mpi("container") | network(kind)
    stack = {"mpi": {**MPI, "fabrics": fabrics}}
    said = refused(tmp_path, site, stack=stack)
    assert f"is built for {', '.join(fabrics)}, but the site has {kind} (a network)" in said
    assert driver in said
    assert ": network.kind:" in said
    stack = {"mpi": {**MPI, "fabrics": [*fabrics, kind]}}
    assert doubted(tmp_path, site, stack=stack) == []


@pytest.mark.parametrize("mode", ["swap", "compile"])
def test_the_host_s_mpi_drives_the_network(tmp_path: Path, mode: str) -> None:
    site = host_mpi(mode) | network("omni-path") | os("2.28")
    assert doubted(tmp_path, site, stack=OPEN_MPI) == []


def test_unknown_networks_are_in_doubt(tmp_path: Path) -> None:
    bare = {"mpi": MPI}
    infiniband = {"mpi": {**MPI, "fabrics": ["infiniband"]}}
    (only,) = doubted(tmp_path, host_mpi("container") | network("infiniband"), stack=bare)
    assert "is built for no known network" in only
    (only,) = doubted(tmp_path, host_mpi("container"), stack=infiniband)
    assert "the site's network is not known" in only
    (only,) = doubted(tmp_path, host_mpi("container") | network("ethernet"), stack=infiniband)
    assert "the site's network is ethernet" in only
    assert doubted(tmp_path, host_mpi("container") | network("ethernet"), stack=bare) == []
    (only,) = doubted(tmp_path, host_mpi("container") | network("other"), stack=infiniband)
    assert "the site's network is a network: cannot guarantee" in only
    said = doubted(tmp_path, network("infiniband"), stack=OPEN_MPI)
    assert said == [
        ("the site's MPI is unknown: cannot guarantee that the image's MPI works across nodes")
    ]


# bookworm has glibc 2.36
ENTERING = [
    (host_mpi("swap", "mpich"), MPICH),
    (host_mpi("compile", "mpich"), MPICH),
    (host_mpi("container", "mpich", libraries=["/usr/lib64/libcxi.so.1"]), MPICH),
    (host_mpi("container", "mpich", preload=["/opt/mpi/libgtl.so"]), MPICH),
    (host_mpi("container", "mpich", binds=["/usr/lib64/libpmix.so.2"]), MPICH),
    ({"jobs": {"flags": ["--rocm"]}}, {"rocm": "6.4"}),
    ({"jobs": {"flags": ["--rocm"]}}, {"gpu_targets": ["gfx90a"]}),
    ({"jobs": {"binds": ["/opt/rocm-6.0.3/lib:/opt/rocm/lib"]}}, {"rocm": "6.4"}),
]


@pytest.mark.parametrize(("site", "stack"), ENTERING)
def test_a_glibc_older_than_the_host_s(
    tmp_path: Path, site: dict[str, Any], stack: dict[str, Any]
) -> None:
    net = network("ethernet")
    said = refused(tmp_path, site | net | os("2.38"), stack=stack)
    assert "base.release contradicts site.yaml:" in said
    assert ": os.glibc: the base's glibc 2.36 is older than the host's 2.38" in said
    assert (
        "next: --set base.distribution=ubuntu --set base.release=noble or --set "
        "base.release=trixie (with the packages of that release)" in said
    )
    assert doubted(tmp_path, site | net | os("2.36"), stack=stack) == []
    assert doubted(tmp_path, site | net | os("2.28"), stack=stack) == []
    noble = {"distribution": "ubuntu", "release": "noble"}
    assert doubted(tmp_path, site | net | os("2.38"), stack=stack, base=noble) == []


@pytest.mark.parametrize(
    ("site", "stack"),
    [
        # NVIDIA's are built for old systems.
        ({"jobs": {"flags": ["--nv"]}}, {"cuda": "12.6"}),
        # A program that uses no GPU opens none of these.
        ({"jobs": {"flags": ["--rocm"], "binds": ["/opt/rocm/lib"]}}, {}),
        ({"jobs": {"binds": ["/scratch", "/home:/home"]}}, {}),
        (host_mpi("swap", "mpich", libraries=["/usr/lib64/libcxi.so.1"]), {}),  # no MPI inside
        (host_mpi("container", "mpich", binds=["/var/spool/slurmd"]), MPICH),
        ({}, {}),
    ],
)
def test_no_library_of_the_host_that_needs_its_glibc(
    tmp_path: Path, site: dict[str, Any], stack: dict[str, Any]
) -> None:
    for glibc in ("2.99", None):
        assert doubted(tmp_path, site | network("ethernet") | os(glibc), stack=stack) == []


def test_an_unknown_glibc_is_in_doubt(tmp_path: Path) -> None:
    rocm = {"jobs": {"flags": ["--rocm"]}}
    (only,) = doubted(tmp_path, rocm | os(None), stack=AMD)
    assert only == (
        "the site's glibc is unknown: cannot guarantee that the image can load "
        "the host's ROCm libraries (--rocm)"
    )
    (only,) = doubted(tmp_path, rocm | os("2.38"), stack=AMD, base=IMAGE_BASE)
    assert only.startswith("the base's glibc is unknown: ")
    (only,) = doubted(tmp_path, rocm | os("weird"), stack=AMD)
    assert "cannot compare" in only
    said = refused(tmp_path, rocm | os("2.99"), stack=AMD)
    assert "next: use a base with glibc 2.99 or newer" in said


def test_an_image_that_states_its_glibc(tmp_path: Path) -> None:
    rocm = {"jobs": {"flags": ["--rocm"]}}
    system = {"distribution": "rocky", "release": "8", "glibc": "2.28", "source": "a page"}
    stated = {**IMAGE_BASE, "system": system}
    said = refused(tmp_path, rocm | os("2.31"), stack=AMD, base=stated)
    assert "the base's glibc 2.28 is older than the host's 2.31" in said
    assert doubted(tmp_path, rocm | os("2.28"), stack=AMD, base=stated) == []
