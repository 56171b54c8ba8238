"""How far something is: percent and time left where the end is known, else the amount."""

import time
from pathlib import Path

import pytest

from dlcontainer.formats import step_commands
from dlcontainer.system import progress
from dlcontainer.system.progress import Meter, StepProgress, phase_line, told
from dlcontainer.system.run_clock import HANDED, Run
from tests.fakes import Quiet
from tests.values import folder_of, plan_of
from tools.console import Console


def test_percent_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    said: list[str] = []
    meter = Meter(tell=said.append, title="torch.whl", total=200_000_000, began=100.0)
    meter.at(1_000_000)
    now[0] += 0.1
    meter.at(2_000_000)  # too soon
    now[0] += 9.9
    meter.at(50_000_000)
    now[0] += 30
    meter.at(200_000_000)
    assert said == [
        "torch.whl: 1 of 200 MB, 0%",
        "torch.whl: 50 of 200 MB, 25%, about 30 s left",
        "torch.whl: 200 of 200 MB, 100%",
    ]


def test_the_amount_where_no_end_is_known() -> None:
    said: list[str] = []
    Meter(tell=said.append, title="pip").at(3_000_000)
    assert said == ["pip: 3 MB"]


def test_a_folder_that_another_program_fills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_TELL_EACH_S", 0.01)
    said: list[str] = []
    meter = Meter(tell=said.append, title="debs", total=4_000_000)
    with progress.watching(tmp_path, meter):
        (tmp_path / "a.deb").write_bytes(b"x" * 4_000_000)
        deadline = time.monotonic() + 60
        while "debs: 4 of 4 MB, 100%" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "debs: 4 of 4 MB, 100%" in said
    count = len(said)
    time.sleep(0.05)
    assert len(said) == count


def test_a_clock_starts_once_and_is_handed_down() -> None:
    now = [1000.0]
    first = Run.of({}, lambda: now[0])
    now[0] += 65.5
    assert first.elapsed() == 65.5
    set_up = Console(now=lambda: now[0])
    set_up.begin(["Python environment", "build"], verbose=False, log=None)
    set_up.step("build")
    now[0] += 20
    later = Run.of(set_up.environment(), lambda: now[0])
    assert (later.elapsed(), later.place) == (20.0, "2/2 build")


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "5", "-5.0", "5.0 ", "5.0 build", "5.0 1/2 build\n", "5.0 1/2 \033[2J", "1e9"),
        "2000.0 1/2 of a clock that is ahead",
    ],
)
def test_what_is_no_clock_of_ours_counts_as_none(text: str) -> None:
    run = Run.of({HANDED: text}, lambda: 1000.0)
    assert (run.elapsed(), run.place) == (0.0, "")


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (phase_line("compile byte code"), "compile byte code"),
        ("I: extracting archives...", "mmdebstrap: extracting archives"),
        ("Downloading torch-2.13.0-cp311-none-any.whl (180.5 MB)", "torch-2.13.0-cp311-none-any"),
        ("  Downloading https://p.example/a/numpy-2.whl (16 MB)", "pip downloads numpy-2.whl"),
        ("Installing collected packages: torch, numpy", "pip installs the packages"),
        ("No broken requirements found.", "compile byte code"),
        ("Get:5 http://d.example bookworm/main amd64 libgomp1 amd64 12", "downloads libgomp1"),
        ("Setting up libgomp1:amd64 (12.2.0-14) ...", "dpkg sets up libgomp1:amd64"),
        ("==> step 1/2 framework", "step 1/2 framework"),
        ("INFO:    Creating SIF file...", "make the SIF"),
        ('File "/opt/x/lib/python3.11/site-packages/a.py", line 3', None),
        ("Attempting uninstall: setuptools", None),
        ("", None),
    ],
)
def test_what_begins_by_a_tools_own_word(line: str, phase: str | None) -> None:
    found = told(line)
    assert found is None if phase is None else phase in str(found)


def test_byte_code_is_compiled_behind_the_last_word_of_pip_check(tmp_path: Path) -> None:
    """`told` takes the one for the other's beginning: native twins have no line for it."""
    steps = [{"name": "x", "python_packages": {"packages": ["numpy==2.0"]}}]
    plan = plan_of(folder_of(tmp_path, steps=steps))
    for blocks in (step_commands.image_blocks(plan), step_commands.native_blocks(plan)):
        commands = blocks[0].commands
        check = next(i for i, text in enumerate(commands) if text.endswith(" -m pip check"))
        assert " -m compileall " in commands[check + 1]


def test_a_step_that_runs_is_not_begun_again() -> None:
    quiet = Quiet()
    steps = StepProgress(quiet)
    steps.begin("pack-image", "pack the image")
    steps.line("INFO:    Creating SIF file...")
    steps.line("==> step 3/4 third")
    steps.line("==> step 3/4 third")
    steps.end()
    assert [text for text in quiet.said if text != "INFO:    Creating SIF file..."] == [
        "pack the image",
        "step third",
    ]
    assert [name for name, _ in steps.times] == ["pack-image", "third"]
