"""What people and programs read: text, tables, JSON, progress; no other module prints."""

import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlcontainer.system.process import ProcessRunner

_CLEAR = "\r\033[K"
_HEARTBEAT_S = 30.0
# What a terminal obeys, or shows in another order than it stands: control characters (C0, C1),
# marks of direction, line ends of Unicode's own, halves of pairs. Images, sessions and YAML files
# of others hold whatever their authors like.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str, *, one_line: bool = False) -> str:
    """Show what is no visible character as its code; line ends and tabs stay in a text."""
    clean = _UNSEEN.sub(_code, text)
    return re.sub("[\t\n]", _code, clean) if one_line else clean


def _code(match: re.Match[str]) -> str:
    # As JSON writes them: where a text is JSON, it stays so.
    number = ord(match[0])
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def say(text: str) -> None:
    """Print a result."""
    print(printable(text))


def write(text: str) -> None:
    """Print a text that is made for files and pipes: there it arrives as it is."""
    print(printable(text) if sys.stdout.isatty() else text, end="")


def complain(text: str) -> None:
    """Print what went wrong, on stderr."""
    print(printable(text), file=sys.stderr)


def emit(schema: str, body: Mapping[str, object]) -> None:
    """Print a result as JSON: one object, its schema first."""
    print(document(schema, body))


def document(schema: str, body: Mapping[str, object]) -> str:
    """Give a result as JSON: one object, its schema first."""
    import json

    return json.dumps({"schema": f"dlcontainer/{schema}/1", **body}, indent=1)


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """Set rows in columns, two spaces apart."""
    lines = [
        [printable(str(cell), one_line=True) for cell in row]
        for row in ([head, *rows] if head else rows)
    ]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def shown(value: object) -> str:
    """Show a value on one line: JSON for what is not plain text."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class Console:
    """Progress on stderr, with the time since the start.

    On a terminal the tools' last line is shown as it comes; in a log a line every half minute
    says that work goes on. As `events` each is a JSON object on a line of its own.
    """

    verbose: bool = False
    events: bool = False
    quiet: bool = False
    live: bool = field(default_factory=sys.stderr.isatty)
    began: float = field(default_factory=time.monotonic)
    spoke: float = field(default_factory=time.monotonic)

    def _print(self, text: str) -> None:
        if not self.quiet:
            self.spoke = time.monotonic()
            clear = _CLEAR if self.live else ""
            line = f"[{self._elapsed()}] {printable(text)}"
            print(f"{clear}{line}", file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self.began:5.0f} s"

    def _event(self, kind: str, text: str) -> None:
        import json

        elapsed = round(time.monotonic() - self.began, 1)
        event = {"event": kind, "elapsed_s": elapsed, "text": text}
        print(json.dumps(event), file=sys.stderr, flush=True)

    def step(self, title: str) -> None:
        """Begin a step."""
        if self.events:
            self._event("step", title)
        else:
            self._print(title)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        if self.events:
            self._event("note", text)
        else:
            self._print(f"  note: {text}")

    def line(self, text: str) -> None:
        """Show a tool's own line: whole when asked to, else as a sign of life."""
        if self.events:
            if self.verbose:
                self._event("line", text)
        elif self.verbose:
            self._print(f"  | {text}")
        elif self.live and not self.quiet:
            width = shutil.get_terminal_size().columns - 14
            clean = printable(text, one_line=True)
            print(
                f"{_CLEAR}[{self._elapsed()}]   {clean[:width]}",
                end="",
                file=sys.stderr,
                flush=True,
            )
        elif time.monotonic() - self.spoke > _HEARTBEAT_S:
            self._print(f"  … {text[:100]}")

    def runner(self, environ: Mapping[str, str]) -> "ProcessRunner":
        """Give the door to other processes; it echoes commands when asked to."""
        from dlcontainer.system.process import ProcessRunner

        return ProcessRunner(environ=environ, echo=self.line if self.verbose else None)
