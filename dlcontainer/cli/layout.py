"""Text in the width of a terminal: wrapped lines, and tables whose cells may lie below each other.

A width of None is a pipe's, where programs want whole lines. A path or a digest is copied from the
screen: it is cut nowhere, however long.
"""

import contextlib
import itertools
import os
import shutil
import textwrap
from collections.abc import Sequence
from typing import TextIO

_NARROWEST = 16
_LEAST_TEXT = 20
_HANGING = "  "


def columns(stream: TextIO) -> int | None:
    """Give the width of the terminal that a stream is; None where it is none."""
    if not stream.isatty():
        return None
    with contextlib.suppress(OSError, ValueError):
        # Of the very stream: the other one may be a file. A user's COLUMNS comes first.
        own = os.get_terminal_size(stream.fileno()).columns
        return int(os.environ.get("COLUMNS") or 0) or own or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns


def fitted(text: str, width: int | None) -> str:
    """Wrap lines that are too wide, each as far to the right as it began."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _fit(line, width))


def wrapped(text: str, width: int | None, indent: int) -> str:
    """Wrap a text that begins `indent` columns to the right, where it goes on too."""
    if width is None:
        return text
    return f"\n{' ' * indent}".join(_wrap(text, max(width - indent, _LEAST_TEXT)))


def table(rows: Sequence[Sequence[str]], head: Sequence[str], width: int | None) -> str:
    """Set rows in columns, two spaces apart, or, where they don't fit, below each other."""
    lines = [head, *rows] if head else rows
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    if width is not None:
        least = [max(_longest(line[i]) for line in lines) for i in range(len(widths))]
        shrunk = _shrunk(widths, least, width - 2 * (len(widths) - 1))
        if shrunk is None:
            return _stacked(rows, head, width)
        widths = shrunk
    return "\n".join(row for line in lines for row in _row(line, widths, wraps=width is not None))


def _fit(line: str, width: int) -> list[str]:
    body = line.lstrip(" ")
    indent = " " * (len(line) - len(body))
    if len(line) <= width:
        return [line]
    first, *others = _wrap(body, max(width - len(indent) - len(_HANGING), _LEAST_TEXT))
    return [indent + first, *(indent + _HANGING + other for other in others)]


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _longest(cell: str) -> int:
    """Give the length of the longest word: what a wrapped column can't be narrower than."""
    return max(map(len, cell.split()), default=0)


def _shrunk(widths: Sequence[int], least: Sequence[int], room: int) -> list[int] | None:
    """Narrow the widest columns until a row fits; None where some word then would not."""
    found = list(widths)
    while sum(found) > room:
        free = [i for i, width in enumerate(found) if width > max(least[i], _NARROWEST)]
        if not free:
            return None
        found[max(free, key=lambda i: found[i])] -= 1
    return found


def _stacked(rows: Sequence[Sequence[str]], head: Sequence[str], width: int) -> str:
    """Set each row as its first cell, with the others below it, each named by its column's head."""
    found = []
    for first, *others in rows:
        found += _wrap(first, width)
        names = [f"{name}: " for name in head[1:]] or [""] * len(others)
        for name, cell in zip(names, others, strict=True):
            if cell:
                text = _wrap(f"{name}{cell}", max(width - 4, _LEAST_TEXT))
                found += [f"  {'  ' if i else ''}{part}" for i, part in enumerate(text)]
    return "\n".join(found)


def _row(line: Sequence[str], widths: list[int], *, wraps: bool) -> list[str]:
    cells = [
        _wrap(cell, width) if wraps else [cell] for cell, width in zip(line, widths, strict=True)
    ]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(parts, widths, strict=True)).rstrip()
        for parts in itertools.zip_longest(*cells, fillvalue="")
    ]
