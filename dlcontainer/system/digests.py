"""The SHA-256 of a file: one way to take it, of a path and of what is open already."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from dlcontainer.system import foreign_files

_CHUNK = 1 << 20
_TELL_EACH = 1 << 28


def of_file(path: Path) -> str:
    """Give the SHA-256 of a regular file, hexadecimal; raises OSError."""
    with foreign_files.opened(path) as file:
        return of_open(file)


def of_open(
    file: int | BinaryIO,
    *,
    write: Callable[[bytes], object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> str:
    """Give the SHA-256 of an open file from its start; `write` gets the very same bytes.

    Where it was read to does not matter, and stays. `tell` gets a line each 268 MB.
    """
    number = file if isinstance(file, int) else file.fileno()
    # What grows meanwhile is not the file that was asked for, and a copy could fill the disk.
    total = os.fstat(number).st_size
    digest, done, told = hashlib.sha256(), 0, 0
    while chunk := os.pread(number, min(total - done, _CHUNK), done):
        digest.update(chunk)
        if write is not None:
            write(chunk)
        done += len(chunk)
        if tell is not None and done - told >= _TELL_EACH:
            told = done
            tell(f"{done / 1e6:.0f} of {total / 1e6:.0f} MB")
    return digest.hexdigest()
