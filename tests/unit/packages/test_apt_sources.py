"""Another distribution's base: its archive, and its keys from there, pinned."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.packages import apt_sources, download
from dlcontainer.packages.apt import keyrings
from dlcontainer.packages.apt_sources import AptSources, WayOut
from dlcontainer.planning.plan import Plan
from tests import debs
from tests.fakes import RecordingRunner
from tests.values import folder_of, host, plan_of, site_of

NOBLE = {"distribution": "ubuntu", "release": "noble"}
KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
WAY = WayOut(proxies={}, ca=None, places={})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Stand in for the archive: the pinned package is one that is made here."""
    body = debs.deb({KEYS: b"the keys"})
    pinned = replace(keyrings.ARCHIVES["ubuntu"], sha256=hashlib.sha256(body).hexdigest())
    monkeypatch.setitem(keyrings.ARCHIVES, "ubuntu", pinned)
    monkeypatch.setattr(keyrings, "of_host", lambda distribution: None)
    monkeypatch.setattr(download, "download", lambda url, target, way: target.write_bytes(body))
    return body


def find(plan: Plan, folder: Path) -> AptSources:
    return apt_sources.find(plan, host(), RecordingRunner(strict=True), WAY, folder)


@pytest.mark.parametrize(
    ("arch", "uri"),
    [
        ("x86_64", "http://archive.ubuntu.com/ubuntu"),
        ("ppc64le", "http://ports.ubuntu.com/ubuntu-ports"),
    ],
)
def test_noble_on_a_debian(tmp_path: Path, package: bytes, arch: Any, uri: str) -> None:
    plan = plan_of(folder_of(tmp_path / "r", base=NOBLE), site=site_of(arch=arch))
    found = find(plan, tmp_path)
    keyring = tmp_path / apt_sources.KEYRING
    assert keyring.read_bytes() == b"the keys"
    assert [source.line(str(source.keyring)) for source in found.sources] == [
        f"deb [signed-by={keyring}] {uri} {suite} main universe"
        for suite in ("noble", "noble-updates", "noble-security")
    ]
    assert [path.name for path in tmp_path.glob("*.deb")] == []


def test_a_sites_mirror_gets_the_keys_too(tmp_path: Path, package: bytes) -> None:
    lines = [
        "deb https://m.example/ubuntu noble main",
        "deb [signed-by=/k.gpg] https://m.example/ubuntu noble-updates main",
    ]
    plan = plan_of(folder_of(tmp_path / "r", base=NOBLE), site=site_of(routing={"apt": lines}))
    keys = [source.keyring for source in find(plan, tmp_path).sources]
    assert keys == [tmp_path / apt_sources.KEYRING, Path("/k.gpg")]


def test_the_hosts_own_keys_come_first(
    tmp_path: Path, package: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyrings, "of_host", lambda distribution: Path("/own.gpg"))
    plan = plan_of(folder_of(tmp_path / "r", base=NOBLE))
    assert {source.keyring for source in find(plan, tmp_path).sources} == {Path("/own.gpg")}


def test_keys_that_are_not_the_pinned_ones(
    tmp_path: Path, package: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        download, "download", lambda url, target, way: target.write_bytes(package + b"\n")
    )
    plan = plan_of(folder_of(tmp_path / "r", base=NOBLE))
    with pytest.raises(BuildError, match="keys of ubuntu are not those that are pinned"):
        find(plan, tmp_path)
    assert not (tmp_path / apt_sources.KEYRING).exists()


def test_an_archive_that_is_not_reached_is_a_note(
    tmp_path: Path, package: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str, target: Path, way: object) -> None:
        raise BuildError(f"{url} can't be fetched")

    monkeypatch.setattr(download, "download", refuse)
    found = find(plan_of(folder_of(tmp_path / "r", base=NOBLE)), tmp_path)
    assert found.sources == ()
    assert "keys of ubuntu's archive: http" in found.notes[0]


@pytest.mark.parametrize("case", ["own distribution", "image"])
def test_nothing_is_fetched_for_others(tmp_path: Path, package: bytes, case: str) -> None:
    image = {"image": f"docker://ubuntu@sha256:{'ab' * 32}"}
    plan = plan_of(folder_of(tmp_path / "r", base=image if case == "image" else NOBLE))
    on = host(distribution="ubuntu", environ={}) if case == "own distribution" else host()
    apt_sources.find(plan, on, RecordingRunner(strict=True), WAY, tmp_path)
    assert not (tmp_path / apt_sources.KEYRING).exists()
