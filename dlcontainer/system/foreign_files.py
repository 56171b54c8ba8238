"""Files that somebody else wrote: opened once, no pipe or device, of a limited size and depth."""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 22
_TELL_EACH = 1 << 28
# Deeper than anything that this program writes, and far from where Python's readers give up.
_MOST_LEVELS = 64


def opened(path: Path | str, *, follow: bool = True, folder: int | None = None) -> BinaryIO:
    """Open a regular file to read, of an open folder if one is given; raises OSError.

    A pipe is no reason to wait, and a device is not touched.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    try:
        number = os.open(path, flags if follow else flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not follow:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def content(file: BinaryIO, most: int) -> bytes:
    """Read a whole file from its start; raises OSError where it has more than `most` bytes."""
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise OSError(
            errno.EFBIG, f"it has {size / 1e6:.0f} MB, more than {most / 1e6:.0f}", str(file.name)
        )
    file.seek(0)
    return file.read(size)


def read(path: Path, most: int) -> bytes:
    """Read a regular file; raises OSError, also where it has more than `most` bytes."""
    with opened(path) as file:
        return content(file, most)


def loads(text: str | bytes) -> Any:
    """Read JSON; raises ValueError, also where it is nested too deeply to work with."""
    try:
        value = json.loads(text.decode() if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level: list[object] = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for outer in level for inner in _held(outer)]
        if not level:
            return value
    raise ValueError("nested too deeply")


def _held(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, dict | list)]
    return []


def digest(
    file: BinaryIO,
    *,
    write: Callable[[bytes], object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> str:
    """Give the SHA-256 of a file's bytes, from its start; `write` gets the very same bytes."""
    found, done, told = hashlib.sha256(), 0, 0
    total = os.fstat(file.fileno()).st_size
    file.seek(0)
    while chunk := file.read(_CHUNK):
        found.update(chunk)
        if write is not None:
            write(chunk)
        done += len(chunk)
        if tell is not None and done - told >= _TELL_EACH:
            told = done
            tell(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")
    return found.hexdigest()
