"""What a process says, taken as bytes as they come: captured whole, or as a stream of lines."""

import codecs
import re
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TextIO

Sink = Callable[[bytes], object]

LAST_LINES = 200
# Of a command whose answer is taken whole: the list of a million files. A program of an image may
# print without end.
MOST_CAPTURED = 128_000_000
LONGEST_LINE = 16_384  # characters; longer lines come in pieces, so that memory stays bounded


class TooMuchOutputError(Exception):
    """A command prints more than any answer has."""

    def __init__(self) -> None:
        super().__init__(
            f"dlcontainer ended it, because it printed more than {MOST_CAPTURED / 1e6:.0f} MB"
        )


class Capture:
    """Stdout and stderr, whole and apart; beyond MOST_CAPTURED a TooMuchOutputError."""

    merged = False

    def __init__(self) -> None:
        self._out, self._err = bytearray(), bytearray()

    def sinks(self) -> list[Sink]:
        """Return what takes the bytes of stdout and of stderr."""
        return [partial(self._take, self._out), partial(self._take, self._err)]

    def _take(self, to: bytearray, chunk: bytes) -> None:
        if len(self._out) + len(self._err) + len(chunk) > MOST_CAPTURED:
            raise TooMuchOutputError
        to.extend(chunk)

    def texts(self) -> tuple[str, str]:
        """Return stdout and stderr."""
        return self._out.decode(errors="replace"), self._err.decode(errors="replace")


class OutputLines:
    """Stdout and stderr as one stream of lines.

    What a tool writes over, ended by a carriage return alone (progress bars), is shown but neither
    logged nor kept.
    """

    merged = True
    _end = re.compile(r"(\r\n|\r|\n)")

    def __init__(self, on_line: Callable[[str], None] | None, log: TextIO | None) -> None:
        self._on_line, self._log = on_line, log
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._rest = ""
        # The line before a "\r" that ended a chunk: whether a "\n" follows is not known yet.
        self._held: str | None = None

    def sinks(self) -> list[Sink]:
        """Return what takes the bytes of both."""
        return [self._feed]

    def _feed(self, chunk: bytes, *, final: bool = False) -> None:
        text = self._decoder.decode(chunk, final)
        if not text:
            return
        if self._held is not None and text[0] == "\n":
            self._keep(self._held)
            text = text[1:]
        self._held = None
        *parts, rest = self._end.split(self._rest + text)
        for number in range(0, len(parts), 2):
            line, end = parts[number : number + 2]
            self._show(line)
            if end != "\r":
                self._keep(line)
            elif number + 2 == len(parts) and not rest:
                self._held = line
        cut = max(0, len(rest) - 1) // LONGEST_LINE * LONGEST_LINE
        self._rest = rest[cut:]
        if cut:
            self._show(rest[:cut])
            self._keep(rest[:cut])

    def _show(self, line: str) -> None:
        if self._on_line is not None:
            for piece in _pieces(line):
                self._on_line(piece)

    def _keep(self, line: str) -> None:
        for piece in _pieces(line):
            self._last.append(piece)
            if self._log is not None:
                self._log.write(piece + "\n")

    def texts(self) -> tuple[str, str]:
        """Take the end of the stream for a line's end; return the last lines, and no stderr."""
        self._feed(b"", final=True)
        if self._rest:
            self._show(self._rest)
            self._keep(self._rest)
            self._rest = ""
        return "".join(f"{line}\n" for line in self._last), ""


def _pieces(line: str) -> list[str]:
    return [line[at : at + LONGEST_LINE] for at in range(0, max(1, len(line)), LONGEST_LINE)]
