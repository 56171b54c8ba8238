"""What reaches a terminal: one module writes there, and what it writes moves no cursor."""

import ast
import io
import json
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.cli import output
from dlcontainer.cli.output import Console, printable
from dlcontainer.system.run_clock import HANDED, Run

PACKAGE = Path(output.__file__).parents[1]
# What a hostile image holds: a title, a cleared screen, C1, directions, halves of a pair.
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\x00\x7f\u202e\u2066\u200f\u061c\u2028\ud800\ufeff"
WRITERS = {
    "print",
    "echo",
    "secho",
    "echo_via_pager",
    "print_exc",
    "print_exception",
    "print_stack",
}


def obeyed(text: str) -> list[str]:
    """List the characters that a terminal obeys or hides."""
    kinds = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return [c for c in text if unicodedata.category(c) in kinds and c not in "\n\t"]


def test_every_character() -> None:
    for number in range(sys.maxunicode + 1):
        character = chr(number)
        shown = printable(character)
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            assert (shown != character) == (character not in "\n\t"), hex(number)
        if unicodedata.bidirectional(character) in {
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        }:
            assert shown != character, hex(number)
        if character.isprintable():
            assert shown == character, hex(number)
    assert printable("a\tb\nc", one_line=True) == r"a\u0009b\u000ac"
    assert printable(printable(EVIL)) == printable(EVIL)
    assert printable("grün 漢字 \U0001f600") == "grün 漢字 \U0001f600"


def test_a_text_that_is_json_stays_json() -> None:
    text = json.dumps({"k": EVIL, "e": "\U000e0001"}, ensure_ascii=False)
    assert json.loads(printable(text).replace("\\U000e0001", "x"))["k"] == EVIL


def on_console(**options: Any) -> Callable[[str], None]:
    def speak(text: str) -> None:
        console = Console(**options)
        console.step(text)
        console.note(text)
        console.line(text)
        console.spoke = 0
        console.line(text)

    return speak


PATHS: dict[str, Callable[[str], None]] = {
    "say": output.say,
    "complain": output.complain,
    "emit": lambda text: output.emit("x", {text: text}),
    "table": lambda text: output.say(output.table([(text, "b")], head=(text, "b"))),
    "shown": lambda text: output.say(output.shown({text: [text]})),
    "console": on_console(live=False),
    "console, verbose": on_console(live=False, verbose=True),
    "console, events": on_console(events=True, verbose=True),
}


