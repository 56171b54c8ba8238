"""What of a cache is in use: whoever uses something holds it, and what is held is not pruned."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from dlcontainer.errors import BuildError

# In the cache's folder: builds hold it as long as they run.
ALL = "in-use"


@contextlib.contextmanager
def building(cache: Path) -> Iterator[None]:
    """Hold all that a cache keeps, from before it is looked up until it is no longer needed.

    Where another is making room just now, its end is waited for. Raises BuildError for a cache
    that can't be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        (cache / ALL).touch()
    except OSError as error:
        raise BuildError(
            f"can't write in the cache {cache}: {error.strerror}",
            next_step="name another folder: XDG_CACHE_HOME",
        ) from None
    with held(cache / ALL):
        yield


@contextlib.contextmanager
def alone(cache: Path) -> Iterator[bool]:
    """Tell whether nothing builds from a cache; while true, who wants to begin waits."""
    with _locked(cache / ALL, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
        yield free


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold one file; one that is not there is no error: its user finds out."""
    with _locked(path, fcntl.LOCK_SH):
        yield


def is_free(path: Path) -> bool:
    """Tell whether nobody holds a file now."""
    with _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
        return free


@contextlib.contextmanager
def _locked(path: Path, how: int) -> Iterator[bool]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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
