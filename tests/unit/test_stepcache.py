"""Kept steps: whole or not at all, checked, of trusted makers only, pruned by last use."""

import json
import os
from pathlib import Path

import pytest

from dlcontainer import stepcache
from dlcontainer.errors import BuildError
from dlcontainer.stepcache import StepCache
from dlcontainer.stepwork import StepWork

NOTES: list[str] = []


@pytest.fixture
def cache(tmp_path: Path) -> StepCache:
    NOTES.clear()
    return StepCache(folder=tmp_path / "it's kept", builders=(), on_note=NOTES.append)


def step(key: str, name: str = "work") -> StepWork:
    return StepWork(name=name, number=1, total=2, script="", files=(), inputs={}, key=key)


def keep(cache: StepCache, key: str, data: bytes = b"tree") -> None:
    cache.keep(step(key), ({"name": "a", "version": "1"},), lambda path: _write(path, data))()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def test_what_is_kept_comes_back(cache: StepCache, tmp_path: Path) -> None:
    assert cache.recall("ab12") is None
    keep(cache, "ab12")
    kept = cache.recall("ab12")
    assert kept is not None
    assert (kept.key, kept.name, kept.size, kept.packages) == (
        *("ab12", "work", 4),
        ({"name": "a", "version": "1"},),
    )
    path = cache.fetch("ab12", tmp_path)
    assert path is not None
    assert path.read_bytes() == b"tree"
    assert cache.is_whole("ab12", path)
    assert NOTES == []


def test_a_maker_that_fails_leaves_nothing(cache: StepCache) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cache.keep(step("ab12"), (), fail)
    assert cache.recall("ab12") is None
    assert [path for path in cache.folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("damage", [b"tre3", b"tree and more", b""])
def test_a_damaged_entry_is_found_and_taken_out(
    cache: StepCache, tmp_path: Path, damage: bytes
) -> None:
    keep(cache, "ab12")
    cache.path("ab12").write_bytes(damage)
    path = cache.fetch("ab12", tmp_path)
    assert path is not None
    assert not cache.is_whole("ab12", path)
    assert NOTES == ["the cache's entry ab12 is damaged: made anew"]
    assert cache.recall("ab12") is None
    assert cache.fetch("ab12", tmp_path) is None
    keep(cache, "ab12")
    assert cache.is_whole("ab12", path)


def test_nothing_appears_before_it_is_checked(cache: StepCache) -> None:
    keeping = cache.keep(step("ab12"), (), lambda path: _write(path, b"tree"))
    assert cache.recall("ab12") is None
    keeping()
    assert cache.recall("ab12") is not None
    assert len([path for path in cache.folder.rglob("*") if path.is_file()]) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"key": "ab12"}', '{"packages": 3}'])
def test_a_note_that_can_not_be_read(cache: StepCache, text: str) -> None:
    keep(cache, "ab12")
    cache.path("ab12").with_suffix(".json").write_text(text)
    assert cache.recall("ab12") is None
    assert "can't be read" in NOTES[0]


def test_an_entry_of_another_user_is_not_used(
    cache: StepCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cache, "ab12")
    # Seen by another user than the file's owner; the note may claim what it likes.
    note = cache.path("ab12").with_suffix(".json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "maker": "me"}))
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert cache.recall("ab12") is None
    owner = stepcache.name_of(mine)
    assert f"was made by {owner}: not used" in NOTES[0]
    trusting = StepCache(folder=cache.folder, builders=(owner,), on_note=NOTES.append)
    kept = trusting.recall("ab12")
    assert kept is not None
    assert kept.maker == owner
    # What is used of it is a copy that only this user can change.
    path = trusting.fetch("ab12", tmp_path)
    assert path == tmp_path / cache.path("ab12").name


def test_pruning_takes_what_was_used_longest_ago(cache: StepCache, tmp_path: Path) -> None:
    for number, key in enumerate(("aa1", "bb2", "cc3")):
        keep(cache, key, b"x" * 10)
        os.utime(cache.path(key).with_suffix(".json"), (1000 + number, 1000 + number))
    path = cache.fetch("aa1", tmp_path)
    assert path is not None
    assert cache.is_whole("aa1", path)  # used now
    gone = cache.prune(20)
    assert [kept.key for kept in gone] == ["bb2"]
    assert {kept.key for kept in cache.entries()} == {"aa1", "cc3"}
    assert [kept.key for kept in cache.prune(0)] == ["aa1", "cc3"]
    assert cache.entries() == []


def test_left_overs_of_killed_builds_go(cache: StepCache) -> None:
    keep(cache, "ab12")
    folder = cache.path("ab12").parent
    host = os.uname().nodename
    left = folder / f".ab99.sqfs.{host}.999999999.sqfs"
    running = folder / f".ab98.sqfs.{host}.{os.getpid()}.sqfs"
    elsewhere = folder / ".ab97.sqfs.other-host.999999999.sqfs"
    for path in (left, running, elsewhere):
        path.write_bytes(b"half")
    keep(cache, "ab34")
    assert (left.exists(), running.exists(), elsewhere.exists()) == (False, True, True)


def test_a_cache_that_can_not_be_written(cache: StepCache) -> None:
    cache.folder.write_text("a file is in the way")
    with pytest.raises(BuildError, match="can't keep steps in"):
        keep(cache, "ab12")
