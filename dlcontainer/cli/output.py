"""What people and programs read: text, tables, JSON, progress; no other module prints."""

import contextlib
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from dlcontainer.cli import layout
from dlcontainer.cli.colour import STATES, paint
from dlcontainer.system.run_clock import HANDED, Run
from dlcontainer.system.visible_text import code, visible

if TYPE_CHECKING:
    from pathlib import Path

    from dlcontainer.system.process import ProcessRunner
    from dlcontainer.validate.inspected import CheckResult

_CLEAR = "\r\033[K"
_HEARTBEAT_S = 30.0
_BEAT_S = 1.0


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
    """Print a result; on a terminal its long lines wrap at words."""
    print(layout.fitted(printable(text), layout.columns(sys.stdout)))


def paragraph(text: str) -> None:
    """Print a few sentences; on a terminal no wider than a page."""
    width = layout.columns(sys.stdout)
    print(layout.wrapped(printable(text), width and min(width, layout.PAGE), 0))


def write(text: str) -> None:
    """Print a text that is made for files and pipes: there it arrives as it is."""
    binary = getattr(sys.stdout, "buffer", None)
    if sys.stdout.isatty() or binary is None:
        print(visible(text) if sys.stdout.isatty() else text, end="")
        return
    # The same bytes, whatever encoding a terminal has.
    sys.stdout.flush()
    binary.write(text.encode())


def say_path(path: "Path", *, as_json: bool) -> None:
    """Print a path as it is, for `cp` and the like."""
    if as_json:
        emit("path", {"path": str(path)})
    else:
        write(f"{path}\n")


def is_agreed(question: str) -> bool:
    """Ask a person at a terminal, on stderr; without an answer it is no."""
    import typer

    return typer.confirm(printable(question), err=True)


def is_terminal() -> bool:
    """Return whether results go to a terminal, where people read them."""
    return sys.stdout.isatty()


def copied(text: str, *, before: str = "") -> None:
    """Print what is copied from the screen, a path or a command: it is broken nowhere.

    Too long for the line of what stands `before` it, it gets one of its own.
    """
    line, width = f"{before}{printable(text)}", layout.columns(sys.stdout)
    fits = width is None or layout.cells(line) <= width or not before
    print(line if fits else f"{before.rstrip()}\n  {printable(text)}")


def listed(lines: Iterable[str]) -> None:
    """Print a list, a mark before each line."""
    say(table([("  -", line) for line in lines]))


def page(text: str, stream: TextIO) -> None:
    """Print a page of our own words, which may have colours in it already."""
    print(text, file=stream)


def complain(text: str) -> None:
    """Print what went wrong, on stderr; its first line stands out where there is colour."""
    first, mark, rest = layout.fitted(printable(text), layout.columns(sys.stderr)).partition("\n")
    print(f"{paint(first, 'bad', sys.stderr)}{mark}{rest}", file=sys.stderr)


def finding(state: str, text: str, *, width: int = 6, then: str | None = None) -> None:
    """Print one line of a list of checks, its state first; on a terminal wrapped at words."""
    mark = paint(f"{printable(state, one_line=True):<{width}}", STATES.get(state.lower()), _out())
    body = _wrapped(text, indent=width + 2)
    print(f"{mark}  {body}", flush=True)
    if then:
        print(f"{'':<{width}}  -> {_wrapped(then, indent=width + 5)}")


def title(text: str) -> None:
    """Print a heading."""
    body = layout.fitted(printable(text), layout.columns(sys.stdout))
    print(paint(body, "title", _out()))


def _wrapped(text: str, *, indent: int) -> str:
    return layout.wrapped(printable(text), layout.columns(sys.stdout), indent)


def _out() -> TextIO:
    return sys.stdout


def emit(schema: str, body: Mapping[str, object]) -> None:
    """Print a result as JSON: one object, its schema first; no address shows a password."""
    print(document(schema, _clean(body)))


def emit_of_standard(body: Mapping[str, object]) -> None:
    """Print JSON whose schema is others' (SARIF); no address shows a password."""
    import json

    write(f"{json.dumps(_clean(body), indent=1)}\n")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(part) for key, part in value.items()}
    return [_clean(part) for part in value] if isinstance(value, list | tuple) else value


def document(schema: str, body: Mapping[str, object]) -> str:
    """Return a result as JSON: one object, its schema first."""
    import json

    return json.dumps({"schema": f"dlcontainer/{schema}/1", **body}, indent=1)


def table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = ()) -> str:
    """Set rows in columns, two spaces apart.

    On a terminal long cells wrap inside their column. Where a column would be narrower than its
    words, the cells of a row stand below each other.
    """
    lines = [[printable(str(cell), one_line=True) for cell in row] for row in rows]
    names = [printable(name, one_line=True) for name in head]
    return layout.table(lines, names, layout.columns(sys.stdout))


def shown(value: object) -> str:
    """Show a value on one line: JSON for what is not plain text."""
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def values(triples: Iterable[tuple[str, object, object]], *, every: bool) -> str:
    """Set keys and values in a table; with `every` where each comes from."""
    rows = [(key, shown(value), str(origin)) for key, value, origin in triples]
    if every:
        return table(rows, head=("key", "value", "origin"))
    return table([row[:2] for row in rows], head=("key", "value"))


def _is_live() -> bool:
    # Of the stream that is there now, not of the one at import.
    return sys.stderr.isatty()


# One clock for all that this process says; it goes on with that of a run that started it.
_RUN = [Run()]


def begin_run(environ: MutableMapping[str, str]) -> None:
    """Start the clock, once; a longer run that this command is a step of has handed its own down.

    What it handed down is taken out: no program that this one starts is a step of that run.
    """
    _RUN[0] = Run.of(environ)
    environ.pop(HANDED, None)


