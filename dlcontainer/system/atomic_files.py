"""Write files atomically: a reader sees the old file or the new one.

The only writer of a file that others may look for: written beside its place under a name that
nobody can foresee, brought to the disk, then renamed. All by the descriptor of the folder, so a
link that others put in the folder's place, or at the name beside, leads nowhere. A writer holds its
file beside by a lock: what a killed one left is free, and goes when the target is written again.
"""

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from dlcontainer.system import guarded_files

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# For writing: a lock on NFS needs that.
_LEFT = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
# A file without a lock may be one that another process is just making.
_GRACE_S = 60.0


@contextlib.contextmanager
def replacing(target: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Yield a file to write to; it takes the target's place once all of it is on the disk.

    From `mode` the umask takes away, as from any new file's. Where the block raises nothing
    changes. Raises OSError where it can't be written.
    """
    aside = f".{target.name}.{secrets.token_hex(4)}"
    with guarded_files.folder(os.path.realpath(target.parent)) as folder:
        _reap(folder, target.name)
        try:
            number = os.open(aside, _NEW, mode, dir_fd=folder)
            with os.fdopen(number, "wb") as file:
                # Some file systems have no locks: there nothing is ever taken for left.
                with contextlib.suppress(OSError):
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield file
                file.flush()
                os.fsync(number)
                # Still locked: nobody takes it for left before it has its name.
                os.replace(aside, target.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=folder)
            raise
        sync_folder(folder)


def _reap(folder: int, name: str) -> None:
    """Remove what killed processes of this user left beside a file of an open folder."""
    leftovers = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{8}}")
    with contextlib.suppress(OSError):
        for leftover in filter(leftovers.fullmatch, os.listdir(folder)):
            with contextlib.suppress(OSError):
                _remove_left(folder, leftover)


def _remove_left(folder: int, leftover: str) -> None:
    number = os.open(leftover, _LEFT, dir_fd=folder)
    try:
        info = os.fstat(number)
        is_ours = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid()
        if is_ours and time.time() - info.st_mtime > _GRACE_S:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(leftover, dir_fd=folder)
    finally:
        os.close(number)


def write(target: Path, content: str | bytes, *, mode: int = 0o666) -> None:
    """Write a file whole, a text as UTF-8; `mode` and errors as with `replacing`."""
    data = content.encode() if isinstance(content, str) else content
    with replacing(target, mode=mode) as file:
        file.write(data)


def move(source: Path, target: Path) -> None:
    """Move a finished file of the same file system into a place; raises OSError."""
    with guarded_files.folder(os.path.realpath(target.parent)) as folder:
        flush(source)
        os.replace(source, target.name, dst_dir_fd=folder)
        sync_folder(folder)


def move_folder(source: Path, target: Path) -> None:
    """Move a finished folder of the same file system to a place where nothing is; raises OSError.

    Its files were written by `write`, so they are on the disk. Of several that move to one place
    the first has it; an empty folder counts as nothing.
    """
    with guarded_files.folder(os.path.realpath(target.parent)) as folder:
        os.rename(source, target.name, dst_dir_fd=folder)
        sync_folder(folder)


def flush(path: Path) -> None:
    """Wait until a file's bytes are on the disk: what moves it after that need not."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(handle: int) -> None:
    """Bring an open folder's entries to the disk, where its file system can."""
    try:
        os.fsync(handle)
    except OSError as error:
        # Not every network file system syncs a folder: the file is in its place all the same.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
