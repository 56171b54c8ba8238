"""A step cache of several users: who is trusted, and what is done with another's entries."""

import json
import os
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import BuildError
from dlcontainer.system import guarded_files
from tests.unit.build.cache.shared import (
    KEY,
    NOTES,
    Others,
    keep,
    note_of,
    shared,
    tree_of,
    used,
    work_of,
)

pytestmark = pytest.mark.timeout(60)  # to open a FIFO could take for ever


@pytest.mark.parametrize("mode", [0o2777, 0o3770])
def test_a_trusted_maker_is_named_and_copied(
    place: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = shared(place, mode)
    keep(cache)
    others = Others(cache, monkeypatch)
    seen = others.seen(others.maker)
    kept = seen.recall(KEY)
    assert kept is not None
    assert kept.maker == others.maker
    target = work_of(cache) / "parent.sqfs"
    with seen.taken(kept, target) as is_whole:
        assert not target.is_symlink()
        assert target.read_bytes() == b"tree"
        assert is_whole()


def test_a_maker_s_name_is_their_owner_s(cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(cache)
    note = json.loads(note_of(cache).read_text())
    note_of(cache).write_text(json.dumps({**note, "maker": "ada", "size": -1}))
    tree_of(cache).parent.parent.rename(cache.folder / "by-ada")
    others = Others(cache, monkeypatch)
    assert others.seen("ada").recall(KEY) is None
    kept = others.seen(others.maker).recall(KEY)
    assert kept is not None
    assert (kept.maker, kept.size) == (others.maker, 4)
    assert [entry.maker for entry, _ in cache.entries()] == [others.maker]


def test_a_stranger_is_named_once_and_never_read(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cache)
    keep(cache, "ab34")
    others = Others(cache, monkeypatch)
    seen = others.seen()

    def refuse(*args: object) -> bytes:
        raise AssertionError("a stranger's note was read")

    monkeypatch.setattr(guarded_files, "content", refuse)
    for key in (KEY, "ab34", KEY, "cd56"):
        assert seen.recall(key) is None
    (said,) = NOTES
    assert said == (
        f"ignoring cache entry {KEY}: {others.maker} made it; to trust this "
        "user, add the name to engine.builders of the site"
    )


def test_a_damaged_entry_that_can_not_be_removed_is_found_once(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cache)
    tree_of(cache).write_bytes(b"evil")
    others = Others(cache, monkeypatch)
    seen = others.seen(others.maker)
    with pytest.raises(DamagedError):
        used(seen)
    assert seen.recall(KEY) is None
    assert [f"cache entry {KEY} of {others.maker} is damaged: building it again"] == NOTES
    assert tree_of(cache).exists()


def test_what_others_made_is_counted_and_stays(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(cache)
    os.truncate(tree_of(cache), 1 << 40)  # it takes up nothing, whatever it claims
    others = Others(cache, monkeypatch)
    seen = others.seen()
    ((kept, _),) = seen.entries()
    assert kept.size < 1 << 20
    assert seen.prune(0) == []
    assert not seen.drop(KEY) or tree_of(cache).exists()
    assert tree_of(cache).exists()


def test_a_file_system_that_gives_files_to_another_user_keeps_nothing(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that takes root for nobody: no folder of no use is left, at no build."""
    seen = Others(cache, monkeypatch).seen()
    for _ in range(2):
        with pytest.raises(BuildError, match="on this file system your new files belong to"):
            keep(seen)
    assert list(cache.folder.iterdir()) == []


def old(cache: StepCache, key: str) -> Path:
    """Write an entry as all makers did together before each had a folder."""
    keep(cache, key)
    shelf = cache.folder / key[:2]
    shelf.mkdir(exist_ok=True)
    shelf.chmod(0o2777)
    for path in (tree_of(cache, key), note_of(cache, key)):
        path.rename(shelf / path.name)
    return shelf / f"{key}.sqfs"


def test_entries_of_old_are_seen_and_go_and_are_not_used(cache: StepCache) -> None:
    path = old(cache, KEY)
    assert cache.recall(KEY) is None
    assert [kept.key for kept, _ in cache.entries()] == [KEY]
    assert [kept.key for kept in cache.prune(0)] == [KEY]
    assert list(path.parent.iterdir()) == []


def test_entries_of_old_of_other_users_stay(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old(cache, KEY)
    seen = Others(cache, monkeypatch).seen()
    assert seen.entries() == []
    assert seen.prune(0) == []
    seen.drop(KEY)
    assert path.exists()
