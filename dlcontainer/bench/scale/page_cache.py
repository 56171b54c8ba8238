"""Cold or warm, shown: what of a subject's bytes is in memory, and how it is driven out."""

import ctypes
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dlcontainer.bench.scale.matrix_records import ColdState
from dlcontainer.lab.filesystem.microbenchmark import resident

_DROP = Path("/proc/sys/vm/drop_caches")
# What getrusage(2) counts input in.
_BLOCK = 512


def can_drop_caches() -> bool:
    """Return whether the kernel lets this user empty its caches, names included."""
    return os.access(_DROP, os.W_OK)


def emptied(path: Path) -> ColdState:
    """Drive a file or tree out of memory as far as that can be, and look at what stayed."""
    _written(path)
    for file in _files(path):
        _forget(file)
    share = in_memory(path)
    # Last, since to look at files is to learn their names.
    dropped = _dropped()
    method = "drop_caches" if dropped else "fadvise on a fresh copy"
    is_file = not path.is_dir()
    return ColdState(
        method=method,
        resident=share,
        data=None if share is None else share == 0.0,
        names=None if is_file else dropped,
    )


def warmed(path: Path, method: str) -> ColdState:
    """Return what is in memory of what should be."""
    share = in_memory(path)
    return ColdState(method=method, resident=share, data=None, names=None)


def in_memory(path: Path) -> float | None:
    """Return the share of the bytes of a file or tree that memory holds; None where nobody can say.

    Of a file that maps nothing (empty, not regular) nothing is asked.
    """
    size, cached = 0, 0.0
    for file in _files(path):
        number = _opened(file)
        if number is None:
            return None
        try:
            length = os.fstat(number).st_size
            share = resident(number, length) if length else 0.0
        finally:
            os.close(number)
        if share is None:
            return None
        size, cached = size + length, cached + share * length
    return cached / size if size else None


def read_bytes() -> int:
    """Return what ended children of this process made devices read so far, bytes.

    As getrusage(2) adds it up over all that was waited for: the kernel's `read_bytes`.
    """
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock * _BLOCK


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for root, _, names in os.walk(path):
        for name in names:
            file = Path(root, name)
            with suppress(OSError):
                if stat.S_ISREG(file.lstat().st_mode):
                    yield file


def _opened(file: Path) -> int | None:
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None


def _written(path: Path) -> None:
    """Wait until a copy is on the disk: what is not can't be driven out."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None).syncfs(number):
            os.sync()
    finally:
        os.close(number)


def _forget(file: Path) -> None:
    number = _opened(file)
    if number is not None:
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)


def _dropped() -> bool:
    if not can_drop_caches():
        return False
    try:
        _DROP.write_text("3\n")
    except OSError:
        return False
    return True
