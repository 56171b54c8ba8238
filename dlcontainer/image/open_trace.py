"""A trace: the files that a command opened, in order of first open. One path a line.

The first line names the version. Paths are relative to the root of an image, or of the tree that it
was made of. A name with a line break or another control character has no place in it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.errors import ConfigError
from dlcontainer.system import atomic_files, foreign_files

HEADER = "# dlcontainer/trace/1"
_MOST_BYTES = 64_000_000
_MAKE = "make one: dlcontainer lab count --trace FILE -- COMMAND"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trace:
    """Paths in order of first open, none twice; `digest` is the SHA-256 of the file's text."""

    paths: tuple[str, ...]

    @property
    def text(self) -> str:
        """The file's text."""
        return "\n".join((HEADER, *self.paths, ""))

    @property
    def digest(self) -> str:
        """SHA-256 of the text, hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def of_files(files: Iterable[str], roots: Iterable[str]) -> Trace:
    """Make a trace of paths as they were opened; what lies below none of the roots is left out.

    The first root that fits is taken off; so are names that no line can hold.
    """
    below = [root.rstrip("/") + "/" for root in roots]
    paths: dict[str, None] = {}
    for file in files:
        root = next((root for root in below if file.startswith(root)), None)
        path = file[len(root) :].strip("/") if root else ""
        if path and _wrong(path) is None:
            paths.setdefault(path)
    return Trace(paths=tuple(paths))


def write(trace: Trace, path: Path) -> None:
    """Write a trace, whole or not at all; raises ConfigError where it can't be written."""
    try:
        atomic_files.write(path, trace.text)
    except OSError as error:
        raise ConfigError(
            f"can't write {path}: {error.strerror}", next_step="give another path: --trace FILE"
        ) from None


def read(path: Path) -> Trace:
    """Read a trace; raises ConfigError with the file and line of what is wrong."""
    try:
        data = foreign_files.read(path, _MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}", next_step=_MAKE) from None
    lines = data.split(b"\n")
    if lines[0] != HEADER.encode():
        raise ConfigError(
            f"not a trace that this version reads: the first line is not {HEADER!r}",
            where=f"{path}:1",
            next_step=_MAKE,
        )
    if lines[-1] == b"":
        lines.pop()
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            text = line.decode()
            why = _wrong(text)
            if text in numbers:
                why = f"line {numbers[text]} lists it already"
        except UnicodeDecodeError:
            text, why = "", "not UTF-8"
        if why:
            shown = repr(line.decode(errors="replace")[:200])
            raise ConfigError(f"{shown}: {why}", where=f"{path}:{number}", next_step=_MAKE)
        numbers[text] = number
    if not numbers:
        raise ConfigError("the trace lists no file", where=f"{path}:2", next_step=_MAKE)
    return Trace(paths=tuple(numbers))


def _wrong(path: str) -> str | None:
    """Return why a path can't stand in a trace; None where it can."""
    if not path:
        return "an empty line"
    if path.startswith("/"):
        return "a path from '/': they are relative to the image's root"
    if any(part in {"", ".", ".."} for part in path.split("/")):
        return "not a plain path: a '.', '..' or nothing between two '/'"
    if any(ord(character) < 32 or ord(character) == 127 for character in path):
        return "a control character"
    if any("\ud800" <= character <= "\udfff" for character in path):
        return "not UTF-8"
    return None
