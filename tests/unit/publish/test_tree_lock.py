"""The lock of a published tree, and who may plant something in its place."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.errors import PublishError
from dlcontainer.publish import ownership, tree_lock
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership

OTHER = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    path.chmod(0o2775)
    return path


@pytest.fixture
def top(root: Path) -> Iterator[Folder]:
    with Folder.at(root) as folder:
        yield folder


@pytest.fixture
def own(root: Path) -> Ownership:
    return ownership.of_root(root, None)


def take(top: Folder, own: Ownership) -> None:
    os.close(tree_lock.lock_file(top, own))


def plant_link(lock: Path, victim: Path) -> None:
    lock.symlink_to(victim)


def plant_second_name(lock: Path, victim: Path) -> None:
    lock.hardlink_to(victim)


def plant_pipe(lock: Path, victim: Path) -> None:
    os.mkfifo(lock)


def plant_folder(lock: Path, victim: Path) -> None:
    lock.mkdir()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("plant", [plant_link, plant_second_name, plant_pipe, plant_folder])
def test_a_lock_that_a_colleague_planted(
    root: Path, top: Folder, own: Ownership, tmp_path: Path, plant: object
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("secret")
    victim.chmod(0o600)
    lock = root / ".lock"
    assert callable(plant)
    plant(lock, victim)
    with pytest.raises(PublishError, match="not a lock that a publisher made") as caught:
        take(top, own)
    assert f"rm {lock}" in str(caught.value.next_step)
    assert (stat.S_IMODE(victim.stat().st_mode), victim.read_text()) == (0o600, "secret")


@pytest.mark.usefixtures("as_root")
def test_a_lock_of_somebody_else(root: Path, top: Folder) -> None:
    lock = root / ".lock"
    lock.touch()
    os.chown(lock, OTHER, OTHER)
    before = lock.stat()
    take(top, ownership.of_root(root, None))
    root.chmod(0o755)
    own = ownership.of_root(root, None)
    with pytest.raises(PublishError, match="who does not publish here"):
        take(top, own)
    after = lock.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, OTHER, OTHER)


def test_the_lock_that_is_made(root: Path, top: Folder, own: Ownership) -> None:
    for umask in (0o077, 0o000):
        old = os.umask(umask)
        try:
            take(top, own)
        finally:
            os.umask(old)
        lock = root / ".lock"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o664
        lock.unlink()


def test_a_folder_that_is_swapped_for_a_link_keeps_its_mode(
    root: Path, top: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as a folder is made, a colleague puts a link in its place."""
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o700)
    real = os.mkdir

    def mkdir(name: str, mode: int, *, dir_fd: int) -> None:
        real(name, mode, dir_fd=dir_fd)
        (root / name).rmdir()
        (root / name).symlink_to(victim)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(PublishError, match="is a symbolic link"):
        top.make("images")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o700
