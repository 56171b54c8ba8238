"""Start ranks as processes of this host, and end them together; a launcher where there is no MPI.

Run as a module it is that launcher: `python -I -m dlcontainer.system.rank_processes RANKS COMMAND
[ARGUMENT...]`. Ranks find their numbers as under HPE's PALS.

A rank that ends badly is named; the others are ended when they have not ended GRACE_S later.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlcontainer.system.supervisor import follow

GRACE_S = 10.0
_LAST_S = 2.0
_PAUSE_S = 0.02
_MOST = 4096


def _stay() -> None:
    """Enter no other host."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RankProcess:
    """One rank: its number, its place on its host, and how its process comes there."""

    number: int
    local: int
    host: str = ""
    enter: Callable[[], None] = _stay

    @property
    def place(self) -> str:
        """Say on which host it is; empty on this one."""
        return f" on {self.host}" if self.host else ""


def launch(ranks: Sequence[RankProcess], argv: Sequence[str], says: str) -> int:
    """Run a command on each rank; return the exit code of the first one that failed, else 0.

    What is said of ranks goes to stderr, behind the word `says`.
    """
    running = {_start(rank, ranks, argv, says): rank for rank in ranks}
    first, since, is_ending = 0, 0.0, False
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else 0
        rank = running.pop(pid, None)
        if rank is not None and code and not first:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            _say(says, f"rank {rank.number}{rank.place} ended with {how}")
            first, since = (code if code > 0 else 128 - code), time.monotonic()
        if not pid:
            time.sleep(_PAUSE_S)
        waited = time.monotonic() - since
        if first and waited > GRACE_S and not is_ending:
            is_ending = True
            ranks_left = ", ".join(str(rank.number) for rank in running.values())
            _say(says, f"ended {GRACE_S:g} s after it: ranks {ranks_left}")
            _signal(running, signal.SIGTERM)
        elif first and waited > GRACE_S + _LAST_S:
            _signal(running, signal.SIGKILL)
    return first


def _start(rank: RankProcess, ranks: Sequence[RankProcess], argv: Sequence[str], says: str) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        follow(parent, signal.SIGKILL)
        rank.enter()
        together = sum(neighbour.host == rank.host for neighbour in ranks)
        os.environ |= {
            "PALS_RANKID": str(rank.number),
            "PALS_SIZE": str(len(ranks)),
            "PALS_LOCAL_RANKID": str(rank.local),
            "PALS_LOCAL_SIZE": str(together),
        }
        os.execvp(argv[0], list(argv))  # noqa: S606 - no shell is what we want
    except OSError as error:
        _say(says, f"{argv[0]}: {error.strerror}{rank.place}")
    os._exit(127)


def _signal(running: dict[int, RankProcess], number: int) -> None:
    for pid in running:
        os.kill(pid, number)


def _say(says: str, text: str) -> None:
    os.write(2, f"{says}: {text}\n".encode())


def words() -> tuple[str, ...]:
    """Return the words of this launcher; `{ranks}` stands for the number of ranks."""
    return (sys.executable, "-I", "-m", "dlcontainer.system.rank_processes", "{ranks}")


def main() -> None:
    """Read the number of ranks and the command; exit with its code."""
    count, *argv = sys.argv[1:] or [""]
    if not count.isdecimal() or not 1 <= int(count) <= _MOST or not argv:
        sys.exit("ranks: give a number of ranks and a command")
    ranks = [RankProcess(number=number, local=number) for number in range(int(count))]
    sys.exit(launch(ranks, argv, "ranks"))


if __name__ == "__main__":
    main()