@dataclass(slots=True)
class Console:
    """Progress on stderr: the time since the run began, and which step of how many this is.

    On a terminal a line that is drawn over says what runs now; in a log a line every half minute
    says that work goes on. As `events` each is a JSON object on a line of its own.
    """

    verbose: bool = False
    events: bool = False
    quiet: bool = False
    live: bool = field(default_factory=_is_live)
    run: Run = field(default_factory=lambda: _RUN[0])
    spoke: float = field(default=0.0, init=False)
    # Steps: how many have begun, of how many (0: not known); the running one, when it began, and
    # what of it runs now.
    number: int = field(default=0, init=False)
    total: int = field(default=0, init=False)
    title: str = field(default="", init=False)
    since: float = field(default=0.0, init=False)
    now: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.spoke = self.run.now()

    def _print(self, text: str) -> None:
        if not self.quiet:
            self.spoke = self.run.now()
            clear = _CLEAR if self.live else ""
            time_ = paint(f"[{self._elapsed()}]", "faint", sys.stderr)
            line = f"{time_} {self._wrapped(text)}"
            print(f"{clear}{line}", file=sys.stderr, flush=True)

    def _wrapped(self, text: str) -> str:
        width = layout.columns(sys.stderr) if self.live else None
        # As far to the right as the text itself begins, behind the time.
        indent = len(f"[{self._elapsed()}] ") + len(text) - len(text.lstrip())
        return text[: len(text) - len(text.lstrip())] + layout.wrapped(
            printable(text.lstrip()), width, indent
        )

    def _elapsed(self) -> str:
        return f"{self.run.elapsed():5.0f} s"

    def _event(self, kind: str, text: str, **more: int) -> None:
        import json

        event = {"event": kind, "elapsed_s": round(self.run.elapsed(), 1), "text": text, **more}
        print(json.dumps(_clean(event)), file=sys.stderr, flush=True)

    def expect(self, count: int) -> None:
        """Count the steps: so many come after those that have begun."""
        self.total = self.number + count

    def step(self, title: str) -> None:
        """Begin a step."""
        self.begin(title)
        if self.events:
            counted = {"number": self.number, "of": self.total} if self._is_counted else {}
            self._event("step", title, **counted)
        else:
            self._print(self._named())

    def begin(self, title: str) -> None:
        """Begin a step that has no line of its own; signs of life name it."""
        self.number += 1
        self.title, self.since, self.now = title, self.run.now(), ""

    @property
    def _is_counted(self) -> bool:
        return self.number <= self.total

    def _named(self) -> str:
        """Name the running step, with its place in this run, and in a longer one."""
        step_title = f"{self.number}/{self.total} {self.title}" if self._is_counted else self.title
        return ", ".join(filter(None, (self.run.place, step_title)))

    def end(self, text: str) -> None:
        """Say how the run ended: no step runs any more."""
        self.title = ""
        if self.events:
            self._event("end", text)
        else:
            self._print(text)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        if self.events:
            self._event("note", text)
        else:
            self._print(f"  note: {text}")

    def checked(self, check: "CheckResult") -> None:
        """Say what a check found: one that passes is no news, but for those who ask for all."""
        if check.state != "ok":
            mark = "FAILED" if check.state == "failed" else check.state
            self.note(f"{mark} {check.name}: {check.detail}")
        elif self.verbose or self.events:
            self._as_asked("check", f"ok: {check.name}: {check.detail}", mark="  ")

    def phase(self, title: str) -> None:
        """Say what of the step runs now, or how far it is."""
        if title == self.now:
            return
        self.now = title
        if self.events or self.verbose:
            self._as_asked("phase", title, mark="  ")
        else:
            self._alive()

    def line(self, text: str) -> None:
        """Take a tool's own line: shown when asked to; else what it says of the phase counts."""
        from dlcontainer.system.progress import told

        begun = told(text)
        if self.events or self.verbose:
            self._as_asked("line", text, mark="  | ")
        if begun is not None:
            self.now = begun
        # On a terminal nothing is drawn again for a line that says nothing new.
        if not (self.events or self.verbose) and (begun is not None or not self.live):
            self._alive()

    def _as_asked(self, kind: str, text: str, mark: str) -> None:
        if self.events:
            if self.verbose:
                self._event(kind, text)
        elif self.verbose:
            self._print(f"{mark}{text}")

    def _alive(self) -> None:
        """Show what runs: on a terminal at once, in a log once in a while."""
        if self.quiet:
            return
        if self.live:
            self._redraw()
        elif self.run.now() - self.spoke > _HEARTBEAT_S:
            self._print(f"  … {self._working()}")

    def _working(self) -> str:
        if not self.title:
            return self.now or "works"
        what = f"{self._named()}: {self.now}" if self.now else self._named()
        return f"{what}, {self.run.now() - self.since:.0f} s so far"

    def _redraw(self) -> None:
        width = (layout.columns(sys.stderr) or 80) - 14
        clean = layout.cut(printable(self._working(), one_line=True), max(width, 0))
        print(f"{_CLEAR}[{self._elapsed()}]   {clean}", end="", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def beating(self) -> "Iterator[Console]":
        """Say that work goes on also while a tool says nothing; not where times are measured."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(_BEAT_S):
                if not self.live or (self.title and self.run.now() - self.since > _BEAT_S):
                    self._alive()

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
        """Return the door to other processes; it echoes commands when asked to.

        Of this process's environment they get no secret; a program `of_user` gets all.
        """
        from dlcontainer.system import machine
        from dlcontainer.system.process import ProcessRunner

        child_environ = environ if of_user else machine.for_children(environ)
        return ProcessRunner(environ=child_environ, echo=self.line if self.verbose else None)
