"""The private cache: whose it is, who may write in it, and who holds what."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.system import file_locks
from tests.hostile import KINDS, make_foreign, open_place, plant

pytestmark = pytest.mark.timeout(60)

NOTES: list[str] = []


@pytest.fixture
def cache() -> Iterator[Path]:
    NOTES.clear()
    with open_place() as place:
        yield place / "it's a cache"


def build(cache: Path) -> None:
    with file_locks.building(cache, NOTES.append), file_locks.alone(cache, NOTES.append) as alone:
        assert not alone
    with file_locks.alone(cache, NOTES.append) as alone:
        assert alone


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077], ids=oct)
def test_it_is_this_user_s_alone_whatever_the_umask(cache: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        build(cache)
    finally:
        os.umask(before)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert (cache / file_locks.ALL).stat().st_mode & 0o077 == 0
    assert NOTES == []


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_nobody_else_may_write_any_longer(cache: Path, mode: int) -> None:
    cache.mkdir()
    cache.chmod(mode)
    build(cache)
    assert cache.stat().st_mode & 0o7777 == mode & ~0o022
    (said,) = NOTES
    assert (
        f"other users could write to the cache {cache}: dlcontainer removed this permission" in said
    )


def test_one_of_another_user_is_refused(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    make_foreign(cache, monkeypatch)
    with pytest.raises(BuildError, match="belongs to") as raised:
        build(cache)
    assert "engine.cache" in str(raised.value.next_step)
    assert list(cache.iterdir()) == []


def test_a_link_to_a_larger_disk_is_followed(cache: Path, tmp_path: Path) -> None:
    cache.symlink_to(tmp_path)
    build(cache)
    assert (tmp_path / file_locks.ALL).exists()


def test_a_folder_above_that_others_may_write_is_noted(cache: Path) -> None:
    cache.parent.chmod(0o777)
    build(cache)
    (said,) = NOTES
    assert "other users can write to a folder above the cache" in said


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "link" in kind])
def test_a_link_in_its_lock_s_place_is_not_followed(cache: Path, kind: str, tmp_path: Path) -> None:
    cache.mkdir(mode=0o700)
    victim = tmp_path / "victim"
    victim.write_text("")
    os.utime(victim, (1, 1))
    plant(kind, cache / file_locks.ALL, victim)
    with pytest.raises(BuildError, match="cannot write to the cache"):
        build(cache)
    assert (victim.stat().st_mtime, len(list(tmp_path.iterdir()))) == (1, 1)


@pytest.mark.parametrize("kind", ["link", "dangling link"])
def test_the_lock_of_what_is_made_is_no_link(cache: Path, kind: str, tmp_path: Path) -> None:
    cache.mkdir(mode=0o700)
    plant(kind, cache / "lock", tmp_path / "victim")
    with pytest.raises(OSError), file_locks.in_turn(cache, NOTES.append, "wait"):  # noqa: PT011
        pytest.fail("it was taken")
    assert list(tmp_path.iterdir()) == []


def test_who_comes_second_waits_and_is_told(cache: Path) -> None:
    cache.mkdir(mode=0o700)
    order, told = [], threading.Event()

    def note(said: str) -> None:
        NOTES.append(said)
        told.set()

    def second() -> None:
        with file_locks.in_turn(cache, note, "wait"):
            order.append("second")

    thread = threading.Thread(target=second)
    with file_locks.in_turn(cache, NOTES.append, "wait"):
        thread.start()
        assert told.wait(30)
        order.append("first")
    thread.join(30)
    assert (order, NOTES) == (["first", "second"], ["wait"])


def test_who_uses_a_file_and_who_wants_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    with path.open() as one, path.open() as two, path.open() as three:
        assert file_locks.share(one.fileno())
        assert file_locks.share(two.fileno())
        assert not file_locks.claim(three.fileno())
        file_locks.release(one.fileno())
        file_locks.release(two.fileno())
        assert file_locks.claim(three.fileno())
        assert not file_locks.share(one.fileno())
