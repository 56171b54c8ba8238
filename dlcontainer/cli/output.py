"""What people and programs read: text, tables, JSON, progress."""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dlcontainer.shell import ProcessRunner


def say(text: str) -> None:
    """Print a result."""
    print(text)


def emit(schema: str, body: Mapping[str, object]) -> None:
    """Print a result as JSON: one object, its schema first."""
    print(json.dumps({"schema": f"dlcontainer/{schema}/1", **body}, indent=1, default=str))


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """Set rows in columns, two spaces apart."""
    lines = [[str(cell) for cell in row] for row in ([head, *rows] if head else rows)]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def shown(value: object) -> str:
    """Show a value on one line: JSON for what is not plain text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@dataclass(slots=True)
class Console:
    """Progress on stderr: plain lines with the time since the start, so that logs read well."""

    verbose: bool = False
    quiet: bool = False
    began: float = field(default_factory=time.monotonic)

    def _print(self, mark: str, text: str) -> None:
        if not self.quiet:
            elapsed = time.monotonic() - self.began
            print(f"[{elapsed:5.0f} s] {mark}{text}", file=sys.stderr, flush=True)

    def step(self, title: str) -> None:
        """Begin a step."""
        self._print("", title)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        self._print("  note: ", text)

    def line(self, text: str) -> None:
        """Show a tool's own line, when asked to."""
        if self.verbose:
            self._print("  | ", text)

    def runner(self, environ: Mapping[str, str]) -> ProcessRunner:
        """Give the door to other processes; it echoes commands when asked to."""
        return ProcessRunner(environ=environ, echo=self.line if self.verbose else None)
