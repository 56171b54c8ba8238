"""The SHA-256 of a file: one way to take it, of a path and of what is open already."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dlcontainer.system import foreign_files

if TYPE_CHECKING:
    from dlcontainer.system.progress import Meter

_CHUNK = 1 << 20


def of_file(path: Path) -> str:
    """Return the SHA-256 of a regular file, hexadecimal; raises OSError."""
    with foreign_files.opened(path) as file:
        return of_open(file)


def of_open(
    file: int | BinaryIO,
    *,
    write: Callable[[bytes], object] | None = None,
    tell: Callable[[str], None] | None = None,
) -> str:
    """Return the SHA-256 of an open file from its start; `write` gets the very same bytes.

    Where it was read to does not matter, and stays. `tell` gets lines of how far it is.
    """
    number = file if isinstance(file, int) else file.fileno()
    # What grows meanwhile is not the file that was asked for, and a copy could fill the disk.
    total = os.fstat(number).st_size
    meter = _meter(tell, total) if tell else None
    digest, done = hashlib.sha256(), 0
    while chunk := os.pread(number, min(total - done, _CHUNK), done):
        digest.update(chunk)
        if write is not None:
            write(chunk)
        done += len(chunk)
        if meter is not None:
            meter.at(done)
    return digest.hexdigest()


def of_part(file: BinaryIO, offset: int, size: int) -> str:
    """Return the SHA-256 of `size` bytes of an open file; raises OSError."""
    digest, end = hashlib.sha256(), offset + size
    while offset < end and (chunk := os.pread(file.fileno(), min(end - offset, _CHUNK), offset)):
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()


def _meter(tell: Callable[[str], None], total: int) -> "Meter":
    # Read for what is long: each plan takes digests of small files.
    from dlcontainer.system.progress import Meter

    return Meter(tell=tell, title="read", total=total)
