"""What of a cache is in use: whoever uses something holds it, and what is held is not pruned."""

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from dlcontainer.errors import BuildError
from dlcontainer.system import guarded_files

# In the cache's folder: builds hold it as long as they run.
ALL = "in-use"


@contextlib.contextmanager
def building(cache: Path, on_note: Callable[[str], None]) -> Iterator[None]:
    """Hold all that a cache keeps, from before it is looked up until it is no longer needed.

    Where another is making room just now, its end is waited for. Raises BuildError for a cache
    that can't be written, and for another user's: bases, locked packages, native twins, what pip
    keeps and the notes beside them lie in this user's own cache only, which nobody else writes,
    so they are used as they lie there. What a group shares is kept steps (`stepcache`).
    """
    with _explained(cache):
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_own(cache, on_note)
        # Nobody else may open it: who can could lock it for ever.
        flags = os.O_RDONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(cache / ALL, flags, 0o600))
    if not guarded_files.is_private(Path(os.path.realpath(cache))):
        on_note(
            f"other users can write to a folder above the cache {cache}, and could replace "
            "the cache during a build: remove this permission, or set XDG_CACHE_HOME to "
            "another folder"
        )
    with held(cache / ALL):
        yield


@contextlib.contextmanager
def _explained(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"cannot write to the cache {cache}: {error.strerror}",
            next_step="set XDG_CACHE_HOME to another folder",
        ) from None


def _make_own(cache: Path, on_note: Callable[[str], None]) -> None:
    """Require that a cache is this user's, and let nobody else write in it."""
    # Of the folder that a link leads to: a link in one's home can lead to a larger disk.
    with guarded_files.folder(os.path.realpath(cache)) as handle:
        info = os.fstat(handle)
        if info.st_uid != os.getuid():
            raise BuildError(
                f"the cache {cache} belongs to {guarded_files.name_of(info.st_uid)}",
                why="its owner could change files that a build uses",
                next_step="set XDG_CACHE_HOME to a folder of your own; to share cached "
                "steps in a group, set engine.cache of the site",
            )
        if guarded_files.is_open_to_others(info):
            # As another program makes it under umask 002.
            os.fchmod(handle, stat.S_IMODE(info.st_mode) & ~0o022)
            on_note(
                f"other users could write to the cache {cache}: dlcontainer removed this "
                "permission; to share cached steps in a group, set engine.cache of the site"
            )


@contextlib.contextmanager
def alone(cache: Path, on_note: Callable[[str], None]) -> Iterator[bool]:
    """Yield whether nothing builds from a cache; while held, new builds wait.

    Raises BuildError for another user's.
    """
    with _explained(cache):
        if cache.exists():
            _make_own(cache, on_note)
    with _locked(cache / ALL, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
        yield free


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold one file; one that is not there is no error: its user finds out."""
    with _locked(path, fcntl.LOCK_SH):
        yield


def share(handle: int) -> bool:
    """Hold an open file with whoever else uses it; False where somebody has it alone.

    It never waits: in a group's cache any reader of a file can lock it, and keep it so.
    """
    return _took(handle, fcntl.LOCK_SH)


def claim(handle: int) -> bool:
    """Hold an open file alone, until it is closed; False where somebody uses it."""
    return _took(handle, fcntl.LOCK_EX)


def release(handle: int) -> None:
    """Let go of an open file."""
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_UN)


def _took(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # some file systems have no locks: there nothing can be held
    return True


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[bool]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield True
        return
    try:
        free = True
        try:
            fcntl.flock(handle, how)
        except BlockingIOError:
            free = False
        except OSError:
            pass  # some file systems have no locks: there nothing can be held
        yield free
    finally:
        os.close(handle)


@contextlib.contextmanager
def in_turn(folder: Path, on_note: Callable[[str], None], waiting: str) -> Iterator[None]:
    """Make what a folder of this user's cache holds, one at a time; who waits is told `waiting`."""
    flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open(folder / "lock", flags, 0o600)
    try:
        # Two at once: the second waits and takes what the first made.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_note(waiting)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            on_note(
                f"the file system of {folder} has no locks: two builds at once would both do the "
                "same work"
            )
        yield
    finally:
        os.close(lock)
