"""Fetching: what is there stays, what moved is named, nothing half lies there as a whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.packages import bundle as bundles
from dlcontainer.packages import fetch as fetching
from dlcontainer.packages import lock_resolver
from dlcontainer.packages.fetch import Fetcher
from dlcontainer.packages.lockfile import Lock, LockedBase, OsPin, WheelPin
from dlcontainer.planning.plan import Plan
from dlcontainer.system import machine
from tests import fakeregistry
from tests.fakeregistry import Reply, sha256
from tests.fakes import RecordingRunner, completed
from tests.layers import packed, put
from tests.locks import deb, lock
from tests.values import folder_of, host, plan_of

CONTROLS = "Package: mawk\n\nPackage: python3\n\n"


class Quiet:
    """Shows nothing."""

    def expect(self, count: int) -> None: ...

    def step(self, title: str) -> None: ...

    def phase(self, title: str) -> None: ...

    def line(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...


class Mirror:
    """Stands in for apt and pip: has packages, and writes what it is asked for."""

    def __init__(self, *there: OsPin, deb: bytes = b"deb", wheel: bytes = b"wheel") -> None:
        self.there, self.deb, self.wheel = there, deb, wheel
        self.asked: list[str] = []
        self.fails_after: int | None = None
        self.apt = self.pip = self.access = self
        self.upstreams: dict[str, str] = {}

    def update(self) -> None:
        self.asked.append("update")

    def offered(self, names: Any) -> list[OsPin]:
        wanted = set(names)
        return [pin for pin in self.there if pin.name in wanted]

    def download(self, pins: Sequence[OsPin | WheelPin], *places: Any) -> None:
        for number, pin in enumerate(pins):
            if number == self.fails_after:
                raise BuildError("cannot fetch an OS package")
            self.asked.append(pin.name)
            data = self.wheel if isinstance(pin, WheelPin) else self.deb
            (places[-1] / pin.file).write_bytes(data)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(folder_of(tmp_path / "recipe"))


@pytest.fixture
def held(plan: Plan) -> Lock:
    return lock(plan)


def use(monkeypatch: pytest.MonkeyPatch, mirror: Mirror) -> Mirror:
    monkeypatch.setattr(lock_resolver, "resolver_of", lambda *_: mirror)
    return mirror


def fetcher(scratch: Path, **changes: Any) -> Fetcher:
    runner = RecordingRunner(answers=[completed("sh", stdout=CONTROLS)] * 3)
    given = {"host": host(), "runner": runner, "scratch": scratch, "progress": Quiet()}
    return Fetcher(**{**given, **changes})


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


WHOLE = [
    "Packages",
    "Release",
    "debs/mawk_1.3_amd64.deb",
    "debs/python3_1%3a3.11~rc1+b1_amd64.deb",
    "lock.json",
    "wheels/tool-2.0-py3-none-any.whl",
]


def test_all_of_it_and_the_second_time_nothing(
    plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = use(monkeypatch, Mirror(*held.os_pins))
    folder = tmp_path / "out put"
    fetching.fetch(plan, held, fetcher(tmp_path), folder)
    assert names(folder) == WHOLE
    assert mirror.asked == ["update", "mawk", "python3", "tool"]
    bundles.opened(folder)
    (folder / "debs" / "stray.deb").write_text("")
    fetching.fetch(plan, held, fetcher(tmp_path), folder)
    assert len(mirror.asked) == 4
    assert names(folder) == WHOLE


def test_what_came_before_a_failure_stays_and_no_lock(
    plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = use(monkeypatch, Mirror(*held.os_pins))
    mirror.fails_after = 1
    with pytest.raises(BuildError, match="cannot fetch"):
        fetching.fetch(plan, held, fetcher(tmp_path), tmp_path / "out")
    assert names(tmp_path / "out") == ["debs/mawk_1.3_amd64.deb"]
    mirror.fails_after = None
    fetching.fetch(plan, held, fetcher(tmp_path), tmp_path / "out")
    assert mirror.asked == ["update", "mawk", "update", "python3", "tool"]


def test_a_spoilt_file_is_fetched_again(
    plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = use(monkeypatch, Mirror(*held.os_pins))
    folder = tmp_path / "out"
    fetching.fetch(plan, held, fetcher(tmp_path), folder)
    (folder / WHOLE[2]).write_bytes(b"dex")
    fetching.fetch(plan, held, fetcher(tmp_path), folder)
    assert mirror.asked[4:] == ["update", "mawk"]
    assert (folder / WHOLE[2]).read_bytes() == b"deb"


@pytest.mark.parametrize(("what", "file"), [("deb", "mawk"), ("wheel", "tool")])
def test_a_mirror_that_lies(
    plan: Plan,
    held: Lock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    file: str,
) -> None:
    use(monkeypatch, Mirror(*held.os_pins, **{what: b"evil"}))
    with pytest.raises(BuildError, match=f"wrong checksum: {file}"):
        fetching.fetch(plan, held, fetcher(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out" / "lock.json").exists()
    assert not any(path.read_bytes() == b"evil" for path in tmp_path.rglob("*.[dw]*[bl]"))


def test_a_mirror_that_has_moved_on(
    plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = use(monkeypatch, Mirror(deb("mawk", "1.4"), deb("python3", "1:3.11~rc1+b1", b"x")))
    with pytest.raises(BuildError, match="no longer has the locked packages") as caught:
        fetching.fetch(plan, held, fetcher(tmp_path), tmp_path / "out")
    why = str(caught.value.why)
    assert "the mirror no longer has mawk 1.3: it has 1.4" in why
    assert "python3 1:3.11~rc1+b1 has the checksum" in why
    assert mirror.asked == ["update"]


def test_no_room(plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = use(monkeypatch, Mirror(*held.os_pins))
    monkeypatch.setattr(machine, "free_mb", lambda _: 0)
    with pytest.raises(BuildError, match="0 MB free"):
        fetching.fetch(plan, held, fetcher(tmp_path), tmp_path / "out")
    assert mirror.asked == []


def test_a_folder_of_something_else(plan: Plan, held: Lock, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "thesis.tex").write_text("")
    with pytest.raises(ConfigError, match=r"contains other files: thesis\.tex"):
        fetching.fetch(plan, held, fetcher(tmp_path), folder)
    assert names(folder) == ["thesis.tex"]


FILES: dict[str, bytes | None] = {"etc/os-release": b"ID=debian"}


@pytest.mark.parametrize("in_index", [False, True])
def test_an_image_is_carried(plan: Plan, tmp_path: Path, in_index: bool) -> None:
    folder = tmp_path / "out"
    (folder / "base").mkdir(parents=True)
    (folder / "base/base.sqfs").write_text("a finished base of before")
    with fakeregistry.serving() as fake:
        reference = put(fake, [packed(FILES), packed({"a": b""})], in_index=in_index)
        image = lock(plan, base=LockedBase(image=str(reference)), steps=())
        for _ in range(2):
            fetched = fetching.fetch(plan, image, fetcher(tmp_path), folder)
            (folder / "base/blobs/sha256/stray").write_text("")
        layers = [path for _, path, _ in fake.asked if path.endswith(sha256(packed(FILES)))]
    # The second time what is there and right stays.
    assert len(layers) == 1
    opened = bundles.opened(folder)
    assert opened == fetched
    assert opened.image is not None
    assert len(opened.image.blobs) == (5 if in_index else 4)
    assert (opened.image.manifest == reference.digest) is not in_index
    fetching.fetch(plan, image, fetcher(tmp_path), folder, with_image=False)
    assert fetching.kept(plan, image, fetcher(tmp_path), tmp_path / "cache").image is None


def test_a_fetch_that_broke_off_goes_on_with_the_image(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with fakeregistry.serving() as fake:
        layers = [packed(FILES), packed({"a": b"b" * 1000})]
        reference = put(fake, layers)
        image = lock(plan, base=LockedBase(image=str(reference)), steps=())
        path = f"/v2/{fakeregistry.NAME}/blobs/{sha256(layers[1])}"
        whole = fake.replies[path]
        fake.replies[path] = Reply(body=layers[1][:-1])
        with pytest.raises(BuildError, match="does not match the requested digest"):
            fetching.fetch(plan, image, fetcher(tmp_path), folder)
        with pytest.raises(ConfigError, match="is an incomplete bundle"):
            bundles.opened(folder)
        fake.replies[path] = whole
        fetching.fetch(plan, image, fetcher(tmp_path), folder)
        assert sum(path.endswith(sha256(layers[0])) for _, path, _ in fake.asked) == 1
    assert bundles.opened(folder).image is not None
    assert not list(folder.rglob("*.part"))


def test_kept_ones_share_their_files(
    plan: Plan, held: Lock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = use(monkeypatch, Mirror(*held.os_pins))
    cache = tmp_path / "cache"
    first = fetching.kept(plan, held, fetcher(tmp_path), cache)
    fewer = lock(plan, steps=held.steps[:1])
    second = fetching.kept(plan, fewer, fetcher(tmp_path), cache)
    assert second.folder != first.folder
    assert len(mirror.asked) == 4
    assert (second.folder / WHOLE[2]).stat().st_ino == (first.folder / WHOLE[2]).stat().st_ino
    assert names(second.folder) == WHOLE[:-1]
