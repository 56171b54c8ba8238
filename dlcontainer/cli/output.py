"""What people and programs read: text, tables, JSON, progress; no other module prints."""

import contextlib
import itertools
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from dlcontainer.cli.colour import STATES, paint
from dlcontainer.system.progress import code, visible

if TYPE_CHECKING:
    from dlcontainer.system.process import ProcessRunner

_CLEAR = "\r\033[K"
_HEARTBEAT_S = 30.0
_BEAT_S = 1.0
# Alarming and harmless: files for a newer Python in a wheel, no keyserver where none is asked.
_HARMLESS = re.compile(r"\s*(\*\*\* Error compiling|WARNING: No default remote in use)")
_NARROWEST = 16


def printable(text: str, *, one_line: bool = False) -> str:
    """Show what is no visible character as its code; line ends and tabs stay in a text.

    Addresses show no password: sites have some, and errors repeat what was typed.
    """
    clean = visible(without_secrets(text))
    return re.sub("[\t\n]", code, clean) if one_line else clean


def without_secrets(text: str) -> str:
    """Hide passwords and tokens in a text's addresses."""
    if ":/" not in text:
        return text
    from dlcontainer.packages import credentials

    return credentials.shown(text)


def say(text: str) -> None:
    """Print a result."""
    print(printable(text))


def write(text: str) -> None:
    """Print a text that is made for files and pipes: there it arrives as it is."""
    print(visible(text) if sys.stdout.isatty() else text, end="")


def complain(text: str) -> None:
    """Print what went wrong, on stderr; its first line stands out where there is colour."""
    first, mark, rest = printable(text).partition("\n")
    print(f"{paint(first, 'bad', sys.stderr)}{mark}{rest}", file=sys.stderr)


def finding(state: str, text: str, *, width: int = 6, then: str | None = None) -> None:
    """Print one line of a list of checks, its state first; on a terminal wrapped at words."""
    mark = paint(f"{printable(state, one_line=True):<{width}}", STATES.get(state.lower()), _out())
    body = _wrapped(printable(text), indent=width + 2)
    print(f"{mark}  {body}", flush=True)
    if then:
        print(f"{'':<{width}}  -> {_wrapped(printable(then), indent=width + 5)}")


def title(text: str) -> None:
    """Print a heading."""
    print(paint(printable(text), "title", _out()))


def _out() -> TextIO:
    return sys.stdout


def _columns() -> int | None:
    """Give the width of the terminal; None in a pipe, where programs want whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _wrapped(text: str, *, indent: int) -> str:
    columns = _columns()
    if columns is None:
        return text
    lines = _wrap(text, max(columns - indent, 20))
    return f"\n{' ' * indent}".join(lines)


def _wrap(text: str, width: int) -> list[str]:
    # A path or a digest is copied from the screen: it is cut nowhere, however long.
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def emit(schema: str, body: Mapping[str, object]) -> None:
    """Print a result as JSON: one object, its schema first; no address shows a password."""
    print(document(schema, _clean(body)))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(part) for key, part in value.items()}
    return [_clean(part) for part in value] if isinstance(value, list | tuple) else value


def document(schema: str, body: Mapping[str, object]) -> str:
    """Give a result as JSON: one object, its schema first."""
    import json

    return json.dumps({"schema": f"dlcontainer/{schema}/1", **body}, indent=1)


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """Set rows in columns, two spaces apart; on a terminal long cells wrap inside their column."""
    lines = [
        [printable(str(cell), one_line=True) for cell in row]
        for row in ([head, *rows] if head else rows)
    ]
    if not lines:
        return ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    columns = _columns()
    if columns is not None:
        widths = _shrunk(widths, columns - 2 * (len(widths) - 1))
    return "\n".join(row for line in lines for row in _row(line, widths, wraps=columns is not None))


def _shrunk(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until a row fits; a narrow one is left as it is."""
    widths = list(widths)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def _row(line: Sequence[str], widths: list[int], *, wraps: bool) -> list[str]:
    cells = [
        _wrap(cell, width) if wraps else [cell] for cell, width in zip(line, widths, strict=True)
    ]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(parts, widths, strict=True)).rstrip()
        for parts in itertools.zip_longest(*cells, fillvalue="")
    ]


