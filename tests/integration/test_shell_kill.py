"""Whoever is killed, and how: no process that a command started may survive."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import MARK, kill_marked, marked, new_mark, poll, stop

# Seconds from the kill until nobody is left: supervisor.py takes 5 of them where it gets a core.
# Who is not ended sleeps for 300.
LIMIT = 60.0
READY = 60.0  # seconds to start things; only a broken test needs them

# Children that try to stay: each says its name in a file of the working folder once it is set up.
# `sleep 300` and not for ever, should all else fail.
TREE = r"""
sleep 300 & touch background
setsid sh -c 'touch session; exec sleep 300' &
sh -c 'trap "" TERM; touch deaf; while :; do sleep 1; done' &
setsid sh -c 'trap "" TERM HUP INT; touch deaf-session; while :; do sleep 1; done' &
"$PYTHON" -I -S -c '
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in range(100):
            try: os.close(fd)
            except OSError: pass
        os.close(os.open("daemon", os.O_CREAT | os.O_WRONLY))
        time.sleep(300)
    os._exit(0)
'
touch shell
wait
sleep 300
"""
MEMBERS = ("background", "session", "deaf", "deaf-session", "daemon", "shell")

PARENT = """
import os, signal, sys, threading
from pathlib import Path
from dlcontainer.system.process import ProcessRunner

class Ended(BaseException):
    pass

def end(*_):
    raise Ended

signal.signal(signal.SIGTERM, end)
run = ProcessRunner(environ=dict(os.environ))
Path("parent").touch()
try:
    done = run(["sh", "-c", sys.argv[1]], check=False, on_line=print)
    Path("result").write_text(str(done.returncode))
except (Ended, KeyboardInterrupt) as error:
    Path("result").write_text(type(error).__name__)
"""


@dataclass
class Family:
    """A parent that runs a command, the two supervisors, and what the command started."""

    mark: str
    folder: Path
    environ: dict[str, str]
    parent: subprocess.Popen[bytes] | None = None

    def start(self, script: str = TREE) -> "Family":
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, script],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self.reached("parent")
        return self

    def reached(self, *names: str) -> bool:
        return poll(lambda: all((self.folder / name).exists() for name in names), READY)

    @property
    def pid(self) -> int:
        assert self.parent is not None
        return self.parent.pid

    def supervisors(self) -> list[int]:
        """Give the outer and the inner one."""
        parents = marked(self.mark)
        (outer,) = [pid for pid, parent in parents.items() if parent == self.pid]
        (inner,) = [pid for pid, parent in parents.items() if parent == outer]
        return [outer, inner]

    def gone(self, seconds: float = LIMIT) -> bool:
        """Wait until nobody is left, the parent included."""
        parent = self.parent
        assert parent is not None
        return poll(lambda: parent.poll() is not None and not marked(self.mark), seconds)

    def result(self) -> str:
        return (self.folder / "result").read_text()


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    mark = new_mark()
    environ = {**os.environ, MARK: mark, "PYTHON": sys.executable}
    # The package may be a plain folder, not installed: the parent must find the same one.
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    folder = tmp_path / "a b\n'c"
    folder.mkdir()
    family = Family(mark, folder, environ)
    yield family
    kill_marked(mark)
    if family.parent is not None:
        family.parent.wait()


def test_the_tree_is_what_this_file_says(family: Family) -> None:
    family.start()
    assert family.reached(*MEMBERS)
    # parent, two supervisors, shell, and one or two (a loop and its sleep) for each other member
    assert poll(lambda: len(marked(family.mark)) >= 3 + len(MEMBERS), READY)
    outer, inner = family.supervisors()
    sessions = {os.getsid(pid) for pid in marked(family.mark)}
    assert os.getsid(outer) == os.getsid(inner) == outer != os.getsid(family.pid)
    assert len(sessions) >= 5  # parent, supervisors, session, deaf-session, daemon


def test_parent_killed(family: Family) -> None:
    family.start()
    assert family.reached(*MEMBERS)
    os.kill(family.pid, signal.SIGKILL)
    assert family.gone(), marked(family.mark)


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGINT, "KeyboardInterrupt"), (signal.SIGTERM, "Ended")]
)
def test_parent_interrupted(family: Family, number: int, name: str) -> None:
    family.start()
    assert family.reached(*MEMBERS)
    os.kill(family.pid, number)
    assert poll((family.folder / "result").exists, LIMIT), marked(family.mark)
    # Nobody but the parent is left at the moment when the call raises.
    assert set(marked(family.mark)) <= {family.pid}
    assert family.gone(READY)
    assert family.result() == name


def test_parent_interrupted_again_while_it_waits(family: Family) -> None:
    family.start()
    assert family.reached(*MEMBERS)
    os.kill(family.pid, signal.SIGINT)
    # A deaf child holds the supervisor up for a while; the command itself is the first to go.
    assert poll(lambda: len(marked(family.mark)) < 3 + len(MEMBERS), LIMIT)
    os.kill(family.pid, signal.SIGINT)
    assert family.gone(), marked(family.mark)
    assert family.result() == "KeyboardInterrupt"


def test_whole_group_of_the_parent_interrupted(family: Family) -> None:
    """A terminal's Ctrl-C: the command must get SIGTERM from us, not SIGINT from the terminal."""
    script = "trap 'touch int' INT; trap 'touch term; exit 0' TERM; touch shell; sleep 300 & wait"
    family.start(script)
    assert family.reached("shell")
    os.killpg(family.pid, signal.SIGINT)
    assert family.gone(), marked(family.mark)
    assert (family.folder / "term").exists()
    assert not (family.folder / "int").exists()


@pytest.mark.parametrize("which", ["outer", "inner", "both"])
def test_supervisor_killed(family: Family, which: str) -> None:
    script = "touch shell; exec sleep 300" if which == "both" else TREE
    family.start(script)
    assert family.reached("shell" if which == "both" else "daemon")
    outer, inner = family.supervisors()
    victims = {"outer": [outer], "inner": [inner], "both": [outer, inner]}[which]
    stop(*victims)  # so that neither sees the other's death
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    # The direct child is killed by its parent-death signal; with one supervisor left, all are.
    assert family.gone(), marked(family.mark)
    assert int(family.result()) < 0


@pytest.mark.parametrize("which", [0, 1], ids=["outer", "inner"])
def test_supervisor_told_to_end(family: Family, which: int) -> None:
    family.start()
    assert family.reached(*MEMBERS)
    os.kill(family.supervisors()[which], signal.SIGTERM)
    assert family.gone(), marked(family.mark)
    assert int(family.result()) < 0


def test_both_supervisors_killed_does_not_hang_the_parent(family: Family) -> None:
    family.start("setsid sh -c 'touch session; exec sleep 300' & touch shell; wait")
    assert family.reached("shell", "session")
    stop(*(victims := family.supervisors()))
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    # Nobody is left to find the one in a session of its own: the fixture ends it.
    assert poll((family.folder / "result").exists, LIMIT)
    assert family.result() == "-9"


def test_parent_killed_while_the_supervisor_starts(family: Family) -> None:
    """Kill at 24 moments between the fork and the running command."""
    for step in range(24):
        (family.folder / "parent").unlink(missing_ok=True)
        family.start("setsid sleep 300 & sleep 300")
        time.sleep(step * 0.004)
        os.kill(family.pid, signal.SIGKILL)
        assert family.gone(), (step, marked(family.mark))
    assert not (family.folder / "result").exists()
