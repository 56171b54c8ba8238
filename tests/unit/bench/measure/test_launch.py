import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dlcontainer.bench.measure import launch
from dlcontainer.bench.measure.launch import LaunchCommand, inside, perform, stamped
from dlcontainer.bench.probes import PROBES
from dlcontainer.system.process import CommandFailedError, CommandNotFoundError, CommandTimeoutError
from tests.fakes import RecordingRunner, completed

LAUNCH = LaunchCommand(argv=("probe",), environment={"A": "1"}, probe=PROBES["import"])
TRAINING = replace(LAUNCH, probe=PROBES["train"])
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
SAID: dict[str, Any] = {
    "schema": "dlcontainer/probe/1",
    "probe": "import",
    "ok": True,
    "error": None,
    "module": "torch",
    "stamps_ns": {
        "inside": START + SECOND // 10,
        "python": START + SECOND // 5,
        "site": None,
        "import": START + 2 * SECOND,
    },
    "values": {"import_cpu_s": 1.5},
    "counts": {"modules": 900},
    "stack": {"python": "3.11.2"},
}


def said(**changes: Any) -> str:
    return f"dlc-start {START}\nA framework's own word\n{json.dumps({**SAID, **changes})}\n"


def test_what_a_probe_says_is_taken() -> None:
    runner = RecordingRunner([completed("probe", stdout=said())])
    outcome = perform(LAUNCH, runner, 60)
    assert outcome.status == "ok"
    assert outcome.values == {"import_cpu_s": 1.5, "wall_s": 2.0}
    assert outcome.phases == {"runtime": 0.1, "python": 0.1, "import": 1.8}
    assert outcome.stack == {"python": "3.11.2"}
    assert runner.calls[0].env == {"A": "1"}
    assert runner.calls[0].timeout == 60


@pytest.mark.parametrize(
    "stdout",
    [
        "",
        "no JSON\n",
        "[1]\n",
        '{"schema": "dlcontainer/probe/2"}\n',
        said(values={"import_cpu_s": "much"}),
        said(stamps_ns={**SAID["stamps_ns"], "import": START - 1}),
        said().partition("\n")[2],
    ],
    ids=["nothing", "text", "list", "newer", "no number", "before the start", "no start"],
)
def test_what_is_no_result_is_a_failure(stdout: str) -> None:
    outcome = perform(LAUNCH, RecordingRunner([completed("probe", stdout=stdout)]), 60)
    assert outcome.status == "failed"
    assert outcome.reason


@pytest.mark.parametrize("wall", [0, 0.0, -3.2, float("nan"), float("inf")])
def test_a_time_that_is_none_is_a_failure(wall: float) -> None:
    stdout = said(probe="train", values={"wall_s": wall})
    outcome = perform(TRAINING, RecordingRunner([completed("probe", stdout=stdout)]), 60)
    assert outcome.status == "failed"
    assert "implausible wall time: " in outcome.reason


def test_stamps_out_of_order_are_a_failure() -> None:
    stamps = {**SAID["stamps_ns"], "python": START + SECOND // 20}
    outcome = perform(
        LAUNCH, RecordingRunner([completed("probe", stdout=said(stamps_ns=stamps))]), 60
    )
    assert outcome.status == "failed"
    assert "out of order" in outcome.reason


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-9, "ended by signal 9 (SIGKILL; out of memory?)"),
        (137, "exit code 137 (SIGKILL; out of memory?)"),
        (139, "exit code 139 (SIGSEGV)"),
        (1, "exit code 1"),
        (255, "exit code 255"),
    ],
)
def test_how_a_rank_died_is_said(code: int, reason: str) -> None:
    dead = CommandFailedError(completed("probe", code=code))
    assert perform(LAUNCH, RecordingRunner([dead]), 60).reason == reason


def test_a_crash_keeps_the_last_lines() -> None:
    stderr = "".join(f"line {number}\n" for number in range(20))
    crash = CommandFailedError(completed("probe", code=-11, stderr=stderr))
    outcome = perform(LAUNCH, RecordingRunner([crash]), 60)
    assert (outcome.status, outcome.returncode) == ("failed", -11)
    assert outcome.reason == "ended by signal 11 (SIGSEGV)"
    assert outcome.stderr == tuple(f"line {number}" for number in range(12, 20))


def test_an_import_that_fails_says_why() -> None:
    answer = said(ok=False, error="ModuleNotFoundError: No module named 'torch'")
    failed = CommandFailedError(completed("probe", code=1, stdout=answer))
    outcome = perform(LAUNCH, RecordingRunner([failed]), 60)
    assert outcome.reason == "ModuleNotFoundError: No module named 'torch'"


def test_a_gpu_that_takes_one_process_is_named() -> None:
    # PyTorch's words on a device in exclusive-process mode: modelscope/ms-swift issue 5118.
    busy = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    failed = CommandFailedError(completed("probe", code=1, stdout=said(ok=False, error=busy)))
    outcome = perform(LAUNCH, RecordingRunner([failed]), 60)
    assert outcome.reason.startswith(f"{busy}; a device in exclusive-process mode")
    # Where only the log says so.
    crash = CommandFailedError(completed("probe", code=1, stderr=f"{busy}\n"))
    assert "one rank a device" in perform(LAUNCH, RecordingRunner([crash]), 60).reason


def test_a_hanging_rank_is_a_time_out() -> None:
    late = CommandTimeoutError(completed("probe", code=-9, stderr="waiting\n"), 60)
    outcome = perform(LAUNCH, RecordingRunner([late]), 60)
    assert (outcome.status, outcome.stderr) == ("timeout", ("waiting",))
    assert "60 s" in outcome.reason


def test_a_missing_program_is_a_failure() -> None:
    missing = CommandNotFoundError("apptainer", "No such file or directory")
    assert perform(LAUNCH, RecordingRunner([missing]), 60).status == "failed"


def test_wrappers_pass_arguments_on_as_they_are() -> None:
    words = ["a b", "'", "$(x)", "line\nbreak"]
    assert stamped(words)[-4:] == words
    assert inside(words)[-4:] == words


def test_a_busy_machine_does_not_look_like_a_set_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others ran 50 ms between two looks at clocks, most of the time but not always."""
    pauses = iter([0.05, 0.0, 0.05, 0.05, 0.05] * 2)
    moment = 100.0

    def now() -> float:
        nonlocal moment
        moment += next(pauses)
        return moment + 1_800_000_000

    monkeypatch.setattr(launch, "time", SimpleNamespace(monotonic=lambda: moment, time=now))
    lead = launch.clock_lead()
    assert not launch.was_set(lead)
    pauses = iter([0.0] * 5)
    assert launch.was_set(lead - 0.01)
