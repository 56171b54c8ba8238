"""What the set-up tells: one clock, numbered steps, each note once, and where the log is."""

import signal
from pathlib import Path

import pytest

import tools.console
from dlcontainer.errors import EngineError
from tools.console import Console, Interrupted, report_error, run_steps, verbose_by


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    now = iter(range(100, 200))
    console = Console(now=lambda: float(next(now)))
    console.begin(["environment", "engine"], verbose=False, log=tmp_path / "a/set-up.log")
    monkeypatch.setattr(tools.console, "CONSOLE", console)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return console


def test_steps_are_numbered_on_a_clock_that_starts_once(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    console.step("environment")
    console.step("engine", "25 MB")
    console.begin(console.titles, verbose=False, log=None)
    console.step("environment")
    assert capsys.readouterr().out.splitlines() == [
        "[    1 s] 1/2 environment",
        "[    2 s] 2/2 engine: 25 MB",
        "[    3 s] 1/2 environment",
    ]


def test_a_note_is_said_once(console: Console, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("no uidmap", "no lmod", "no uidmap"):
        console.note(text)
    lines = [line.partition("] ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["  note: no uidmap", "  note: no lmod"]


@pytest.mark.parametrize("verbose", [True, False])
def test_a_tools_line_is_in_the_log_and_shown_when_asked_for(
    verbose: bool, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    console.verbose = verbose
    console.tool("Downloading x")
    assert console.log is not None
    assert console.log.read_text() == "Downloading x\n"
    assert capsys.readouterr().out == ("    Downloading x\n" if verbose else "")


def test_an_error_names_its_step_and_the_log(
    console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    console.step("engine")
    assert report_error(EngineError("no engine", next_step="load one")) == 1
    assert capsys.readouterr().err == "error: 2/2 engine: no engine\n  next: load one\n"
    console.tool("E: nothing there")
    report_error(EngineError("no engine"))
    assert f"all that the tools said: {console.log}" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_its_code(
    number: signal.Signals, console: Console, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        console.step("engine")
        raise Interrupted(number)

    assert run_steps(work) == 128 + number
    assert capsys.readouterr().err == "interrupted in step 2/2 engine\n"


@pytest.mark.parametrize(
    ("value", "asked"), [(None, False), ("", False), ("0", False), ("1", True)]
)
def test_make_asks_for_all_by_a_variable(value: str | None, asked: bool) -> None:
    assert verbose_by({} if value is None else {"V": value}) is asked
