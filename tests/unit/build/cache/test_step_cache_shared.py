"""A step cache that others may write: nothing planted or swapped is used, nothing of ours hit."""

import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dlcontainer.build.backends.backend import DamagedError
from dlcontainer.build.build_steps import BuildStep
from dlcontainer.build.cache import step_cache
from dlcontainer.build.cache.step_cache import StepCache
from dlcontainer.errors import BuildError
from dlcontainer.system import guarded_files
from tests.hostile import KINDS, make_foreign, open_place, plant
from tests.skips import skip

pytestmark = pytest.mark.timeout(60)  # to open a FIFO could take for ever

NOTES: list[str] = []
KEY = "ab12"


@pytest.fixture
def place() -> Iterator[Path]:
    NOTES.clear()
    with open_place() as folder:
        yield folder


@pytest.fixture
def cache(place: Path) -> StepCache:
    """Give a group's cache as it comes by mkdir and chmod: no sticky bit, so anybody renames."""
    return shared(place, 0o2777)


def shared(place: Path, mode: int, builders: tuple[str, ...] = ()) -> StepCache:
    folder = place / "it's shared"
    folder.mkdir()
    folder.chmod(mode)
    return StepCache(folder=folder, builders=builders, on_note=NOTES.append)


def work_of(cache: StepCache) -> Path:
    work = cache.folder.with_name("work")
    work.mkdir(mode=0o700, exist_ok=True)
    return work


def step(key: str) -> BuildStep:
    return BuildStep(name="work", number=1, total=2, script="", files=(), inputs={}, key=key)


def keep(
    cache: StepCache,
    key: str = KEY,
    data: bytes = b"tree",
    meanwhile: Callable[[Path], None] = lambda _: None,
) -> None:
    def make(path: Path) -> None:
        path.write_bytes(data)
        meanwhile(path)

    cache.keep(step(key), (), work_of(cache), make)()
    assert list(work_of(cache).iterdir()) == []


def tree_of(cache: StepCache, key: str = KEY) -> Path:
    (path,) = cache.folder.glob(f"by-*/??/{key}.sqfs")
    return path


def note_of(cache: StepCache, key: str = KEY) -> Path:
    return tree_of(cache, key).with_suffix(".json")


def used(cache: StepCache, meanwhile: Callable[[Path], None] = lambda _: None) -> bytes:
    """Use an entry as a build does, with its second look after the first; give what was used."""
    kept = cache.recall(KEY)
    assert kept is not None
    target = work_of(cache) / "parent.sqfs"
    with cache.taken(kept, target) as is_whole:
        meanwhile(target)
        data = target.read_bytes()
        if not is_whole():
            raise DamagedError(KEY)
    return data


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
    assert "others may write in by-" in NOTES[0]
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
        assert f"{taken} was made by " in NOTES[0]
        assert str(tree_of(cache).parent.parent) in NOTES[0]


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
    assert "made what lies in by-" in NOTES[0]
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


class Others:
    """The same folder, seen by another user than the one who filled it."""

    def __init__(self, cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.maker, self.cache = guarded_files.name_of(os.getuid()), cache
        mine = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: mine + 4711)

    def seen(self, *builders: str) -> StepCache:
        NOTES.clear()
        return StepCache(folder=self.cache.folder, builders=builders, on_note=NOTES.append)


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
        f"the cache's entry {KEY} was made by {others.maker}: not used; to trust that user add "
        "them to engine.builders of the site"
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
    assert [f"the cache's entry {KEY} of {others.maker} is damaged: made again"] == NOTES
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


def test_a_full_disk_takes_no_entry_out(cache: StepCache, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(cache)

    def full(handle: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(guarded_files, "append", full)
        with pytest.raises(DamagedError):
            used(cache)
    assert "can't be copied: No space left on device" in NOTES[0]
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

    with pytest.raises(BuildError, match="can't keep steps in"):
        keep(cache, meanwhile=swapping)
    assert seen[0].is_relative_to(work_of(cache))
    assert victim.read_text() == "mine"
    assert cache.recall(KEY) is None


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_it_is_packed_in_the_cache_where_that_is_safe(place: Path, mode: int) -> None:
    cache = shared(place, mode)

    def look(path: Path) -> None:
        assert path.is_relative_to(cache.folder)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    keep(cache, meanwhile=look)
    assert used(cache) == b"tree"


def test_a_file_system_that_gives_files_to_another_user_keeps_nothing(
    cache: StepCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that takes root for nobody: no folder of no use is left, at no build."""
    seen = Others(cache, monkeypatch).seen()
    for _ in range(2):
        with pytest.raises(BuildError, match="the file system gives what you make to"):
            keep(seen)
    assert list(cache.folder.iterdir()) == []


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
