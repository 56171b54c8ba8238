"""Files that appear whole: what was there stays until all is written, and nothing is left."""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.system import atomic_files
from tests.hostile import KINDS, plant


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "it's here"
    path.write_text("old")
    return path


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", ["new: ä", "new: ä".encode()])
def test_a_file_is_written_whole(target: Path, content: str | bytes) -> None:
    atomic_files.write(target, content)
    assert target.read_bytes() == "new: ä".encode()
    assert names(target.parent) == [target.name]


def test_the_old_file_stays_until_all_is_on_the_disk(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def look(handle: int) -> None:
        seen.append(target.read_text())

    monkeypatch.setattr(os, "fsync", look)
    with atomic_files.replacing(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    # First the file's bytes, then the folder with its new entry.
    assert seen == ["old", "new"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupt_at_any_step_leaves_the_old_file_alone(
    target: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **keywords: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_files.write(target, "new")
    assert (target.read_text(), names(target.parent)) == ("old", [target.name])


def test_a_block_that_raises_leaves_the_old_file_alone(target: Path) -> None:
    def half() -> None:
        with atomic_files.replacing(target) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (target.read_text(), names(target.parent)) == ("old", [target.name])


def test_a_full_disk_leaves_the_old_file_alone(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_files.write(target, "new")
    assert (target.read_text(), names(target.parent)) == ("old", [target.name])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(60)
def test_nothing_planted_at_the_name_beside_is_touched(
    target: Path, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    # A name that could be foreseen.
    monkeypatch.setattr("secrets.token_hex", lambda count: "0" * 2 * count)
    planted = tmp_path / f".{target.name}.00000000"
    plant(kind, planted, victim)
    with pytest.raises(FileExistsError):
        atomic_files.write(target, "new")
    assert (target.read_text(), victim.read_text()) == ("old", "mine")


def test_a_link_at_the_target_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, target = tmp_path / "victim", tmp_path / "target"
    victim.write_text("mine")
    target.symlink_to(victim)
    atomic_files.write(target, "new")
    assert (target.is_symlink(), target.read_text(), victim.read_text()) == (False, "new", "mine")


def test_a_folder_that_is_swapped_meanwhile_gets_nothing(tmp_path: Path) -> None:
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    victim.mkdir()
    with atomic_files.replacing(folder / "x") as file:
        file.write(b"new")
        folder.rename(tmp_path / "moved")
        folder.symlink_to(victim)
    assert (names(victim), (tmp_path / "moved" / "x").read_text()) == ([], "new")


def test_modes_are_those_of_any_new_file(tmp_path: Path, umask: int) -> None:
    for mode in (0o600, 0o666, 0o777):
        atomic_files.write(tmp_path / oct(mode), "x", mode=mode)
        assert (tmp_path / oct(mode)).stat().st_mode & 0o777 == mode & ~umask
    atomic_files.write(tmp_path / "usual", "x")
    assert (tmp_path / "usual").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_place_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic_files.write(tmp_path / "folder", "x")
    with pytest.raises(FileNotFoundError):
        atomic_files.write(tmp_path / "no" / "x", "x")
    assert names(tmp_path) == ["folder"]


def test_no_descriptor_stays_open(target: Path) -> None:
    before = len(names(Path("/proc/self/fd")))
    atomic_files.write(target, "new")
    with pytest.raises(IsADirectoryError):
        atomic_files.write(target.parent, "x")
    assert len(names(Path("/proc/self/fd"))) == before


def test_a_finished_file_moves_to_its_place(target: Path) -> None:
    new = target.with_name("new")
    new.write_text("new")
    atomic_files.move(new, target)
    assert (target.read_text(), names(target.parent)) == ("new", [target.name])
    with pytest.raises(FileNotFoundError):
        atomic_files.move(new, target)
    assert target.read_text() == "new"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_syncs_no_folder_is_no_failure(
    target: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def of_files(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").readlink() == target.parent.resolve():
            raise OSError(number, os.strerror(number))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", of_files)
    atomic_files.write(target, "new")
    assert target.read_text() == "new"


def test_a_folder_that_fails_is_a_failure(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        atomic_files.sync_folder(0)


def left_beside(target: Path, *, age_s: float = 3600) -> Path:
    path = target.with_name(f".{target.name}.0123abcd")
    path.write_text("half")
    moment = time.time() - age_s
    os.utime(path, (moment, moment))
    return path


def test_what_a_killed_writer_left_goes(target: Path) -> None:
    left_beside(target)
    other = target.with_name(".another.0123abcd")
    other.write_text("x")
    os.utime(other, (0, 0))
    atomic_files.write(target, "new")
    assert names(target.parent) == [other.name, target.name]


def test_what_a_writer_holds_stays(target: Path) -> None:
    left = left_beside(target)
    with left.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        atomic_files.write(target, "new")
    assert left.read_text() == "half"


def test_what_is_new_stays(target: Path) -> None:
    left = left_beside(target, age_s=10)
    atomic_files.write(target, "new")
    assert left.exists()


def test_a_link_or_a_fifo_of_such_a_name_stays(target: Path) -> None:
    link = left_beside(target)
    link.unlink()
    link.symlink_to(target)
    fifo = target.with_name(f".{target.name}.0123abce")
    os.mkfifo(fifo)
    os.utime(fifo, (0, 0))
    atomic_files.write(target, "new")
    assert link.is_symlink()
    assert fifo.is_fifo()
    assert target.read_text() == "new"


def test_a_writer_holds_its_file_until_it_has_its_name(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def later(source: str, *args: object, **keywords: object) -> None:
        # A second writer, after a fsync that took more than a minute.
        os.utime(target.parent / source, (0, 0))
        monkeypatch.setattr(os, "replace", real)
        atomic_files.write(target, "second")
        real(source, *args, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "replace", later)
    atomic_files.write(target, "first")
    assert target.read_text() == "first"
    assert names(target.parent) == [target.name]
