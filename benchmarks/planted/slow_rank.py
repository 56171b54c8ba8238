#!/usr/bin/env python3
"""Slow down one rank, wherever it is started: stopped for a quarter of the time, until it is ended.

    slow_rank.py RANK

The rank is known by PALS_RANKID in its environment, so it must be a process of your own on this
machine; hosts of `lab slownet` are. planted_limits.py plants a slow host by it.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

STOPPED_S, RUNNING_S = 0.01, 0.03
LOOK_S = 0.5


def ranks(number: str) -> list[int]:
    """Return the processes that are this rank's, those of its container included."""
    wanted, found = f"PALS_RANKID={number}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def send(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def main() -> None:
    """Stop and go, and look for new processes twice a second."""
    # Of a shell's background process Ctrl-C is ignored, and what it starts inherits that.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    processes, looked = ranks(sys.argv[1]), time.monotonic()
    try:
        while True:
            send(processes, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            send(processes, signal.SIGCONT)
            time.sleep(RUNNING_S)
            if time.monotonic() - looked > LOOK_S:
                processes, looked = ranks(sys.argv[1]), time.monotonic()
    except KeyboardInterrupt:
        send(processes, signal.SIGCONT)


if __name__ == "__main__":
    main()
