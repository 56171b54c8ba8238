"""Folders that undo themselves, leftovers of killed processes, files that appear whole."""

import contextlib
import fcntl
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from dlcontainer.errors import BuildError
from dlcontainer.system.machine import MountPoint
from dlcontainer.system.process import CommandNotFoundError, CommandTimeoutError
from dlcontainer.system.workspace import PREFIX, reap, remove, settle, workspace
from tests.fakes import RecordingRunner, completed

NOBODY = RecordingRunner(strict=True)
SAID: list[str] = []
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
    with workspace(parent, NOBODY, SAID.append) as work:
        assert (work.parent, work.stat().st_mode & 0o777) == (parent, 0o700)
        assert reap(parent, NOBODY, SAID.append) == []
        with workspace(parent, NOBODY, SAID.append) as second:
            assert second != work
        assert [path.name for path in parent.iterdir()] == [work.name]
    assert list(parent.iterdir()) == []


@pytest.mark.usefixtures("as_root")
def test_a_groups_folder_hands_nothing_on_but_to_what_goes_back(parent: Path) -> None:
    os.chown(parent, -1, 50)
    parent.chmod(0o2775)
    with workspace(parent, NOBODY, SAID.append) as work:
        (work / "below").mkdir()
        for made in (work, work / "below"):
            info = made.stat()
            assert (info.st_gid, info.st_mode & 0o2000) == (os.getegid(), 0)
    with workspace(parent, NOBODY, SAID.append, hands_on=True) as near:
        (near / "image").write_text("")
        assert [(near / "image").stat().st_gid, near.stat().st_mode & 0o7777] == [50, 0o2700]


def test_it_is_named_from_the_root(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(parent.parent)
    # What works in it starts elsewhere.
    with workspace(Path(parent.name), NOBODY, SAID.append) as work:
        assert work.parent == parent


def test_an_error_undoes_it_too(parent: Path) -> None:
    def fail() -> None:
        with workspace(parent, NOBODY, SAID.append) as work:
            (work / "read only").mkdir(mode=0o500)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(parent.iterdir()) == []


def test_a_folder_that_is_not_there(parent: Path) -> None:
    with (
        pytest.raises(BuildError, match=r"cannot write to .*: No such file") as caught,
        workspace(parent / "none", NOBODY, SAID.append),
    ):
        raise AssertionError("it was entered")
    assert "-o for the image" in str(caught.value.next_step)


def test_what_killed_processes_left_is_reaped(parent: Path) -> None:
    killed, just_made = left(parent, "killed"), left(parent, "made", lock=False)
    os.utime(just_made)
    half_made = left(parent, "half", lock=False)
    other = left(parent, "x").rename(parent / "dlcontainer-build-x")
    (parent / f"{PREFIX}file").write_text("")
    assert reap(parent, NOBODY, SAID.append) == sorted([half_made, killed])
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
        assert reap(parent, NOBODY, SAID.append) == []
        assert (used / "below" / "file").exists()
    finally:
        os.close(lock)
    assert reap(parent, NOBODY, SAID.append) == [used]


def test_anothers_folder_is_not_reaped(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = left(parent, "theirs")
    monkeypatch.setattr(os, "getuid", lambda: theirs.stat().st_uid + 1)
    assert reap(parent, NOBODY, SAID.append) == []
    assert theirs.exists()


@pytest.mark.parametrize("lock", [True, False])
def test_links_are_not_followed(parent: Path, tmp_path: Path, lock: bool) -> None:
    mine = left(tmp_path, "mine", lock=lock)
    mine.chmod(0o500)
    (parent / f"{PREFIX}link").symlink_to(mine)
    os.utime(mine, (LONG_AGO, LONG_AGO))
    assert reap(parent, NOBODY, SAID.append) == []
    assert mine.stat().st_mode & 0o777 == 0o500
    assert (mine / "below" / "file").exists()


def test_a_tree_that_is_not_writable(parent: Path, tmp_path: Path) -> None:
    tree = parent / "tree"
    for folder, mode in (("a/b", 0o500), ("a/c", 0), ("a", 0o500)):
        (tree / folder).mkdir(parents=True, exist_ok=True)
        if mode == 0o500 and folder != "a":
            (tree / folder / "file").write_text("x")
        (tree / folder).chmod(mode)
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
    with pytest.raises(BuildError, match="cannot remove") as caught:
        remove(tree, broken)
    assert "unshare: missing" in str(caught.value.why)
    # As a whole, to be copied: the parent's name has quotes and a space.
    said, _, command = str(caught.value.next_step).partition(": ")
    assert (said, tuple(shlex.split(command))) == ("remove it by hand", wanted)


def test_a_leftover_that_stays_stops_nobody(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stays, goes = left(parent, "a"), left(parent, "b")
    real = shutil.rmtree
    monkeypatch.setattr(
        "shutil.rmtree",
        lambda path, ignore_errors: None if path == stays else real(path, ignore_errors=True),
    )
    said: list[str] = []
    broken = RecordingRunner([CommandNotFoundError("unshare", "missing")])
    with workspace(parent, broken, said.append) as work:
        assert {path.name for path in parent.iterdir()} == {stays.name, work.name}
    assert len(said) == 1
    assert f"cannot remove {stays}" in said[0]
    assert not goes.exists()


@pytest.mark.parametrize("ending", [None, KeyError])
def test_a_folder_that_stays_does_not_hide_how_the_work_ended(
    parent: Path, monkeypatch: pytest.MonkeyPatch, ending: type[Exception] | None
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda path, ignore_errors: None)
    said: list[str] = []
    broken = RecordingRunner([CommandNotFoundError("unshare", "missing")])

    def work() -> None:
        with workspace(parent, broken, said.append):
            if ending is not None:
                raise ending

    with pytest.raises(ending) if ending else contextlib.nullcontext():
        work()
    assert len(said) == 1


def test_a_mount_is_unmounted_and_not_walked_into(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = left(parent, "x")
    below = MountPoint(point=tree / "below", kind="fuse.slowfs", options=frozenset())
    listed = [[below], []]
    monkeypatch.setattr("dlcontainer.system.workspace.mounts_below", lambda path: listed.pop(0))
    runner = RecordingRunner()
    remove(tree, runner)
    assert runner.argvs == [("fusermount3", "-u", "-z", "--", str(below.point))]
    assert not tree.exists()


def test_what_stays_mounted_is_left_alone(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = left(parent, "x")
    below = MountPoint(point=tree / "below", kind="fuse.slowfs", options=frozenset())
    monkeypatch.setattr("dlcontainer.system.workspace.mounts_below", lambda path: [below])
    late = CommandTimeoutError(completed("fusermount3"), 3)
    runner = RecordingRunner([late, CommandNotFoundError("umount", "missing")])
    with pytest.raises(BuildError, match="cannot unmount") as caught:
        remove(tree, runner)
    assert (tree / "below/file").read_text() == "x"
    assert str(caught.value.next_step).startswith("unmount it by hand: umount -l -- '")


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
        with pytest.raises(BuildError), workspace(tmp_path, NOBODY, SAID.append):
            pass
    assert seen() == before
    with workspace(tmp_path, NOBODY, SAID.append) as path:
        path.rename(tmp_path / "moved")
        path.symlink_to(victim)
    assert seen() == before
