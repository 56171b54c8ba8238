import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer import errors
from dlcontainer.system import output_lines
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    ProcessRunner,
    quote,
)

HOSTILE = ["a b", "'", '"', "$(x)", "`x`", "a\nb", "", "-n", "*", "\\", "ü", "\udcff", "a'; echo x"]
PRINT_ARGV = "import os, sys; [os.write(1, os.fsencode(a) + bytes(1)) for a in sys.argv[1:]]"

real = pytest.mark.usefixtures("real_processes")


def python(code: str, *argv: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", code, *argv]


def test_a_unit_test_starts_no_process(run: ProcessRunner) -> None:
    with pytest.raises(AssertionError, match="started a process"):
        run(["true"])
    with pytest.raises(AssertionError, match="started a process"):
        subprocess.Popen(["true"])


def test_an_option_that_nobody_knows_is_refused(run: ProcessRunner) -> None:
    with pytest.raises(TypeError, match="no option of a command: timeuot"):
        run(["true"], timeuot=3)  # type: ignore[call-arg]


@real
def test_stdout_and_stderr_are_captured_apart_and_as_they_are(run: ProcessRunner) -> None:
    done = run(["sh", "-c", r"printf 'a\r\nb\377'; printf 'c\n' >&2"])
    assert (done.stdout, done.stderr, done.returncode) == ("a\r\nb\ufffd", "c\n", 0)
    assert done.argv == ("sh", "-c", r"printf 'a\r\nb\377'; printf 'c\n' >&2")
    assert 0 < done.elapsed < 60


@real
def test_much_output_on_both_streams_does_not_block(run: ProcessRunner) -> None:
    code = "import os\nfor _ in range(64):\n  os.write(2, b'e' * 9999); os.write(1, b'o' * 9999)"
    done = run(python(code))
    assert (len(done.stdout), len(done.stderr)) == (64 * 9999, 64 * 9999)


@real
def test_hostile_arguments_arrive_as_they_are(run: ProcessRunner) -> None:
    out: list[str] = []
    done = run(python(PRINT_ARGV, *(word for word in HOSTILE if word != "\udcff")))
    assert done.stdout.split("\0")[:-1] == [word for word in HOSTILE if word != "\udcff"]
    run(python(PRINT_ARGV, "\udcff"), on_line=out.append)
    assert out == ["\ufffd\0"]


@real
@pytest.mark.parametrize("name", ["a b", "a\nb", "it's", '"', "$(x)", "a'; echo x"])
def test_hostile_working_folder_and_program(run: ProcessRunner, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    program = folder / f"pro {name}"
    program.write_text("#!/bin/sh\npwd -P\n")
    program.chmod(0o755)
    assert run([str(program)], cwd=folder).stdout == f"{folder.resolve()}\n"
    assert run([f"./pro {name}"], cwd=folder).stdout == f"{folder.resolve()}\n"


@real
def test_a_missing_working_folder_is_named(run: ProcessRunner, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(["true"], cwd=tmp_path / "nowhere")


@real
def test_environment_is_the_base_or_the_given_one(
    run: ProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_THE_PROCESS", "1")
    base = "".join(f"{name}={value}\n" for name, value in run.environ.items())
    assert run(["/usr/bin/env"]).stdout == base
    assert run(["/usr/bin/env"], env={"A": "x=y\nz", "B": ""}).stdout == "A=x=y\nz\nB=\n"
    assert run(["/usr/bin/env"], env={}).stdout == ""
    big = {f"V{n}": "x" * 10_000 for n in range(40)}  # more than a pipe holds
    assert len(run(["/usr/bin/env"], env=big).stdout) > 400_000


@real
def test_program_is_sought_in_the_path_of_the_command(run: ProcessRunner, tmp_path: Path) -> None:
    (tmp_path / "only-here").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "only-here").chmod(0o755)
    assert run(["only-here"], env={"PATH": str(tmp_path)}).stdout == "found\n"
    with pytest.raises(CommandNotFoundError):
        run(["only-here"])


@real
def test_standard_input_is_empty_or_the_given_text(run: ProcessRunner) -> None:
    assert run(["cat"]).stdout == ""
    text = "zeile ü\n" * 100_000
    assert run(["cat"], stdin=text).stdout == text
    assert run(["true"], stdin=text).returncode == 0  # unread input harms nobody


@real
@pytest.mark.parametrize("code", [1, 2, 126, 127, 128, 255])
def test_exit_code(run: ProcessRunner, code: int) -> None:
    assert run(["sh", "-c", f"exit {code}"], check=False).returncode == code
    with pytest.raises(CommandFailedError, match=f"exit code {code}") as caught:
        run(["sh", "-c", f"echo why; exit {code}"])
    assert (caught.value.completed.returncode, caught.value.completed.stdout) == (code, "why\n")


@real
def test_processor_time_is_of_the_command_and_its_daemons(
    run: ProcessRunner, tmp_path: Path
) -> None:
    # Not of those who slept: by the kernel's account, whatever the clock on the wall says.
    assert run(["sleep", "0.3"]).processor_s < 0.1
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    assert 0.3 <= run(python(spin)).processor_s < 1.0
    end = tmp_path / "end"
    daemon = f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{spin}\nopen({str(end)!r}, 'w')"
    held = '"$@"; until test -e "$0"; do sleep 0.05; done'
    assert run(["sh", "-c", held, str(end), *python(daemon)], timeout=60).processor_s >= 0.3


@real
@pytest.mark.parametrize("number", [1, 2, 6, 9, 11, 15, 34])
def test_death_by_signal(run: ProcessRunner, number: int, tmp_path: Path) -> None:
    command = ["sh", "-c", f"ulimit -c 0; kill -{number} $$"]
    assert run(command, check=False, cwd=tmp_path).returncode == -number
    with pytest.raises(CommandFailedError, match=f"signal {number}"):
        run(command, cwd=tmp_path)


@real
@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_be_started(run: ProcessRunner, tmp_path: Path, check: bool) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF for another machine")
    (tmp_path / "binary").chmod(0o755)
    for program, reason in {
        "no-such-program": "No such file",
        "/no/such/program": "No such file",
        str(tmp_path): "Permission denied",
        str(tmp_path / "binary"): "Exec format error",
    }.items():
        with pytest.raises(CommandNotFoundError, match=reason) as caught:
            run([program, "x"], check=check)
        assert caught.value.program == program


def test_what_is_no_command_is_refused(run: ProcessRunner) -> None:
    for wrong in ("ls -l", b"ls", ["ls", b"x"], ["ls", Path("x")], [1]):
        with pytest.raises(TypeError, match="a command is a sequence of str"):
            run(wrong)  # type: ignore[arg-type]
    for argv in ([], [""], ["", "x"]):
        with pytest.raises(ValueError, match="at least the program"):
            run(argv)
    with pytest.raises(ValueError, match="NUL byte"):
        run(["ls", "a\0b"])


@pytest.mark.parametrize("env", [{"A=B": "x"}, {"": "x"}, {"A": "x\0"}, {"A\0": "x"}])
def test_what_is_no_environment_is_refused(run: ProcessRunner, env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="no environment can hold"):
        run(["ls"], env=env)


@real
def test_lines_come_while_the_command_runs(run: ProcessRunner, tmp_path: Path) -> None:
    go = tmp_path / "go"
    seen: list[str] = []

    def on_line(line: str) -> None:
        seen.append(line)
        go.touch()

    script = "echo first >&2; while ! [ -e go ]; do sleep 0.01; done; echo second"
    done = run(["sh", "-c", script], on_line=on_line, cwd=tmp_path, timeout=60)
    assert seen == ["first", "second"]
    assert (done.stdout, done.stderr) == ("first\nsecond\n", "")


@real
def test_lines_are_logged_and_the_last_are_kept(run: ProcessRunner, tmp_path: Path) -> None:
    log = tmp_path / "a b.log"
    log.write_text("before\n")
    said: list[str] = []
    for on_line in (None, said.append):
        done = run(["seq", "1000"], on_line=on_line, log=log)
        assert done.stdout.split() == [str(n) for n in range(801, 1001)]
    numbers = "".join(f"{n}\n" for n in range(1, 1001))
    assert log.read_text() == "before\n" + numbers + numbers


def test_dry_run_only_echoes() -> None:
    said: list[str] = []
    run = ProcessRunner(environ={}, echo=said.append, dry_run=True)
    argv = ("apptainer", "build", "a b.sif", "it's")
    assert run(argv) == CompletedCommand(argv=argv, returncode=0, stdout="", stderr="", elapsed=0.0)
    assert said == ["$ apptainer build 'a b.sif' 'it'\"'\"'s'"]


@real
def test_echo_comes_before_the_output() -> None:
    said: list[str] = []
    run = ProcessRunner(environ=os.environ, echo=said.append)
    run(["echo", "a b"], on_line=said.append)
    assert said == ["$ echo 'a b'", "a b"]


@real
def test_quoted_is_what_a_shell_reads(run: ProcessRunner) -> None:
    words = [word for word in HOSTILE if word != "\udcff"]
    shown = quote(python(PRINT_ARGV, *words))
    assert run(["sh", "-c", shown]).stdout.split("\0")[:-1] == words


def test_errors_of_the_door_are_the_callers_to_translate() -> None:
    for error in (CommandFailedError, CommandNotFoundError, CommandTimeoutError):
        assert not issubclass(error, errors.DlcontainerError)


@real
def test_a_program_that_prints_without_end(
    run: ProcessRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_lines, "MOST_CAPTURED", 1_000_000)
    argv = python("import os\nwhile True: os.write(1, b'x' * 65536)")
    done = run(argv, check=False)
    assert done.returncode == -9
    assert "dlcontainer ended it, because it printed more than 1 MB" in done.stderr
    with pytest.raises(CommandFailedError):
        run(argv)
