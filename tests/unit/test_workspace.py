"""Folders that undo themselves, leftovers of killed processes, files that appear whole."""

import fcntl
import os
import tempfile
import time
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.shell import CommandNotFoundError
from dlcontainer.workspace import PREFIX, reap, remove, settle, workspace
from tests.fakes import RecordingRunner

NOBODY = RecordingRunner(strict=True)
LONG_AGO = time.time() - 3600


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / 'it\'s a "parent"'
    folder.mkdir()
    return folder


def left(parent: Path, name: str, *, lock: bool = True) -> Path:
    folder = parent / f"{PREFIX}{name}"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "file").write_text("x")
    if lock:
        (folder / "lock").write_text("")
    os.utime(folder, (LONG_AGO, LONG_AGO))
    return folder


def test_it_is_there_and_then_gone(parent: Path) -> None:
    with workspace(parent, NOBODY) as work:
        assert (work.parent, work.stat().st_mode & 0o777) == (parent, 0o700)
        assert reap(parent, NOBODY) == []
        with workspace(parent, NOBODY) as second:
            assert second != work
        assert [path.name for path in parent.iterdir()] == [work.name]
    assert list(parent.iterdir()) == []


def test_an_error_undoes_it_too(parent: Path) -> None:
    def fail() -> None:
        with workspace(parent, NOBODY) as work:
            (work / "read only").mkdir(mode=0o500)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(parent.iterdir()) == []


def test_a_folder_that_is_not_there(parent: Path) -> None:
    with (
        pytest.raises(BuildError, match=r"can't write in .*: No such file") as caught,
        workspace(parent / "none", NOBODY),
    ):
        raise AssertionError("it was entered")
    assert "-o for the image" in str(caught.value.next_step)


def test_what_killed_processes_left_is_reaped(parent: Path) -> None:
    killed, just_made = left(parent, "killed"), left(parent, "made", lock=False)
    os.utime(just_made)
    half_made = left(parent, "half", lock=False)
    other = left(parent, "x").rename(parent / "dlcontainer-build-x")
    (parent / f"{PREFIX}file").write_text("")
    assert reap(parent, NOBODY) == sorted([half_made, killed])
    assert {path.name for path in parent.iterdir()} == {
        just_made.name,
        other.name,
        f"{PREFIX}file",
    }


def test_a_folder_in_use_is_not_reaped(parent: Path) -> None:
    used = left(parent, "used")
    lock = os.open(used / "lock", os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert reap(parent, NOBODY) == []
        assert (used / "below" / "file").exists()
    finally:
        os.close(lock)
    assert reap(parent, NOBODY) == [used]


def test_anothers_folder_is_not_reaped(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = left(parent, "theirs")
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    assert reap(parent, NOBODY) == []
    assert theirs.exists()


@pytest.mark.parametrize("lock", [True, False])
def test_links_are_not_followed(parent: Path, tmp_path: Path, lock: bool) -> None:
    mine = left(tmp_path, "mine", lock=lock)
    mine.chmod(0o500)
    (parent / f"{PREFIX}link").symlink_to(mine)
    os.utime(mine, (LONG_AGO, LONG_AGO))
    assert reap(parent, NOBODY) == []
    assert mine.stat().st_mode & 0o777 == 0o500
    assert (mine / "below" / "file").exists()


def test_a_tree_that_is_not_writable(parent: Path, tmp_path: Path) -> None:
    tree = parent / "tree"
    for folder, mode in (("a/b", 0o500), ("a/c", 0), ("a", 0o500)):
        (tree / folder).mkdir(parents=True, exist_ok=True)
        (tree / folder).chmod(mode)
        if mode == 0o500 and folder != "a":
            (tree / folder / "file").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tree / "link").symlink_to(outside)
    remove(tree, NOBODY)
    assert not tree.exists()
    assert outside.stat().st_mode & 0o777 == 0o500


def test_what_belongs_to_subordinate_ids(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = left(parent, "x")
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: None)
    runner = RecordingRunner()
    remove(tree, runner)
    wanted = ("unshare", "--map-root-user", "--map-auto", "rm", "-rf", "--", str(tree))
    assert runner.argvs == [wanted]
    broken = RecordingRunner([CommandNotFoundError("unshare", "missing")])
    with pytest.raises(BuildError, match="can't remove") as caught:
        remove(tree, broken)
    assert "unshare: missing" in str(caught.value.why)


def test_a_file_appears_whole(parent: Path) -> None:
    new, target = parent / "new", parent / "it's done"
    target.write_text("old")
    new.write_text("new")
    settle(new, target)
    assert (target.read_text(), new.exists()) == ("new", False)


def test_a_file_that_cannot_appear_leaves_the_old_one(parent: Path) -> None:
    target = parent / "it's done"
    target.write_text("old")
    with pytest.raises(BuildError, match=r"can't write .*it's done: No such file"):
        settle(parent / "missing", target)
    assert target.read_text() == "old"


def test_a_link_takes_the_folders_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others may write: as soon as the folder is made, and while it is in use."""
    victim = tmp_path / "victim"
    (victim / "folder").mkdir(parents=True, mode=0o500)
    (victim / "lock.new").write_text("theirs")
    real = tempfile.mkdtemp

    def swapped(prefix: str, dir: Path) -> str:  # noqa: A002 - as it is called
        path = Path(real(prefix=prefix, dir=dir))
        path.rmdir()
        path.symlink_to(victim)
        return str(path)

    def seen() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mode) for path in victim.rglob("*"))

    (victim / "folder").chmod(0o500)
    before = seen()
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkdtemp", swapped)
        with pytest.raises(BuildError), workspace(tmp_path, RecordingRunner(strict=True)):
            pass
    assert seen() == before
    with workspace(tmp_path, RecordingRunner(strict=True)) as path:
        path.rename(tmp_path / "moved")
        path.symlink_to(victim)
    assert seen() == before
