"""Text in the width of a terminal: wrapped lines, and tables whose cells may lie below each other.

A width of None is a pipe's, where programs want whole lines. A path, a digest or a command is
copied from the screen: it is cut nowhere, however long, and stands on a line of its own then.
Widths are counted in cells, which is what a terminal has.
"""

import contextlib
import itertools
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TextIO

# What a reader's eye follows, however wide the terminal.
PAGE = 100
_NARROWEST = 16
_LEAST_TEXT = 20
_HANGING = "  "
# Of rows that don't fit, so many are set apart; with more of them all rows are stacked.
_APART = 4
_TAB = 8
# What is typed: the line's end, or of a sentence what stands before its next part.
_COMMAND = re.compile(
    r"(?:^|(?<=: )|(?<=-> ))"
    r"(?:\$ .*|(?:dlcontainer|sudo|module|reframe|apptainer|pip) \S[^;]*?)(?=$|; )"
)
_WORD = re.compile(r"(\s*)(\S+)")


def columns(stream: TextIO) -> int | None:
    """Return the width of the terminal that a stream is; None where it is none."""
    if not stream.isatty():
        return None
    with contextlib.suppress(OSError, ValueError):
        # Of the very stream: the other one may be a file. A user's COLUMNS comes first.
        user_width = int(os.environ.get("COLUMNS") or 0)
        width = user_width if user_width > 0 else os.get_terminal_size(stream.fileno()).columns
        return width or shutil.get_terminal_size().columns
    return shutil.get_terminal_size().columns


def cells(text: str) -> int:
    """Count the cells of a terminal that a text takes: wide characters take two, marks none."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def padded(text: str, width: int) -> str:
    """Fill a text up to so many cells."""
    return text + " " * (width - cells(text))


def cut(text: str, width: int) -> str:
    """Return the start of a text that takes at most so many cells."""
    ends = itertools.accumulate(map(_cells, text))
    return "".join(character for character, end in zip(text, ends, strict=True) if end <= width)


def fitted(text: str, width: int | None) -> str:
    """Wrap lines that are too wide, each as far to the right as it began."""
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _fit(line, width))


def wrapped(text: str, width: int | None, indent: int) -> str:
    """Wrap a text that begins `indent` columns to the right, where it goes on too."""
    if width is None:
        return text
    room = max(width - indent, _LEAST_TEXT)
    lines = [part for line in text.split("\n") for part in _said(line.expandtabs(_TAB), room)]
    return f"\n{' ' * indent}".join(lines)


def table(rows: Sequence[Sequence[str]], head: Sequence[str], width: int | None) -> str:
    """Set rows in columns, two spaces apart.

    A row whose words don't fit stands below itself; where many don't, all rows do.
    """
    lines = [head, *rows] if head else rows
    if not lines:
        return ""
    if width is None:
        widths = [max(cells(line[i]) for line in lines) for i in range(len(lines[0]))]
        return "\n".join(row for line in lines for row in _row(line, widths, wraps=False))
    fit = _widths(rows, head, width)
    if fit is None:
        return "\n".join(line for row in rows for line in _stacked(row, head, width))
    widths, apart = fit
    set_ = list(_row(head, widths, wraps=True)) if head else []
    for number, row in enumerate(rows):
        set_ += _stacked(row, head, width) if number in apart else _row(row, widths, wraps=True)
    return "\n".join(set_)


def _cells(character: str) -> int:
    # A Korean vowel or end of a syllable joins the consonant before it.
    if unicodedata.category(character) in {"Mn", "Me"} or "\u1160" <= character <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _fit(line: str, width: int) -> list[str]:
    line = line.expandtabs(_TAB)
    if cells(line) <= width:
        return [line]
    body = line.lstrip(" ")
    # On a narrow terminal a text that begins far to the right moves to the left.
    most = max(width - len(_HANGING) - _LEAST_TEXT, 0)
    indent = " " * min(len(line) - len(body), most)
    first, *rest = _said(body, max(width - len(indent) - len(_HANGING), _LEAST_TEXT))
    return [indent + first, *(indent + _HANGING + line for line in rest)]


def _said(text: str, width: int) -> list[str]:
    """Wrap a sentence; a command in it that would be broken gets a line of its own."""
    command = _COMMAND.search(text) if cells(text) > width else None
    if command is None or not _is_typed(command[0]):
        return _wrap(text, width)
    before, after = text[: command.start()].rstrip(), text[command.end() :].removeprefix("; ")
    lines = _wrap(before, width) if before else []
    return [*lines, command[0], *(_said(after, width) if after else [])]


def _is_typed(command: str) -> bool:
    """Tell a command from a sentence about one: options, paths and words to fill
    in are typed.
    """
    words = command.split()[1:]
    return not command.endswith(".") and any(
        word.startswith("-") or "/" in word or word.isupper() for word in words
    )


def _wrap(text: str, width: int) -> list[str]:
    """Break a text between words, and between characters that are written without spaces."""
    lines, line, taken = [], "", 0
    for gap, word in _pieces(text):
        longer = taken + len(gap) + cells(word)
        if line.strip() and longer > width:
            lines.append(line)
            line, taken = word, cells(word)
        else:
            line, taken = line + gap + word, longer
    return [*lines, line]


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """Take a text apart where it may be broken: each piece with the space before it."""
    for gap, word in _WORD.findall(text):
        if word.isascii():
            yield gap, word
            continue
        parts = [""]
        for character in word:
            width = _cells(character)
            if parts[-1] and width and 2 in (width, _cells(parts[-1][-1])):
                parts.append("")
            parts[-1] += character
        yield from zip([gap, *[""] * (len(parts) - 1)], parts, strict=True)


def _longest(cell: str) -> int:
    """Return the width of the widest word: what a wrapped column can't be narrower than."""
    return max((cells(word) for _, word in _pieces(cell)), default=0)


