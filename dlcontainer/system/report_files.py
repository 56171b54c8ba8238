"""Files of a report appear whole: whoever opens one meanwhile sees the old one."""

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from errno import EISDIR
from pathlib import Path
from typing import TextIO

from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files


@contextmanager
def replacing(target: Path, option: str = "-o") -> Iterator[TextIO]:
    """Yield a file to write text to; it takes the target's place once all is written.

    Line ends are written as they come, UTF-8; what has no spelling in it (a file's name of odd
    bytes) is escaped. Raises BenchDataError, which names the option, where it can't be written.
    """
    try:
        with atomic_files.replacing(target) as file:
            text = io.TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="")
            yield text
            text.flush()
            text.detach()
    except OSError as error:
        raise _unwritable(target, error, option) from error


def write(text: str, target: Path, option: str = "-o") -> None:
    """Write a text whole; raises BenchDataError, which names the option, where it can't."""
    with replacing(target, option) as file:
        file.write(text)


def write_folder(texts: Mapping[str, str], folder: Path, option: str = "-o") -> tuple[Path, ...]:
    """Write texts under their names in a folder, which may be new; raises BenchDataError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error, option) from error
    for name, text in texts.items():
        write(text, folder / name, option)
    return tuple(folder / name for name in texts)


def require(target: Path | None, option: str = "-o") -> None:
    """Raise BenchDataError, before long work, where a file could not be written in the end."""
    if target is None:
        return
    try:
        if target.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
        with tempfile.TemporaryFile(dir=target.parent):
            return
    except OSError as error:
        raise _unwritable(target, error, option) from error


def _unwritable(target: Path, error: OSError, option: str) -> BenchDataError:
    return BenchDataError(
        f"cannot be written: {error.strerror}",
        where=str(target),
        next_step=f"choose another path with {option}",
    )
