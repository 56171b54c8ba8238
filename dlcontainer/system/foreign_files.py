"""Files that somebody else wrote: opened once, no pipe or device, of a limited size and depth."""

import errno
import json
import os
import re
import stat
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO

# Deeper than anything that this program writes, and far from where Python's readers give up.
_MOST_LEVELS = 64
# Of JSON's values, by the characters that stand between them: each costs up to some 100 bytes. A
# proof of 100,000 ranks is below it.
_MOST_VALUES = 4_000_000
# A half of a pair is no character: it can't be written to a file or a terminal.
_MAY_BE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


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


def content(file: int | BinaryIO, most: int) -> bytes:
    """Read a whole open file from its start; raises OSError where it has more than `most` bytes.

    Where it was read to does not matter, and stays.
    """
    number = file if isinstance(file, int) else file.fileno()
    size = os.fstat(number).st_size
    if size > most:
        name = () if isinstance(file, int) else (str(file.name),)
        says = f"it has {size / 1e6:.0f} MB; the limit is {most / 1e6:.0f} MB"
        raise OSError(errno.EFBIG, says, *name)
    read = b""
    while len(read) < size and (block := os.pread(number, size - len(read), len(read))):
        read += block
    return read


def read(path: Path, most: int) -> bytes:
    """Read a regular file; raises OSError, also where it has more than `most` bytes."""
    with opened(path) as file:
        return content(file, most)


def loads(text: str | bytes, *, nan: bool = False) -> Any:
    """Read JSON; raises ValueError, also where it is nested too deeply to work with.

    Nothing has two meanings: a key that stands twice is refused, and half a character. `nan` takes
    the numbers that are none, which Python's own writer writes: a measurement may have them.
    """
    decoded = text.decode() if isinstance(text, bytes) else text
    if sum(map(decoded.count, ",[{")) > _MOST_VALUES:
        raise ValueError(f"more than {_MOST_VALUES} values")
    try:
        value = json.loads(
            decoded, object_pairs_hook=_unique, parse_constant=float if nan else _refuse
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _require_shallow(value)
    if _MAY_BE_HALF.search(decoded):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _require_shallow(value: object) -> None:
    level: list[object] = [value]
    for _ in range(_MOST_LEVELS):
        level = [inner for outer in level for inner in _held(outer)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"duplicate key {counts.most_common(1)[0][0][:80]!r}")
    return members


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


def _held(value: object) -> list[object]:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, dict | list)]
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, dict | list)]
    return []
