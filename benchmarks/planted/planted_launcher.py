#!/usr/bin/env python3
"""Start ranks with a planted limit; planted_limits.py gives it to `bench scaling --launcher`.

slow-host COMMAND...         one rank, on its own host: rank 1 is stopped for a quarter of the time
slow-files RANKS COMMAND...  ranks on this host, whose data set lies on a slow file system
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside benchmarks/planted stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent.parent), *(entry for entry in sys.path if Path(entry) != HERE)]

from dlcontainer.system import rank_processes

STOPPED_S, RUNNING_S = 0.01, 0.03
READ_LATENCY_MS = "1"
DATA_SET = re.compile(r"/[^\s:=,]*/input(?=[\s:=,/]|$)")
START = "from dlcontainer.cli.main import run; run()"


def main() -> None:
    """Start what the words say; exit with its code."""
    plant, *words = sys.argv[1:]
    sys.exit(_on_slow_host(words) if plant == "slow-host" else _on_slow_files(*words))


def _on_slow_host(argv: list[str]) -> int:
    with subprocess.Popen(argv, start_new_session=True) as process:
        while process.poll() is None:
            if os.environ["PALS_RANKID"] == "1":
                _signal(process, signal.SIGSTOP)
                time.sleep(STOPPED_S)
                _signal(process, signal.SIGCONT)
            time.sleep(RUNNING_S)
    return process.returncode


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _on_slow_files(ranks: str, *argv: str) -> int:
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
