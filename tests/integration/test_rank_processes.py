"""Ranks of this host without an MPI: their numbers, their exit codes, their end."""

import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer.system import rank_processes

NAMES = ("RANKID", "SIZE", "LOCAL_RANKID", "LOCAL_SIZE")
SHOW = f"import os; print(*(os.environ['PALS_' + name] for name in {NAMES}))"


def launched(ranks: str, *argv: str) -> subprocess.CompletedProcess[str]:
    words = [word.replace("{ranks}", ranks) for word in rank_processes.words()]
    return subprocess.run([*words, *argv], capture_output=True, text=True, timeout=120, check=False)


def python(text: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", text)


def test_each_rank_knows_its_number() -> None:
    done = launched("3", *python(SHOW))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 3 0 3", "1 3 1 3", "2 3 2 3"]


def test_the_first_bad_exit_is_the_launch_s_and_ends_the_others(tmp_path: Path) -> None:
    text = (
        "import os, sys, time\n"
        "if os.environ['PALS_RANKID'] == '1': sys.exit(7)\n"
        f"open({str(tmp_path)!r} + '/' + os.environ['PALS_RANKID'], 'w').write(str(os.getpid()))\n"
        "time.sleep(1000)\n"
    )
    done = launched("2", *python(text))
    assert done.returncode == 7
    assert "ranks: rank 1 ended with exit code 7" in done.stderr
    pid = (tmp_path / "0").read_text()
    assert not Path(f"/proc/{pid}").exists()


def test_a_command_that_is_not_there() -> None:
    done = launched("1", "no-such-program-here")
    assert done.returncode == 127
    assert "no-such-program-here: No such file" in done.stderr


@pytest.mark.parametrize("ranks", ["0", "-1", "x", "100000"])
def test_numbers_that_are_none(ranks: str) -> None:
    done = launched(ranks, "true")
    assert done.returncode == 1
    assert "give a number of ranks and a command" in done.stderr
