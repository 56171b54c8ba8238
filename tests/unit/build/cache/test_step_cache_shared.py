"""A step cache in a shared folder: its modes and names, where it packs, when it copies."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.system import guarded_files
from tests.hostile import KINDS, make_foreign, plant
from tests.skips import skip
from tests.unit.build.cache.shared import (
    KEY,
    NOTES,
    keep,
    shared,
    tree_of,
    used,
    work_of,
)

pytestmark = pytest.mark.timeout(60)  # to open a FIFO could take for ever


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077], ids=oct)
@pytest.mark.parametrize("mode", [0o2777, 0o3770, 0o775], ids=oct)
def test_all_read_and_one_writes_whatever_the_umask(place: Path, umask: int, mode: int) -> None:
    cache = shared(place, mode)
    before = os.umask(umask)
    try:
        keep(cache)
        keep(cache, "ab34")
    finally:
        os.umask(before)
    shelf = tree_of(cache).parent
    assert shelf.parent.name == f"by-{guarded_files.name_of(os.getuid())}"
    setgid = mode & stat.S_ISGID
    for folder in (shelf.parent, shelf):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755 | setgid
    assert {stat.S_IMODE(path.stat().st_mode) for path in shelf.iterdir()} == {0o644}
    assert len(list(shelf.parent.iterdir())) == 1  # no private folder is left


def test_a_folder_opened_to_others_is_closed_again(cache: StepCache) -> None:
    keep(cache)
    tree_of(cache).parent.parent.chmod(0o777)
    assert cache.recall(KEY) is None
    assert "other users can write in by-" in NOTES[0]
    keep(cache, "ab34")
    assert stat.S_IMODE(tree_of(cache).parent.parent.stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("kind", [*KINDS, "file"])
def test_a_name_that_is_taken_costs_nobody_anything(
    cache: StepCache, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = cache.folder / f"by-{guarded_files.name_of(os.getuid())}"
    if kind == "file":
        taken.write_text("")
    else:
        plant(kind, taken, tmp_path)
    if os.getuid() == 0:  # another's; who can't give it away has it as their own
        make_foreign(taken, monkeypatch)
    elif kind == "folder":
        skip("needs root, which can give a folder to another user", elsewhere="a run as root")
    keep(cache)
    keep(cache, "ab34")
    assert used(cache) == b"tree"
    assert tree_of(cache).parent.parent == tree_of(cache, "ab34").parent.parent
    assert tree_of(cache).parent.parent.name.startswith(f"{taken.name}.")
    assert list(tmp_path.iterdir()) == []
    if os.getuid() == 0:
        assert len(NOTES) == 1
        assert f"made {taken}, not you" in NOTES[0]
        assert str(tree_of(cache).parent.parent) in NOTES[0]


@pytest.mark.parametrize("mode", [0o755, 0o1777, 0o3770])
def test_a_private_entry_costs_no_copy(place: Path, mode: int) -> None:
    cache = shared(place, mode)
    keep(cache)

    def look(target: Path) -> None:
        assert target.readlink() == tree_of(cache)

    assert used(cache, look) == b"tree"


def test_a_link_to_the_cache_can_not_be_turned_elsewhere(cache: StepCache, place: Path) -> None:
    """The way to a private folder is looked at, too: what is used is where the link led."""
    private = place / "private"
    private.mkdir(mode=0o755)
    (cache.folder / "steps").symlink_to(private)
    linked = StepCache(folder=cache.folder / "steps", builders=(), on_note=NOTES.append)
    keep(linked)
    kept = linked.recall(KEY)
    assert kept is not None
    with linked.taken(kept, work_of(cache) / "parent.sqfs") as is_whole:
        assert (work_of(cache) / "parent.sqfs").readlink().is_relative_to(private)
        assert is_whole()


def test_a_full_disk_takes_no_entry_out(cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(cache)

    def full(handle: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(guarded_files, "append", full)
        with pytest.raises(DamagedError):
            used(cache)
    assert "cannot be copied: No space left on device" in NOTES[0]
    assert cache.recall(KEY) is None  # by this build
    again = StepCache(folder=cache.folder, builders=(), on_note=NOTES.append)
    assert again.recall(KEY) is not None


def test_a_lock_of_another_user_holds_nobody_up(place: Path) -> None:
    cache = shared(place, 0o755)
    keep(cache)
    with tree_of(cache).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def look(target: Path) -> None:
            assert not target.is_symlink()

        assert used(cache, look) == b"tree"


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_it_is_packed_in_the_cache_where_that_is_safe(place: Path, mode: int) -> None:
    cache = shared(place, mode)

    def look(path: Path) -> None:
        assert path.is_relative_to(cache.folder)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    keep(cache, meanwhile=look)
    assert used(cache) == b"tree"