@pytest.mark.parametrize("path", PATHS)
def test_all_ways_out_are_clean(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    PATHS[path](EVIL)
    said = "".join(capsys.readouterr())
    assert "owned" in said
    assert obeyed(said) == []


@pytest.mark.parametrize("path", PATHS)
def test_no_way_out_shows_a_password(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    PATHS[path]("it's at 'https://ada:PASSWORD1x@pkg.example/simple'")
    said = "".join(capsys.readouterr())
    assert "ada:***@pkg.example/simple" in said
    assert "PASSWORD" not in said


def test_a_terminals_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    on_console(live=True)(EVIL)
    said = capsys.readouterr().err
    assert "owned" in said
    # Its own way back to the line's beginning is all there is.
    assert obeyed(said.replace("\r\x1b[K", "")) == []


def test_a_cell_is_one_line() -> None:
    assert output.table([("a\nb", "c"), ("dd", "e")]) == "a\\u000ab  c\ndd        e"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_text_for_files(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    stream = Stream()
    monkeypatch.setattr(sys, "stdout", stream)
    output.write("a\x1b[2J\n")
    assert stream.getvalue() == ("a\\u001b[2J\n" if terminal else "a\x1b[2J\n")


def writes(path: Path) -> Iterator[int]:
    """Find where a file writes to stdout or stderr, or takes one of them to do so."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            of = getattr(getattr(called, "value", None), "id", "")
            if (name in WRITERS and (name != "echo" or of in {"typer", "click"})) or (
                isinstance(called, ast.Attribute)
                and called.attr in {"write", "writelines"}
                and isinstance(called.value, ast.Attribute)
                and called.value.attr in {"stdout", "stderr", "buffer", "__stdout__", "__stderr__"}
            ):
                yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (node.lineno for one in node.names if one.name in {"stdout", "stderr"})


def test_only_one_module_writes_to_the_terminal(tmp_path: Path) -> None:
    # The probe runs in images and talks to dlcontainer, in JSON.
    files = [p for p in PACKAGE.rglob("*.py") if "probe" not in p.relative_to(PACKAGE).parts]
    assert len(files) > 200
    found = {str(p.relative_to(PACKAGE)): list(writes(p)) for p in files}
    # Programs of their own: fake_ids.py stands in front of another, whose error its own is;
    # collect.py runs alone, on nodes without dlcontainer.
    writers = {name for name, lines in found.items() if lines}
    assert writers == {"cli/output.py", "detection/collect.py", "engines/fake_ids.py"}
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import sys, traceback, typer\nfrom sys import stderr\nprint(1)\ntyper.echo(1)\n"
        "sys.stdout.write('')\nsys.stderr.buffer.write(b'')\ntraceback.print_exc()\n"
    )
    assert sorted(writes(bad)) == [2, 3, 4, 5, 6, 7]


class Terminal(io.StringIO):
    """A terminal of some width, for what is laid out for one."""

    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return stream


def speak() -> None:
    output.finding("ok", "a check: " + "word " * 12, then="type this")
    output.finding("bad", EVIL)
    output.title("title")
    output.complain("dlcontainer: wrong\n  next: this")
    Console().step("step")


def test_colour_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    speak()
    text = terminal.getvalue()
    assert "\033[32mok    \033[0m  a check:" in text
    assert "\033[1;31mbad   \033[0m" in text
    assert "\033[1;31mdlcontainer: wrong\033[0m\n  next: this" in text
    assert "\033[1mtitle\033[0m" in text
    bare = re.sub(r"\033\[[0-9;]*[mK]", "", text)
    # Of EVIL nothing but what it is shown as.
    assert obeyed(bare.replace("\r", "")) == []


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_colour_where_it_is_not_wanted(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    speak()
    assert "\033[0m" not in terminal.getvalue()
    assert "\033[3" not in terminal.getvalue()


def test_no_colour_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    speak()
    assert "\033" not in "".join(capsys.readouterr())


def test_a_table_wraps_inside_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    path = "/a/very/long/path/that/is/copied/from/the/screen"
    rows = [("short", "word " * 12, "more words here " * 3), ("a", "b", "c")]
    lines = output.table(rows, head=("k", "v", "w")).splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) > 4
    assert " ".join(lines).count("word ") == 12
    assert path in output.table([(path, "x")])


def test_a_table_in_a_pipe_is_a_line_a_row() -> None:
    assert len(output.table([("a", "word " * 100), ("b", "c")]).splitlines()) == 2


def test_silent_tools_get_signs_of_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_BEAT_S", 0.01)
    monkeypatch.setattr(output, "_HEARTBEAT_S", 0.05)
    console = Console(live=False)
    console.step("pack the image")
    console.line("*** Error compiling 'a.py'")
    console.line("No broken requirements found.")
    console.line('  File "/opt/a.py", line 3')
    said = ""
    sign = re.compile(r"… pack the image: compile byte code, \d+ s so far$", re.MULTILINE)
    with console.beating():
        deadline = time.monotonic() + 60
        while not sign.search(said) and time.monotonic() < deadline:
            time.sleep(0.02)
            said += capsys.readouterr().err
    said += capsys.readouterr().err
    assert sign.search(said)
    assert not re.search("Error compiling|File|broken", said)
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("option", ["quiet", "events", "verbose"])
def test_no_sign_of_life_where_none_is_read(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_BEAT_S", 0.01)
    monkeypatch.setattr(output, "_HEARTBEAT_S", 0.0)
    asked: dict[str, Any] = {option: True}
    with Console(live=False, **asked).beating():
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


class Clock:
    """A clock that a test sets; it may count as that of a longer run."""

    def __init__(self, place: str = "") -> None:
        self.time = 100.0
        self.run = Run(began=100.0, place=place, now=lambda: self.time)

    def console(self, **options: Any) -> Console:
        return Console(live=False, run=self.run, **options)


def test_steps_are_counted_on_one_clock(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    first = clock.console()
    first.expect(4)
    for title in ("base", "unpack"):
        first.step(title)
        clock.time += 60
    # The cache holds more than was known before: one is left.
    first.expect(1)
    first.step("record")
    second = clock.console()
    second.step("check")
    first.end("done")
    assert capsys.readouterr().err.splitlines() == [
        "[    0 s] 1/4 base",
        "[   60 s] 2/4 unpack",
        "[  120 s] 3/3 record",
        "[  120 s] check",
        "[  120 s] done",
    ]


def test_no_number_is_above_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    console = Clock().console()
    console.expect(1)
    for title in ("one", "two"):
        console.step(title)
    assert capsys.readouterr().err.splitlines() == ["[    0 s] 1/1 one", "[    0 s] two"]


def test_a_step_of_a_longer_run_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    console = Clock("6/12 build").console()
    console.expect(2)
    console.step("base")
    assert capsys.readouterr().err == "[    0 s] 6/12 build, 1/2 base\n"


def test_the_clock_of_a_longer_run_is_taken_and_not_handed_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_RUN", [Run()])
    environ = {HANDED: f"{time.monotonic() - 65:.3f} 6/12 build", "HOME": "/"}
    output.begin_run(environ)
    assert environ == {"HOME": "/"}
    Console(live=False).step("base")
    said = capsys.readouterr().err
    assert "6/12 build, base" in said
    assert not said.startswith("[    0 s]")


def test_events_count_too(capsys: pytest.CaptureFixture[str]) -> None:
    console = Clock().console(events=True)
    console.expect(2)
    console.step("base")
    console.end("done")
    step, end = map(json.loads, capsys.readouterr().err.splitlines())
    assert step == {"event": "step", "elapsed_s": 0.0, "text": "base", "number": 1, "of": 2}
    assert end == {"event": "end", "elapsed_s": 0.0, "text": "done"}


@pytest.mark.parametrize("verbose", [False, True])
def test_a_check_that_passes_is_no_note(verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    console = Clock().console(verbose=verbose)
    for state in ("ok", "not tried", "failed"):
        console.checked(SimpleNamespace(name="labels", state=state, detail="x"))  # type: ignore[arg-type]
    said = capsys.readouterr().err
    assert "note: ok" not in said
    assert ("ok: labels: x" in said) == verbose
    assert "note: not tried labels: x" in said
    assert "note: FAILED labels: x" in said


def test_a_phase_is_said_where_work_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    console = clock.console()
    console.expect(2)
    console.step("pack the image")
    console.phase("read: 1 of 9 MB, 11%")
    assert capsys.readouterr().err == "[    0 s] 1/2 pack the image\n"
    clock.time += 31
    console.phase("read: 5 of 9 MB, 55%")
    said = "[   31 s]   … 1/2 pack the image: read: 5 of 9 MB, 55%, 31 s so far\n"
    assert capsys.readouterr().err == said


def test_a_terminal_shows_the_phase_not_a_tools_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    console = Console(run=Clock().run)
    console.step("framework")
    console.line("No broken requirements found.")
    console.line('  File "/opt/a.py", line 3')
    shown = terminal.getvalue().rpartition("\r")[2]
    assert shown == "\033[K[    0 s]   framework: compile byte code, 0 s so far"
