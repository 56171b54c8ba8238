"""Start ranks on the hosts of a `lab slownet`, or one command on one of them.

Run by path in the first host, through two words that lie on the command's PATH:

dlc-launch RANKS RANKS_PER_HOST COMMAND...   ranks in blocks, host by host, numbered as PALS does
dlc-on HOST COMMAND...                       one command on a host

A rank that ends badly is named; the others are ended when they have not ended GRACE_S later.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.lab.slownet import spaces
from dlcontainer.system.supervisor import follow

GRACE_S = 10.0
_LAST_S = 2.0
_PAUSE_S = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRank:
    """One rank: its number, its place on its host, the host's name and process."""

    number: int
    local: int
    host: str
    pid: int


def placed(ranks: int, per_host: int, hosts: Mapping[str, int]) -> list[HostRank]:
    """Lay ranks on hosts in blocks; raises ValueError where there are too few hosts."""
    if ranks < 1 or per_host < 1 or -(-ranks // per_host) > len(hosts):
        raise ValueError(f"{ranks} ranks at {per_host} per host do not fit on {len(hosts)} hosts")
    names = list(hosts)
    return [
        HostRank(
            number=number,
            local=number % per_host,
            host=names[number // per_host],
            pid=hosts[names[number // per_host]],
        )
        for number in range(ranks)
    ]


def _start(rank: HostRank, size: int, argv: list[str]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        follow(parent, signal.SIGKILL)
        spaces.enter(rank.pid)
        os.environ["PALS_RANKID"], os.environ["PALS_LOCAL_RANKID"] = (
            str(rank.number),
            str(rank.local),
        )
        os.environ["PALS_SIZE"] = str(size)
        os.execvp(argv[0], argv)  # noqa: S606 - no shell is what we want
    except OSError as error:
        _say(f"{argv[0]}: {error.strerror} (on {rank.host})")
    os._exit(127)


def _say(text: str) -> None:
    os.write(2, f"slownet: {text}\n".encode())


def launch(ranks: Sequence[HostRank], argv: list[str]) -> int:
    """Run a command on each rank; return the exit code of the first one that failed, else 0."""
    running = {_start(rank, len(ranks), argv): rank for rank in ranks}
    first, since, is_ending = 0, 0.0, False
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if pid else 0
        rank = running.pop(pid, None)
        if rank is not None and code and not first:
            how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
            _say(f"rank {rank.number} on {rank.host} ended with {how}")
            first, since = (code if code > 0 else 128 - code), time.monotonic()
        if not pid:
            time.sleep(_PAUSE_S)
        waited = time.monotonic() - since
        if first and waited > GRACE_S and not is_ending:
            is_ending = True
            ranks_left = ", ".join(str(rank.number) for rank in running.values())
            _say(f"ended {GRACE_S:g} s after it: ranks {ranks_left}")
            _signal(running, signal.SIGTERM)
        elif first and waited > GRACE_S + _LAST_S:
            _signal(running, signal.SIGKILL)
    return first


def _signal(running: dict[int, HostRank], number: int) -> None:
    for pid in running:
        os.kill(pid, number)


def main() -> None:
    """Read the words, `launch` or `on` first; exit with the command's code."""
    ready, what, *words = sys.argv[1:]
    hosts = json.loads(Path(ready).read_text())["hosts"]
    try:
        if what == "on":
            name, *argv = words
            ranks = [HostRank(number=0, local=0, host=name, pid=hosts[name])]
            spaces.enter(ranks[0].pid)
            os.execvp(argv[0], argv)  # noqa: S606 - no shell is what we want
        number, per_host, *argv = words
        ranks = placed(int(number), int(per_host), hosts)
    except (ValueError, KeyError, IndexError) as error:
        sys.exit(
            f"slownet: {error}; dlc-launch RANKS RANKS_PER_HOST COMMAND..., dlc-on HOST COMMAND..."
        )
    except OSError as error:
        sys.exit(f"slownet: {words}: {error.strerror}")
    sys.exit(launch(ranks, argv))


if __name__ == "__main__":
    main()