def _widths(
    rows: Sequence[Sequence[str]], head: Sequence[str], width: int
) -> tuple[list[int], frozenset[int]] | None:
    """Find widths of columns, and the rows that fit into none; None where those are many."""
    few = max(1, len(rows) // _APART)
    needs = [[(cells(cell), _longest(cell)) for cell in row] for row in rows]
    # Those with the longest words first: what is left out is the start of this list.
    order = sorted(range(len(rows)), key=lambda i: -sum(least for _, least in needs[i]))
    sizes = [(cells(cell), _longest(cell)) for cell in head] or [(0, 0)] * len(rows[0])
    kept: list[int] | None = None
    start = len(order)
    while start:
        number = order[start - 1]
        grown = [
            (max(full, cell_full), max(least, cell_least))
            for (full, least), (cell_full, cell_least) in zip(sizes, needs[number], strict=True)
        ]
        if _floor(grown) + 2 * (len(grown) - 1) > width:
            break
        sizes, start = grown, start - 1
    if start > few or (rows and start == len(order)):
        return None
    kept = _shrunk(sizes, width - 2 * (len(sizes) - 1))
    return kept, frozenset(order[:start])


def _floor(needs: Sequence[tuple[int, int]]) -> int:
    return sum(min(full, max(least, _NARROWEST)) for full, least in needs)


def _shrunk(needs: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Narrow the widest columns until a row fits."""
    widths_left = [full for full, _ in needs]
    while sum(widths_left) > room:
        free = [i for i, (_, least) in enumerate(needs) if widths_left[i] > max(least, _NARROWEST)]
        widths_left[max(free, key=lambda i: widths_left[i])] -= 1
    return widths_left


def _stacked(row: Sequence[str], head: Sequence[str], width: int) -> list[str]:
    """Set a row as its first cell, with the others below it, each named by its column's head."""
    first, *rest = row
    named = len(rest) > 1 and head
    lines = _wrap(first, width)
    for name, cell in zip(head[1:] if named else itertools.repeat(""), rest, strict=False):
        if cell:
            whole = f"{name}: {cell}" if name else cell
            is_short = cells(whole) + 2 <= width
            text = [whole] if is_short else _wrap(whole, max(width - 4, _LEAST_TEXT))
            lines += [f"  {'  ' if i else ''}{part}" for i, part in enumerate(text)]
    return lines


def _row(line: Sequence[str], widths: Sequence[int], *, wraps: bool) -> list[str]:
    parts = [
        _wrap(cell, width) if wraps else [cell] for cell, width in zip(line, widths, strict=True)
    ]
    return [
        "  ".join(
            padded(cell, width) for cell, width in zip(row_cells, widths, strict=True)
        ).rstrip()
        for row_cells in itertools.zip_longest(*parts, fillvalue="")
    ]
