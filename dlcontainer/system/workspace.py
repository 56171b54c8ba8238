"""Temporary folders that undo themselves, and finished files that move from them to their place."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.system import atomic_files
from dlcontainer.system.environ import variables
from dlcontainer.system.machine import mounts_below
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    Runner,
    quote,
)

# What tells a user something worth knowing.
Note = Callable[[str], None]

PREFIX = ".dlcontainer-build-"
_LOCK = "lock"
# A folder without a lock file may be one that another process is just making.
_GRACE_S = 60.0
# For a hang alone: what unmounts may have to wait for a processor.
_UNMOUNT_S = 20.0


@contextlib.contextmanager
def workspace(
    parent: Path, runner: Runner, note: Note, *, hands_on: bool = False
) -> Iterator[Path]:
    """Make a private folder in `parent` and remove it at the end, whatever happens.

    It has the user's own group, also in a project's folder that hands its group on: an engine maps
    no other group, and fails on files of one. With `hands_on` files move from it into `parent`,
    and get the group that they would get there.
    A killed process can't remove its own: the next one finds it by its free lock, and does.
    A folder that can't be removed is worth a note: it is no reason to fail, and must not take the
    place of the one that there is. Raises BuildError where the folder can't be made.
    """
    # Programs that work in it start elsewhere.
    parent = parent.absolute()
    reap(parent, runner, note)
    try:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            lock = _locked(path, hands_on=hands_on)
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
    except OSError as error:
        raise BuildError(
            f"cannot write to {parent}: {error.strerror}",
            next_step="choose another folder: -o for the image, --tmpdir or TMPDIR for the build",
        ) from None
    try:
        yield path
    finally:
        try:
            _remove_or_note(path, runner, note)
        finally:
            os.close(lock)


@contextlib.contextmanager
def temporary(environ: Mapping[str, str], runner: Runner) -> Iterator[Path]:
    """Make a workspace in TMPDIR: unlike a folder of `tempfile`, it survives no kill for long.

    Raises BuildError where it can't be made.
    """
    with workspace(variables.temporary(environ), runner, lambda _: None) as path:
        yield path


def _locked(path: Path, *, hands_on: bool) -> int:
    # By descriptor: where others may write, a link can take the folder's place at any moment.
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise PermissionError(
                errno.EPERM, "another process replaced it during its creation", str(path)
            )
        if not hands_on:
            _make_own(folder)
        # Locked first, named then: nobody can find it free between the two.
        unnamed = f"{_LOCK}.new"
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        lock = os.open(unnamed, flags, 0o600, dir_fd=folder)
        # Some file systems have no locks: then nothing of theirs is ever reaped.
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rename(unnamed, _LOCK, src_dir_fd=folder, dst_dir_fd=folder)
        return lock
    finally:
        os.close(folder)


def _make_own(folder: int) -> None:
    """Give an open folder the user's own group, and no set-group-ID bit to hand one on."""
    if os.fstat(folder).st_gid != os.getegid():
        # A file system that lets nobody do so keeps its group.
        with contextlib.suppress(PermissionError):
            os.fchown(folder, -1, os.getegid())
    if os.fstat(folder).st_mode & stat.S_ISGID:
        os.fchmod(folder, 0o700)


def reap(parent: Path, runner: Runner, note: Note) -> list[Path]:
    """Remove what killed processes of this user left in a folder; return what was removed."""
    removed = []
    for path in sorted(parent.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            # Not through links: in a shared /tmp another user's may lead to a folder of ours.
            info = path.lstat()
            ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()
            if ours and _is_left(path) and _remove_or_note(path, runner, note):
                removed.append(path)
    return removed


def _remove_or_note(path: Path, runner: Runner, note: Note) -> bool:
    try:
        remove(path, runner)
    except BuildError as error:
        note(str(error))
        return False
    return True


def _is_left(path: Path) -> bool:
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - path.stat().st_mtime > _GRACE_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def remove(path: Path, runner: Runner) -> None:
    """Remove a tree, also where folders are not writable or belong to subordinate users.

    A link in its place is another user's: it stays. What is mounted in it is unmounted, never
    walked into. Raises BuildError where it stays.
    """
    if path.is_symlink():
        return
    unmount_below(path, runner)
    _make_removable(path)
    shutil.rmtree(path, ignore_errors=True)
    if path.is_symlink() or not path.exists():
        return
    # Files of a --fakeroot build can belong to the user's subordinate ids: only a user
    # namespace that maps these may remove them.
    argv = ["unshare", "--map-root-user", "--map-auto", "rm", "-rf", "--", str(path)]
    try:
        runner(argv)
    except (CommandFailedError, CommandNotFoundError) as error:
        raise BuildError(
            f"cannot remove {path}", why=str(error), next_step=f"remove it by hand: {quote(argv)}"
        ) from None


def unmount_below(path: Path, runner: Runner) -> None:
    """Unmount what a killed process left mounted in a tree; raises BuildError for what stays."""
    real = Path(os.path.realpath(path))
    for mount in mounts_below(real):
        point = str(mount.point)
        # As a user might; then as root, who can unmount what fusermount did not mount.
        for argv in (["fusermount3", "-u", "-z", "--", point], ["umount", "-l", "--", point]):
            with contextlib.suppress(CommandFailedError, CommandNotFoundError, CommandTimeoutError):
                runner(argv, timeout=_UNMOUNT_S)
                break
    mounts = mounts_below(real)
    if mounts:
        argv = ["umount", "-l", "--", str(mounts[0].point)]
        raise BuildError(
            f"cannot unmount the file systems in {path}",
            why=f"a file system ({mounts[0].kind}) is still mounted at {mounts[0].point}",
            next_step=f"unmount it by hand: {quote(argv)}",
        )


def _make_removable(path: Path) -> None:
    _open_up(path)
    for folder, names, _ in os.walk(path):
        # Before os.walk looks into them: what can't be read it passes over.
        for name in names:
            _open_up(Path(folder, name))


def _open_up(folder: Path) -> None:
    with contextlib.suppress(OSError):
        info = folder.lstat()
        if stat.S_ISDIR(info.st_mode) and info.st_mode & 0o700 != 0o700:
            folder.chmod(stat.S_IMODE(info.st_mode) | 0o700)


@contextlib.contextmanager
def settling(folder: Path) -> Iterator[None]:
    """Keep others from settling files in a folder: a record and its image change together."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Some file systems have no locks: then two builds that end at one moment can mix.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def settle(source: Path, target: Path) -> None:
    """Move a finished file to its place: it appears whole, or the old one stays.

    Both lie on one file system. Raises BuildError where that fails.
    """
    try:
        atomic_files.move(source, target)
    except OSError as error:
        raise BuildError(f"can't write {target}: {error.strerror}") from None
