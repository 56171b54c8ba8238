"""Find and end the real processes that a test started, wherever they have gone."""

import os
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

MARK = "DLCONTAINER_TEST_MARK"


def new_mark() -> str:
    """Give a value for the variable MARK: who has it in the environment belongs to the test."""
    return uuid.uuid4().hex


def marked(mark: str) -> dict[int, int]:
    """Find the living processes that started with this mark, and their parents."""
    found = {}
    variable = f"{MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX" and variable in (folder / "environ").read_bytes():
                    found[int(folder.name)] = int(parent)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
    return found


def left_of(mark: str, seconds: float = 60) -> dict[int, int]:
    """Wait until all with this mark have ended; give who has not, and their parents.

    For who has nobody that waits: what a killed shell had started ends a moment after it. Where
    the program under test promises that all have ended before itself, `marked` holds it to that.
    """
    poll(lambda: not marked(mark), seconds)
    return marked(mark)


def command_lines() -> list[str]:
    """Give the words of each process that runs, with spaces between them."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return lines


def poll(question: Callable[[], bool], seconds: float) -> bool:
    """Ask until the answer is yes, at most so long."""
    deadline = time.monotonic() + seconds
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def stop(*pids: int) -> None:
    """Stop processes, and wait until all stand still: a signal alone is only on its way."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    # All threads: one may run on while another has been stopped.
    stats = [stat for pid in pids for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    assert poll(lambda: all(_state(stat) == "T" for stat in stats), 60), pids


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]


def files_below(folder: Path, ending: str) -> list[Path]:
    """List the files below a folder whose path ends so, while another program writes there.

    Path.glob raises where a folder goes between two looks; os.walk passes over it.
    """
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return sorted(path for path in found if str(path).endswith(ending))


def kill_marked(mark: str) -> None:
    """Kill every process with this mark."""

    def none_left() -> bool:
        left = marked(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not left

    assert poll(none_left, 60)


def kill_servers(*folders: Path) -> None:
    """Kill what serves images below folders: an engine that is killed takes nothing down."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            served = (process / "fd/3").readlink()
            is_server = (process / "comm").read_text() == "squashfuse_ll\n"
            if is_server and any(served.is_relative_to(folder) for folder in folders):
                os.kill(int(process.name), signal.SIGKILL)
