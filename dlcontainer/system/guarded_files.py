"""Files where others may write: no link is followed, and owners are asked of what is open already.

A path is no identity there: between two looks another file may stand at it. So a file is opened
once, and every question after that goes to the descriptor.
"""

import contextlib
import errno
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.system import digests, foreign_files

# What a note may hold; a larger one is not ours, whatever it says.
NOTE_BYTES = 1 << 20

_ALWAYS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS_ENTER = stat.S_IXGRP | stat.S_IXOTH


@contextlib.contextmanager
def folder(path: Path | str, within: int | None = None) -> Iterator[int]:
    """Open a folder, not what a link leads to; `within` is the open folder that it is in."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _ALWAYS, dir_fd=within)
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def file(path: Path | str, within: int | None = None) -> Iterator[int]:
    """Open a regular file to read; a link, a FIFO or a device raises OSError."""
    with foreign_files.opened(path, follow=False, folder=within) as opened:
        yield opened.fileno()


def names(handle: int) -> list[str]:
    """List what is in an open folder."""
    return sorted(os.listdir(handle))


def content(handle: int, most: int = NOTE_BYTES) -> bytes:
    """Read a small file from its start; raises OSError for a large one."""
    return foreign_files.content(handle, most)


def read_own(path: Path) -> str:
    """Read a small file that this user or root wrote; raises OSError for any other."""
    with file(path) as handle:
        require_own(handle)
        return content(handle).decode()


def require_own(handle: int) -> None:
    """Require of an open file that this user or root wrote it, and nobody else can."""
    info = os.fstat(handle)
    if info.st_uid not in _trusted():
        raise PermissionError(errno.EPERM, f"it belongs to {name_of(info.st_uid)}")
    if is_open_to_others(info):
        raise PermissionError(errno.EPERM, "other users can write to it")


@contextlib.contextmanager
def created(path: Path | str, within: int | None = None, mode: int = 0o600) -> Iterator[int]:
    """Create and open a file that was not there, with this mode whatever the umask."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _ALWAYS, 0o600, dir_fd=within)
    try:
        os.fchmod(handle, mode)
        yield handle
    finally:
        os.close(handle)


def append(handle: int, data: bytes) -> None:
    """Write all of some bytes at the end of an open file."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def copy(source: int, target: int) -> str:
    """Copy an open file into another; return the SHA-256 of what was written."""
    return digests.of_open(source, write=lambda block: append(target, block))


def is_private(path: Path) -> bool:
    """Return whether this user and root alone decide what lies in a folder, under this very path.

    False for a path with a link in it: give `os.path.realpath` of it, and use that.
    """
    closed = False
    for place in (*reversed(path.parents), path):
        try:
            info = place.lstat()
        except OSError:
            return False
        if not stat.S_ISDIR(info.st_mode) or info.st_uid not in _trusted():
            return False
        # Who can't enter a folder can't write in those below it, whatever their modes.
        closed = closed or not info.st_mode & _OTHERS_ENTER
        # Where it is sticky (as /tmp is) nobody can rename what is ours; below, the next tells.
        if info.st_mode & _OTHERS_WRITE and not (closed or info.st_mode & stat.S_ISVTX):
            return False
    return True


def is_closed(path: Path) -> bool:
    """Return whether others can't reach what lies in a folder: it, or one above, lets none
    enter.
    """
    return any(not place.stat().st_mode & _OTHERS_ENTER for place in (path, *path.parents))


def is_own(path: Path, *, closed: bool) -> bool:
    """Return whether this user or root owns a regular file; nobody else may write unless
    `closed`.
    """
    try:
        info = path.lstat()
    except OSError:
        return False
    is_ours = stat.S_ISREG(info.st_mode) and info.st_uid in _trusted()
    return is_ours and (closed or not is_open_to_others(info))


def is_open_to_others(info: os.stat_result) -> bool:
    """Return whether others than a folder's owner may write in it."""
    return bool(info.st_mode & _OTHERS_WRITE)


def name_of(uid: int) -> str:
    """Return a user's name; the number for one without."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owners:
    """Whose word counts here: this user's, root's, those of the names, of the tree's owner."""

    names: tuple[str, ...] = ()
    tree: Path | None = None

    def stranger(self, uid: int) -> str | None:
        """Name an owner who is none of these."""
        name = name_of(uid)
        if uid in (0, os.getuid()) or name in self.names:
            return None
        with contextlib.suppress(OSError):
            if self.tree is not None and self.tree.stat().st_uid == uid:
                return None
        return name


MINE = Owners()


def _trusted() -> tuple[int, int]:
    return 0, os.getuid()
