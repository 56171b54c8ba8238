"""The lines of a requirements file: continued ones joined, comments gone, each with its places.

Source: pip's documentation, "Requirements File Format".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from dlcontainer.authoring.readers.source_text import SourceText
from dlcontainer.errors import Mark

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_OPTIONS = re.compile(r"(?<=\s)-")


class LinePiece(NamedTuple):
    """One written line of a joined one: where it begins there, and in the file."""

    start: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequirementLine:
    """One line as pip sees it; never empty."""

    source: SourceText
    text: str
    pieces: tuple[LinePiece, ...]

    def mark(self, at: int = 0) -> Mark:
        """Return the place of a character of the joined text."""
        piece = next(piece for piece in reversed(self.pieces) if piece.start <= at)
        return self.source.mark(piece.offset + at - piece.start)

    @property
    def first(self) -> int:
        """Where the first word begins."""
        return len(self.text) - len(self.text.lstrip())

    @property
    def origin(self) -> str:
        """The place as `file:line`."""
        mark = self.mark(self.first)
        return f"{mark.file}:{mark.line}"

    @property
    def options_at(self) -> int:
        """Where a requirement ends and its options begin."""
        options = _OPTIONS.search(self.text, self.first)
        return options.start() if options else len(self.text)


def lines(source: SourceText) -> Iterator[RequirementLine]:
    """Yield the lines that say something."""
    text, pieces = "", list[LinePiece]()
    offset = 0
    for written in source.text.split("\n"):
        is_comment = written.lstrip().startswith("#")
        continues = written.endswith("\\") and not is_comment
        pieces.append(LinePiece(start=len(text), offset=offset))
        # A comment's line ends what it stands in, whatever its last character.
        text += written[:-1] if continues else "" if is_comment else written
        offset += len(written) + 1
        if not continues:
            yield from _line(source, text, pieces)
            text, pieces = "", []
    yield from _line(source, text, pieces)


def _line(source: SourceText, text: str, pieces: list[LinePiece]) -> Iterator[RequirementLine]:
    bare = _COMMENT.sub("", text).rstrip()
    if bare.strip():
        yield RequirementLine(source=source, text=bare, pieces=tuple(pieces))
