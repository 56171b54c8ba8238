"""Colour on a terminal that has it; never in a pipe, in JSON or where NO_COLOR is set."""

import os
from typing import Literal, TextIO

Style = Literal["good", "warn", "bad", "title", "name", "faint"]

# The terminal's own eight colours: they are legible on its own background, dark or light.
_CODES: dict[Style, str] = {
    "good": "32",
    "warn": "33",
    "bad": "1;31",
    "title": "1",
    "name": "36",
    "faint": "2",
}
# The states of doctor, validate and prove.
STATES: dict[str, Style] = {
    "ok": "good",
    "valid": "good",
    "poor": "warn",
    "warning": "warn",
    "not tried": "warn",
    "not shown": "warn",
    "bad": "bad",
    "error": "bad",
    "failed": "bad",
}


def has_colour(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours that wants them (no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, style: Style | None, stream: TextIO) -> str:
    """Colour a text that is printable already, where the stream shows colours."""
    if style is None or not text or not has_colour(stream):
        return text
    return f"\033[{_CODES[style]}m{text}\033[0m"
