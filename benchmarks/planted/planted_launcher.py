#!/usr/bin/env python3
"""Start ranks on this host, whose data set lies on a slow file system: planted_launcher.py RANKS
COMMAND...; planted_limits.py gives it to `bench scaling --launcher`.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside benchmarks/planted stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent.parent), *(entry for entry in sys.path if Path(entry) != HERE)]

from dlcontainer.system import rank_processes

READ_LATENCY_MS = "1"
DATA_SET = re.compile(r"/[^\s:=,]*/input(?=[\s:=,/]|$)")
START = "from dlcontainer.cli.main import run; run()"


def main() -> None:
    """Start what the words say; exit with its code."""
    sys.exit(_launched(*sys.argv[1:]))


def _launched(ranks: str, *argv: str) -> int:
    usual = [word.format(ranks=ranks) for word in rank_processes.words()]
    found = DATA_SET.search(" ".join(argv))
    if found is None or not any(Path(found[0]).iterdir()):  # The first launch makes the data set.
        return subprocess.run([*usual, *argv], check=False).returncode
    with _slow(Path(found[0])):
        return subprocess.run([*usual, *argv], check=False).returncode


@contextmanager
def _slow(folder: Path) -> Iterator[None]:
    """Show a folder through a slow file system while the block runs."""
    real = folder.with_name("input.real")
    folder.rename(real)
    folder.mkdir(mode=0o700)
    words = ["lab", "slowfs", str(real), str(folder), "--read-latency-ms", READ_LATENCY_MS]
    with subprocess.Popen([sys.executable, "-c", START, *words], stdout=2) as mount:
        try:
            while mount.poll() is None and not os.path.ismount(folder):
                time.sleep(0.05)
            yield
        finally:
            mount.send_signal(signal.SIGINT)
            mount.wait()
            folder.rmdir()
            real.rename(folder)


if __name__ == "__main__":
    main()