def shown(value: object) -> str:
    """Show a value on one line: JSON for what is not plain text."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_live() -> bool:
    # Of the stream that is there now, not of the one at import.
    return sys.stderr.isatty()


@dataclass(slots=True)
class Console:
    """Progress on stderr, with the time since the start.

    On a terminal the tools' last line is shown as it comes; in a log a line every half minute
    says that work goes on. As `events` each is a JSON object on a line of its own.
    """

    verbose: bool = False
    events: bool = False
    quiet: bool = False
    live: bool = field(default_factory=_is_live)
    began: float = field(default_factory=time.monotonic)
    spoke: float = field(default_factory=time.monotonic)
    # The running step, when it began, and its tool's last line.
    title: str = field(default="", init=False)
    since: float = field(default=0.0, init=False)
    last: str = field(default="", init=False)

    def _print(self, text: str) -> None:
        if not self.quiet:
            self.spoke = time.monotonic()
            clear = _CLEAR if self.live else ""
            time_ = paint(f"[{self._elapsed()}]", "faint", sys.stderr)
            line = f"{time_} {printable(text)}"
            print(f"{clear}{line}", file=sys.stderr, flush=True)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self.began:5.0f} s"

    def _event(self, kind: str, text: str) -> None:
        import json

        elapsed = round(time.monotonic() - self.began, 1)
        event = {"event": kind, "elapsed_s": elapsed, "text": text}
        print(json.dumps(_clean(event)), file=sys.stderr, flush=True)

    def step(self, title: str) -> None:
        """Begin a step."""
        self.begin(title)
        if self.events:
            self._event("step", title)
        else:
            self._print(title)

    def begin(self, title: str) -> None:
        """Begin what has no line of its own; signs of life name it."""
        self.title, self.since, self.last = title, time.monotonic(), ""

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        if self.events:
            self._event("note", text)
        else:
            self._print(f"  note: {text}")

    def line(self, text: str) -> None:
        """Show a tool's own line: whole when asked to, else as a sign of life."""
        if _HARMLESS.match(text):
            self._as_asked(text)
            return
        self.last = text
        if self.events or self.verbose:
            self._as_asked(text)
        elif self.live and not self.quiet:
            self._redraw(text)
        elif time.monotonic() - self.spoke > _HEARTBEAT_S:
            self._beat()

    def _as_asked(self, text: str) -> None:
        if self.events:
            if self.verbose:
                self._event("line", text)
        elif self.verbose:
            self._print(f"  | {text}")

    def _redraw(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 14
        clean = printable(text, one_line=True)
        print(f"{_CLEAR}[{self._elapsed()}]   {clean[:width]}", end="", file=sys.stderr, flush=True)

    def _beat(self) -> None:
        spent = f"{self.title}: {time.monotonic() - self.since:.0f} s so far"
        last = f", {self.last[:100].strip()}" if self.last.strip() else ""
        self._print(f"  … {spent if self.title else 'works'}{last}")

    @contextlib.contextmanager
    def beating(self) -> "Iterator[Console]":
        """Say that work goes on also while a tool says nothing; not where times are measured."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_BEAT_S):
                if time.monotonic() - self.spoke > _HEARTBEAT_S and not self.live:
                    self._beat()
                elif self.live and self.title and time.monotonic() - self.since > _BEAT_S:
                    seconds = time.monotonic() - self.since
                    self._redraw(f"{seconds:.0f} s: {self.last.strip() or self.title}")

        if self.quiet or self.events or self.verbose:
            yield self
            return
        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join()
            self.rest()

    def rest(self) -> None:
        """Take away the line that is drawn over: what comes next is no progress."""
        if self.live and not self.quiet and self.title:
            print(_CLEAR, end="", file=sys.stderr, flush=True)

    def runner(self, environ: Mapping[str, str], *, of_user: bool = False) -> "ProcessRunner":
        """Give the door to other processes; it echoes commands when asked to.

        Of this process's environment they get no secret; a program `of_user` gets all.
        """
        from dlcontainer.system import machine
        from dlcontainer.system.process import ProcessRunner

        given = environ if of_user else machine.for_children(environ)
        return ProcessRunner(environ=given, echo=self.line if self.verbose else None)
