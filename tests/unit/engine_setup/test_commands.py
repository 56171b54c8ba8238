"""Commands of the set-up: real ones, whose lines are told and whose failures are readable."""

import pytest

from dlcontainer.engine_setup.commands import run, stream
from dlcontainer.errors import EngineError
from tests.setup_scripts import Told

pytestmark = pytest.mark.usefixtures("real_processes")


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def test_what_it_prints_is_returned_and_told(told: Told) -> None:
    done = run(sh('echo "$WORD $LC_ALL"; echo aside >&2'), env={"WORD": "it's"})
    assert (done.stdout, done.stderr) == ("it's C.UTF-8\n", "aside\n")
    assert told.take().splitlines()[1:] == ["| it's C.UTF-8", "| aside"]


def test_a_failure_names_the_command_its_last_lines_and_the_fix() -> None:
    with pytest.raises(EngineError, match=r"failed \(3\): /bin/sh") as caught:
        run(sh('echo "E: No space left on device" >&2; exit 3'))
    assert caught.value.why == "E: No space left on device"
    assert "or give another folder" in str(caught.value.next_step)
    assert caught.value.exit_code == 4
    assert run(sh("exit 3"), check=False).returncode == 3


@pytest.mark.parametrize("argv", [["/no/such/program"], sh("exec sleep 60")])
def test_one_that_does_not_start_or_end(argv: list[str]) -> None:
    with pytest.raises(EngineError, match="cannot run"):
        run(argv, timeout=0.5)
    assert run(argv, timeout=0.5, check=False).returncode == 127


def test_a_long_one_tells_line_by_line_and_keeps_its_own_errors(told: Told) -> None:
    stream(sh("echo one; echo two >&2"), what="sh works")
    assert told.take().splitlines()[-3:] == ["waits: sh works", "| one", "| two"]
    script = 'echo "E: the cause"; for n in $(seq 30); do echo "line $n"; done; exit 100'
    with pytest.raises(EngineError, match=r"failed \(100\)") as caught:
        stream(sh(script), what="sh works")
    why = str(caught.value.why)
    assert "E: the cause" in why
    assert "line 30" in why
    assert "line 3\n" not in why
