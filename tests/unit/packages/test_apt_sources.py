"""Another distribution's base: its archive, and its keys from there, pinned."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.packages import apt_sources, download
from dlcontainer.packages.apt import keyrings, mirror_state
from dlcontainer.packages.apt_sources import AptSources, ArchiveAccess
from dlcontainer.planning.plan import Plan
from dlcontainer.system.machine import HostMachine
from tests import debs
from tests.fakes import RecordingRunner, completed
from tests.values import IMAGE_BASE, folder_of, host, plan_of, site_of

NOBLE = {"distribution": "ubuntu", "release": "noble"}
KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
WAY = ArchiveAccess(proxies={}, ca=None, places={})


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Stand in for the archive: the pinned package is one that is made here."""
    body = debs.deb({KEYS: b"the keys"})
    pinned = replace(keyrings.ARCHIVES["ubuntu"], sha256=hashlib.sha256(body).hexdigest())
    monkeypatch.setitem(keyrings.ARCHIVES, "ubuntu", pinned)
    monkeypatch.setattr(keyrings, "of_host", lambda distribution: None)
    monkeypatch.setattr(download, "download", lambda url, target, *_: target.write_bytes(body))
    monkeypatch.setattr(mirror_state, "faults", lambda *_: [])
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


def test_an_image_has_sources_of_its_own_unless_apt_works_without_it(
    tmp_path: Path, package: bytes
) -> None:
    base = {**IMAGE_BASE, "system": {**NOBLE, "source": "a page"}}
    plan = plan_of(folder_of(tmp_path / "r", base=base))
    assert find(plan, tmp_path).sources == ()
    runner = RecordingRunner(strict=True)
    found = apt_sources.find(plan, host(), runner, replace(WAY, alone=True), tmp_path)
    assert [source.suite for source in found.sources] == [
        "noble",
        "noble-updates",
        "noble-security",
    ]
    assert {source.keyring for source in found.sources} == {tmp_path / apt_sources.KEYRING}


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
        download, "download", lambda url, target, way, tell: target.write_bytes(package + b"\n")
    )
    plan = plan_of(folder_of(tmp_path / "r", base=NOBLE))
    with pytest.raises(BuildError, match="keys of ubuntu differ from the pinned keys"):
        find(plan, tmp_path)
    assert not (tmp_path / apt_sources.KEYRING).exists()


def test_an_archive_that_is_not_reached_is_a_note(
    tmp_path: Path, package: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str, target: Path, way: object, tell: object) -> None:
        raise BuildError(f"cannot fetch {url}")

    monkeypatch.setattr(download, "download", refuse)
    found = find(plan_of(folder_of(tmp_path / "r", base=NOBLE)), tmp_path)
    assert found.sources == ()
    assert "keys of ubuntu's archive: cannot fetch http" in found.notes[0]


LISTED = "Packages\thttp://m.example/debian\t{}\tmain\t\n"
HAS: dict[str, list[str]] = {"trixie-updates": ["a list has 720"], "trixie-security": []}


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HostMachine:
    """Give a bookworm host with apt, whose mirror has trixie's updates in part."""
    for name in ("apt-get", "apt-config"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setattr(
        mirror_state, "faults", lambda source, *_: HAS.get(source.suite, list[str]())
    )
    monkeypatch.setattr(mirror_state.MirrorProbe, "text", lambda self, url: "there")
    return host(environ={"PATH": str(tmp_path)})


def on_mirror(on: HostMachine, plan: Plan, folder: Path) -> AptSources:
    suites = ("bookworm", "bookworm-updates", "bookworm-security")
    listed = "".join(LISTED.format(suite) for suite in suites)
    answers: list[Any] = [completed("apt-get", stdout=listed), completed("apt-config")]
    return apt_sources.find(plan, on, RecordingRunner(answers, strict=True), WAY, folder)


def trixie(folder: Path, arch: Any = "ppc64le") -> Plan:
    base = {"distribution": "debian", "release": "trixie"}
    return plan_of(folder_of(folder / "r", base=base), site=site_of(arch=arch))


def test_updates_held_in_part_are_left_out(mirror: HostMachine, tmp_path: Path) -> None:
    found = on_mirror(mirror, trixie(tmp_path), tmp_path)
    assert [source.suite for source in found.sources] == ["trixie", "trixie-security"]
    (note,) = found.notes
    assert note.startswith(
        "leaving out trixie-updates for ppc64el: the image will not have its fixes: "
    )
    assert note.endswith("(a list has 720)")


def test_a_release_held_in_part_is_named(
    mirror: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HAS, "bookworm", ["a list has 1"])
    plan = plan_of(folder_of(tmp_path / "r"), site=site_of(arch="ppc64le"))
    with pytest.raises(BuildError, match="bookworm for ppc64el is incomplete") as caught:
        on_mirror(mirror, plan, tmp_path)
    assert caught.value.why == "a list has 1"


def test_a_mirror_without_the_other_release(
    mirror: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_state.MirrorProbe, "text", lambda self, url: None)
    assert on_mirror(mirror, trixie(tmp_path), tmp_path).sources == ()


def test_the_hosts_own_release_is_not_looked_at(
    mirror: HostMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HAS, "bookworm", ["a list has 1"])
    assert len(on_mirror(mirror, plan_of(folder_of(tmp_path / "r")), tmp_path).sources) == 3


@pytest.mark.parametrize("case", ["own distribution", "image"])
def test_nothing_is_fetched_for_others(tmp_path: Path, package: bytes, case: str) -> None:
    image = {"image": f"docker://ubuntu@sha256:{'ab' * 32}"}
    plan = plan_of(folder_of(tmp_path / "r", base=image if case == "image" else NOBLE))
    on = host(distribution="ubuntu", environ={}) if case == "own distribution" else host()
    apt_sources.find(plan, on, RecordingRunner(strict=True), WAY, tmp_path)
    assert not (tmp_path / apt_sources.KEYRING).exists()
