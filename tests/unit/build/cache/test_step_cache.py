"""Kept steps: whole or not at all, checked, of trusted makers only, pruned by last use."""

import os
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import BuildError
from dlcontainer.system import guarded_files

NOTES: list[str] = []


@pytest.fixture
def cache(tmp_path: Path) -> StepCache:
    NOTES.clear()
    return StepCache(folder=tmp_path / "it's kept", builders=(), on_note=NOTES.append)


def step(key: str, name: str = "work") -> BuildStep:
    return BuildStep(name=name, number=1, total=2, script="", files=(), inputs={}, key=key)


def keep(cache: StepCache, key: str, data: bytes = b"tree") -> None:
    work = cache.folder.with_name("work")
    work.mkdir(exist_ok=True)
    cache.keep(step(key), ({"name": "a", "version": "1"},), work, lambda path: _write(path, data))()
    assert list(work.iterdir()) == []


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def tree_of(cache: StepCache, key: str) -> Path:
    """Find the packed tree of a key."""
    (path,) = cache.folder.glob(f"by-*/??/{key}.sqfs")
    return path


def note_of(cache: StepCache, key: str) -> Path:
    return tree_of(cache, key).with_suffix(".json")


def used(cache: StepCache, key: str, work: Path) -> bytes:
    """Use a kept result as a build does: recall, take, check; give the tree that was used."""
    kept = cache.recall(key)
    assert kept is not None
    with cache.taken(kept, work / "parent.sqfs") as is_whole:
        data = (work / "parent.sqfs").read_bytes()
        if not is_whole():
            raise DamagedError(key)
    assert not os.path.lexists(work / "parent.sqfs")
    return data


def test_what_is_kept_comes_back(cache: StepCache, tmp_path: Path) -> None:
    assert cache.recall("ab12") is None
    keep(cache, "ab12")
    kept = cache.recall("ab12")
    assert kept is not None
    assert (kept.key, kept.name, kept.size, kept.packages) == (
        *("ab12", "work", 4),
        ({"name": "a", "version": "1"},),
    )
    assert kept.maker == guarded_files.name_of(os.getuid())
    assert used(cache, "ab12", tmp_path) == b"tree"
    assert NOTES == []


def test_a_maker_that_fails_leaves_nothing(cache: StepCache, tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        cache.keep(step("ab12"), (), tmp_path, fail)
    assert cache.recall("ab12") is None
    assert [path for path in cache.folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("damage", [b"tre3", b"tree and more", b""])
def test_a_damaged_entry_is_found_and_taken_out(
    cache: StepCache, tmp_path: Path, damage: bytes
) -> None:
    keep(cache, "ab12")
    tree_of(cache, "ab12").write_bytes(damage)
    with pytest.raises(DamagedError):
        used(cache, "ab12", tmp_path)
    me = guarded_files.name_of(os.getuid())
    assert [f"cache entry ab12 of {me} is damaged: building it again"] == NOTES
    assert cache.recall("ab12") is None
    assert list(cache.folder.glob("by-*/??/*")) == []
    keep(cache, "ab12")
    assert used(cache, "ab12", tmp_path) == b"tree"


def test_an_entry_that_goes_meanwhile_is_not_given_again(cache: StepCache, tmp_path: Path) -> None:
    keep(cache, "ab12")
    kept = cache.recall("ab12")
    assert kept is not None
    tree_of(cache, "ab12").unlink()
    with pytest.raises(DamagedError), cache.taken(kept, tmp_path / "parent.sqfs"):
        pytest.fail("there is none")
    assert cache.recall("ab12") is None


def test_nothing_appears_before_it_is_checked(cache: StepCache, tmp_path: Path) -> None:
    keeping = cache.keep(step("ab12"), (), tmp_path, lambda path: _write(path, b"tree"))
    assert cache.recall("ab12") is None
    keeping()
    assert cache.recall("ab12") is not None
    assert len([path for path in cache.folder.rglob("*") if path.is_file()]) == 2


NOT_NOTES = [
    *("", "{", "[]", '{"key": "ab12"}', '{"packages": 3}', "[" * 100_000, "\xff"),
    '{"key": "cd34", "name": "x", "made": "2026", "sha256": "%s", "packages": []}' % ("0" * 64),
    '{"key": "ab12", "name": "\\u001b]0;", "made": "2026", "sha256": "%s", "packages": []}'
    % ("0" * 64),
    '{"key": "ab12", "name": "x", "made": "2026", "sha256": "%s", "packages": [{"name": 1}]}'
    % ("0" * 64),
    " " * (2 << 20),
]


@pytest.mark.parametrize("text", NOT_NOTES, ids=range(len(NOT_NOTES)))
def test_a_note_that_can_not_be_read(cache: StepCache, text: str) -> None:
    keep(cache, "ab12")
    note_of(cache, "ab12").write_text(text, encoding="latin-1")
    assert cache.recall("ab12") is None
    assert "is not used" in NOTES[0]
    assert cache.entries() == []
    keep(cache, "ab12")  # a new one takes its place
    assert cache.recall("ab12") is not None


def test_pruning_takes_what_was_used_longest_ago(cache: StepCache, tmp_path: Path) -> None:
    for number, key in enumerate(("aa1", "bb2", "cc3")):
        keep(cache, key, b"x" * 10)
        os.utime(note_of(cache, key), (1000 + number, 1000 + number))
    assert used(cache, "aa1", tmp_path) == b"x" * 10  # used now
    gone = cache.prune(20)
    assert [kept.key for kept in gone] == ["bb2"]
    assert {kept.key for kept, _ in cache.entries()} == {"aa1", "cc3"}
    assert [kept.key for kept in cache.prune(0)] == ["aa1", "cc3"]
    assert cache.entries() == []


def test_what_is_being_used_is_not_pruned(cache: StepCache, tmp_path: Path) -> None:
    keep(cache, "ab12")
    kept = cache.recall("ab12")
    assert kept is not None
    with cache.taken(kept, tmp_path / "parent.sqfs"):
        assert cache.prune(0) == []
        assert (tmp_path / "parent.sqfs").read_bytes() == b"tree"
    assert cache.prune(0) == [kept]


def test_left_overs_of_killed_builds_go(cache: StepCache) -> None:
    keep(cache, "ab12")
    folder = tree_of(cache, "ab12").parent.parent
    host = os.uname().nodename
    left = folder / f".new-{host}-999999999-0123"
    running = folder / f".new-{host}-{os.getpid()}-0123"
    elsewhere = folder / ".new-other.host-999999999-0123"
    for path in (left, running, elsewhere):
        path.mkdir()
        (path / "tree.sqfs").write_bytes(b"half")
    keep(cache, "ab34")
    assert (left.exists(), running.exists(), elsewhere.exists()) == (False, True, True)


def test_a_cache_that_can_not_be_written(cache: StepCache) -> None:
    cache.folder.write_text("a file is in the way")
    with pytest.raises(BuildError, match="cannot write steps to the cache"):
        keep(cache, "ab12")
