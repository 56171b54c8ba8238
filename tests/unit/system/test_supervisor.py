"""How processes come and go; the killing is in integration/test_shell_kill.py."""

import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from dlcontainer.system import process
from dlcontainer.system.process import (
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    ProcessRunner,
)

pytestmark = pytest.mark.usefixtures("real_processes")


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_terminal_and_no_descriptor_is_handed_down(run: ProcessRunner) -> None:
    done = run(["sh", "-c", "ls /proc/self/fd; exec 2>/dev/null; true </dev/tty || echo none"])
    assert done.stdout.split() == ["0", "1", "2", "3", "none"]  # 3: ls reads the folder


def test_signals_are_as_in_a_fresh_process(run: ProcessRunner) -> None:
    status = run(["cat", "/proc/self/status"]).stdout
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["SigBlk"], 16) == 0
    for number in (signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGXFSZ):
        assert not int(fields["SigIgn"], 16) >> (number - 1) & 1


def test_timeout_ends_the_command_and_keeps_its_words(run: ProcessRunner) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo $$; while :; do sleep 0.05; done"
    start = time.monotonic()
    with pytest.raises(CommandTimeoutError, match=r"within 10 s") as caught:
        run(["sh", "-c", script], timeout=10.0, check=False)
    assert time.monotonic() - start < 60
    first, last = caught.value.completed.stdout.split()
    assert (last, caught.value.completed.returncode, caught.value.timeout) == ("bye", 3, 10.0)
    assert not alive(int(first))
    assert run(["true"], timeout=60).returncode == 0


def test_timeout_of_a_command_that_never_stops_talking(run: ProcessRunner) -> None:
    with pytest.raises(CommandTimeoutError):
        run(["yes"], timeout=0.3, on_line=lambda line: None)


def test_what_a_command_leaves_behind_is_ended(run: ProcessRunner) -> None:
    start = time.monotonic()
    done = run(["sh", "-c", "setsid sleep 120 & echo $!; sleep 120 & echo $!; exit 7"], check=False)
    assert done.returncode == 7
    assert time.monotonic() - start < 60
    assert not any(alive(int(pid)) for pid in done.stdout.split())


class OddError(BaseException):
    """No Exception: as the command line turns a signal into."""


def test_any_exception_meanwhile_ends_the_command(run: ProcessRunner) -> None:
    pids: list[int] = []

    def on_line(line: str) -> None:
        pids.append(int(line))
        raise OddError

    with pytest.raises(OddError):
        run(["sh", "-c", "echo $$; sleep 120"], on_line=on_line)
    assert not alive(pids[0])


def test_no_descriptor_and_no_zombie_is_left_after_many_calls(run: ProcessRunner) -> None:
    def state() -> tuple[int, set[str]]:
        gc.collect()
        mine = {str(os.getpid())}
        pids = [path.name for path in Path("/proc").iterdir() if path.name.isdigit()]
        children = {pid for pid in pids if parent_of(pid) in mine}
        return len(os.listdir("/proc/self/fd")), children  # noqa: PTH208 - it opens one, always

    run(["true"])
    before = state()
    for n in range(80):
        kind = n % 4
        if kind == 0:
            run(["true"], stdin="x")
        elif kind == 1:
            run(["false"], check=False, on_line=lambda line: None)
        elif kind == 2:
            with pytest.raises(CommandNotFoundError):
                run(["no-such-program"])
        else:
            with pytest.raises(FileNotFoundError):
                run(["true"], cwd=Path("/no/such/folder"))
    assert state() == before


def parent_of(pid: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_threads_run_commands_side_by_side(run: ProcessRunner) -> None:
    results: dict[int, CompletedCommand] = {}

    def work(n: int) -> None:
        results[n] = run(["sh", "-c", f"sleep 0.2; echo {n}"])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: done.stdout for n, done in results.items()} == {n: f"{n}\n" for n in range(6)}


def test_the_supervisor_writes_no_bytecode(
    run: ProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    # Who imports it as a module leaves byte code, and that is not this test's to find.
    for left in (process.SUPERVISOR.parent / "__pycache__").glob("supervisor.*"):
        left.unlink()
    assert run(["true"]).returncode == 0
    assert not list((process.SUPERVISOR.parent / "__pycache__").glob("supervisor.*"))


def test_a_supervisor_that_cannot_work_says_why(
    run: ProcessRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "supervisor.py").write_text("raise SystemError('no such thing')\n")
    monkeypatch.setattr(process, "SUPERVISOR", tmp_path / "supervisor.py")
    with pytest.raises(RuntimeError, match="no such thing"):
        run(["true"])
