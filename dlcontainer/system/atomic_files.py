"""Write files atomically: a reader sees the old file or the new one."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path
from typing import TextIO

from dlcontainer.errors import BenchDataError


@contextmanager
def replacing(target: Path) -> Iterator[TextIO]:
    """Give a file to write text to; it takes the target's place once all is written.

    Line ends are written as they come, UTF-8; what has no spelling in it (a file's name of odd
    bytes) is escaped. Raises BenchDataError where it can't be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        with os.fdopen(
            handle, "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as file:
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(file.fileno(), 0o666 & ~umask)
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        Path(name).unlink(missing_ok=True)


def write(text: str, target: Path) -> None:
    """Write a text whole; raises BenchDataError where it can't be written."""
    with replacing(target) as file:
        file.write(text)


def require(target: Path) -> None:
    """Raise BenchDataError, before long work, where a file could not be written in the end."""
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        with tempfile.TemporaryFile(dir=target.parent):
            return
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> BenchDataError:
    return BenchDataError(
        f"cannot be written: {error.strerror}",
        where=str(target),
        next_step="choose another place with -o",
    )
