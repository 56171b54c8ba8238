"""Mirrors that hold a suite incompletely: known from headers, before apt finds out."""

from dataclasses import replace

import pytest

from dlcontainer.packages.apt import mirror_state
from dlcontainer.packages.apt.apt_config import AptSource
from dlcontainer.packages.apt.mirror_state import MirrorProbe
from tests.fakeregistry import Reply, serving

UPDATES = AptSource(
    uri="http://m.example/debian", suite="trixie-updates", components=("main",), keyring=None
)
SUITE = "http://m.example/debian/dists/trixie-updates"
LIST = "main/binary-ppc64el/Packages.xz"
RELEASE = f"""\
-----BEGIN PGP SIGNED MESSAGE-----
Suite: stable-updates
MD5Sum:
 0123 9999 {LIST}
SHA256:
 {"ab" * 32}     1108 {LIST}
 {"cd" * 32}     2351 main/binary-ppc64el/Packages
"""


def faults(sizes: dict[str, int], release: str | None = RELEASE) -> list[str]:
    return mirror_state.faults(UPDATES, "ppc64el", lambda url: release, sizes.get)


@pytest.mark.parametrize(
    "sizes",
    [
        {f"{SUITE}/{LIST}": 1108},
        # The plain name may be of tomorrow's state: by its sum the list is there.
        {
            f"{SUITE}/{LIST}": 1200,
            f"{SUITE}/main/binary-ppc64el/by-hash/SHA256/{'ab' * 32}": 1108,
        },
    ],
)
def test_a_list_that_is_there(sizes: dict[str, int]) -> None:
    assert faults(sizes) == []


def test_a_list_of_another_size_and_none() -> None:
    # As a mirror had it on 2026-11-22, of trixie-updates for ppc64el.
    assert faults({f"{SUITE}/{LIST}": 720}) == [f"{LIST} has 720; the index announces 1108 bytes"]
    assert faults({}) == [f"{LIST} is not there; the index announces 1108 bytes"]


def test_nothing_is_said_where_nothing_could_be_told() -> None:
    assert faults({}, release=None) == []
    assert faults({}, release="<html>") == []


def test_a_look_over_http() -> None:
    with serving() as fake:
        source = replace(UPDATES, uri=f"http://{fake.address}")
        fake.replies["/dists/trixie-updates/InRelease"] = Reply(body=RELEASE.encode())
        fake.replies[f"/dists/trixie-updates/{LIST}"] = Reply(body=b"x" * 720)
        look = MirrorProbe(environment={})
        found = mirror_state.faults(source, "ppc64el", look.text, look.size)
        assert found == [f"{LIST} has 720; the index announces 1108 bytes"]
        assert look.text(f"http://{fake.address}/no") is None
    assert look.text(f"http://{fake.address}/gone") is None
