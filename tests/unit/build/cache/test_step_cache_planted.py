"""A step cache that others may write: nothing planted or swapped is used, nothing of ours hit."""

import os
import stat
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.cache import step_cache
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import BuildError
from dlcontainer.system import guarded_files
from tests.hostile import KINDS, make_foreign, plant
from tests.skips import skip
from tests.unit.build.cache.shared import KEY, NOTES, keep, note_of, shared, tree_of, used, work_of

pytestmark = pytest.mark.timeout(60)  # to open a FIFO could take for ever


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["tree", "note", "shelf", "maker's folder"])
def test_a_planted_thing_is_not_used(cache: StepCache, what: str, kind: str, place: Path) -> None:
    keep(cache)
    tree = tree_of(cache)
    path = {
        "tree": tree,
        "note": note_of(cache),
        "shelf": tree.parent,
        "maker's folder": tree.parent.parent,
    }[what]
    aside = place / "moved"  # a whole entry of ours: all that speaks against it is the link
    path.rename(aside)
    plant(kind, path, aside)
    assert cache.recall(KEY) is None
    assert cache.entries() == []
    assert cache.prune(0) == []
    assert aside.exists()


@pytest.mark.parametrize("what", ["tree", "note"])
def test_a_file_of_another_user_is_not_used(
    cache: StepCache, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.getuid() != 0:
        skip("needs root, which can give a file to another user", elsewhere="a run as root")
    keep(cache)
    make_foreign(tree_of(cache) if what == "tree" else note_of(cache), monkeypatch)
    assert cache.recall(KEY) is None
    assert "owns files in by-" in NOTES[0]
    assert cache.entries() == []


def test_an_entry_of_another_key_is_not_used(cache: StepCache) -> None:
    """A user's own old results are whole and theirs, and still not this step's."""
    keep(cache, "ab99", b"old")
    for path in (tree_of(cache, "ab99"), note_of(cache, "ab99")):
        os.link(path, path.with_name(f"{KEY}{path.suffix}"))
    assert cache.recall(KEY) is None


def swap(path: Path) -> None:
    """Put a file of the same size at a path, as one who may write in the folder does."""
    path.rename(path.with_name("aside"))
    path.write_bytes(b"evil")


@pytest.mark.parametrize("mode", [0o2777, 0o777, 0o775])
def test_what_is_swapped_after_it_was_opened_is_not_used(
    place: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = shared(place, mode)
    keep(cache)
    tree, copy = tree_of(cache), guarded_files.copy

    def swapping(source: int, target: int) -> str:
        swap(tree)
        return copy(source, target)

    monkeypatch.setattr(guarded_files, "copy", swapping)
    assert used(cache) == b"tree"
    assert tree.read_bytes() == b"evil"  # it was swapped


def test_what_is_swapped_while_it_is_unpacked_is_not_used(cache: StepCache) -> None:
    keep(cache)
    tree = tree_of(cache)

    def swapping(target: Path) -> None:
        swap(tree)
        info = target.lstat()
        assert stat.S_ISREG(info.st_mode)  # a copy of our own: the engine opens no other path
        assert (info.st_uid, info.st_mode & 0o077) == (os.getuid(), 0)

    assert used(cache, swapping) == b"tree"


def test_what_is_swapped_between_the_looks_is_found(cache: StepCache) -> None:
    keep(cache)
    kept = cache.recall(KEY)
    assert kept is not None
    swap(tree_of(cache))
    with pytest.raises(DamagedError), cache.taken(kept, work_of(cache) / "parent.sqfs"):
        pytest.fail("it was handed out")
    assert cache.recall(KEY) is None
    assert list(work_of(cache).iterdir()) == []


def test_it_is_packed_where_nobody_can_plant_a_link(
    place: Path, cache: StepCache, tmp_path: Path
) -> None:
    """mksquashfs opens by name: no folder on the way may be exchanged for another."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    seen = []

    def swapping(path: Path) -> None:
        seen.append(path)
        (own,) = cache.folder.glob("by-*")
        (made,) = own.glob(".new-*")
        moved = own.rename(place / "moved")
        (own / made.name).mkdir(parents=True)
        for name in ("tree.sqfs", "note"):
            (own / made.name / name).symlink_to(victim)
        assert moved.exists()

    with pytest.raises(BuildError, match="cannot write steps to the cache"):
        keep(cache, meanwhile=swapping)
    assert seen[0].is_relative_to(work_of(cache))
    assert victim.read_text() == "mine"
    assert cache.recall(KEY) is None


@pytest.mark.parametrize("suffix", [".sqfs", ".json"])
def test_a_link_at_an_entry_s_name_is_replaced(
    cache: StepCache, suffix: str, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    keep(cache)
    path = tree_of(cache).with_suffix(suffix)
    path.unlink()
    path.symlink_to(victim)
    keep(cache)
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("mine", 0o600)
    assert not path.is_symlink()
    assert used(cache) == b"tree"


def test_a_renamed_folder_of_ours_writes_nothing_strange_to_a_terminal(cache: StepCache) -> None:
    keep(cache)
    own = tree_of(cache).parent.parent
    own.chmod(0o777)  # so that it would be named
    own.rename(own.with_name("by-\033]0;x\a"))
    assert cache.recall(KEY) is None
    assert "".join(NOTES).isprintable()


def test_strange_names_are_no_entries(cache: StepCache, tmp_path: Path) -> None:
    keep(cache)
    shelf = tree_of(cache).parent
    for name in ("\033]0;x\a", "a\nb", "..x", "KEY", "x" * 200):
        for suffix in (".sqfs", ".json"):
            (shelf / f"{name}{suffix}").write_text("x")
    (cache.folder / "by-\033]0;x").mkdir()
    (cache.folder / "by-").symlink_to(tmp_path)
    (cache.folder / "zz").symlink_to(tmp_path)
    assert [kept.key for kept, _ in cache.entries()] == [KEY]
    assert used(cache) == b"tree"


def test_the_module_opens_no_entry_by_its_path() -> None:
    """What is read or written in a cache goes through descriptors; this finds a way back."""
    source = Path(step_cache.__file__).read_text()
    for call in ("read_text(", "write_text(", ".open(", "copyfile(", ".chmod("):
        assert call not in source
