"""The three standard streams as they are at the start: closed, or of few characters."""

import codecs
import contextlib
import io
import os
import sys
from typing import TextIO

# Nearest in ASCII; whatever else is missing becomes a question mark.
_NEAREST = {
    "…": "...", "–": "-", "—": "-", "µ": "u", "μ": "u", "×": "x", "±": "+-", "≤": "<=", "≥": ">=",  # noqa: RUF001
    "→": "->", "·": "-", "∞": "inf", "‘": "'", "’": "'", "“": '"', "”": '"',  # noqa: RUF001
}  # fmt: skip
_HANDLER = "dlcontainer.nearest"


def nearest(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace what is missing in an encoding by the nearest of ASCII, or by a question mark."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_NEAREST.get(character, "?") for character in text), error.end


def prepare() -> None:
    """Open what was closed on the null device, and have every character be printable.

    A file that is opened later must not get the number of a standard stream: what is printed,
    also by programs that we start, would go into it.
    """
    codecs.register_error(_HANDLER, nearest)
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that was found to be free.
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    sys.stdout = _opened(sys.stdout, 1)
    sys.stdout.reconfigure(errors=_HANDLER)
    errors = _opened(sys.stderr, 2)
    encoding = errors.encoding
    sys.stderr = _ErrorStream(errors.detach(), encoding, _HANDLER, line_buffering=True)


def _opened(stream: TextIO | None, number: int) -> io.TextIOWrapper:
    if isinstance(stream, io.TextIOWrapper):
        return stream
    return open(number, "w", encoding="utf-8", closefd=False)


class _ErrorStream(io.TextIOWrapper):
    """Standard error: a reader that has gone, or a full device, ends no command.

    A build whose log can't be written is a build all the same, and its exit code is its own.
    """

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()
