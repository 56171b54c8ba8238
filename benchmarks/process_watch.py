#!/usr/bin/env python3
"""What the watch of `bench trace` costs a rank's program: runs with it and without, interleaved.

A program computes a fixed number of sums beside threads that sleep, as a pool of OpenMP does. It is
started by the clock of a rank with its watch and without, in pairs whose order is drawn, and says
how long the sums took, by the clock and of the processor. Said are the ratios of a run with the
watch to one without, in the median with quartiles, and the share of a processor that the watch took
by its own account. With `--cores 1` program and watch share a core: the most that it can cost.

    python benchmarks/process_watch.py [--pairs 20] [--threads 16] [--seconds 2] [--cores 1]
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))

import statistics

from dlcontainer.bench.job import trace_hook
from dlcontainer.bench.job.scripts import CLOCK
from dlcontainer.config.resources import PROBE

PROGRAM = """
import sys, threading, time
for _ in range(int(sys.argv[2])):
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
begun, spent = time.perf_counter(), time.process_time()
for _ in range(int(sys.argv[1])):
    sum(range(100000))
told = (time.perf_counter() - begun, time.process_time() - spent)
open(sys.argv[3], "w").write("%r %r" % told)
"""


def run(folder: Path, verb: str, rounds: int, threads: int) -> list[float]:
    """Run the program below a clock; return the seconds of its sums, and of the processor."""
    told = folder / "seconds"
    clock = [sys.executable, "-I", "-S", str(CLOCK), verb, str(folder), "MARK", "", "", "--"]
    program = [sys.executable, "-I", "-S", "-c", PROGRAM, str(rounds), str(threads), str(told)]
    subprocess.run([*clock, *program], check=True)
    return [float(word) for word in told.read_text().split()]


def share(folder: Path) -> float:
    """Return what the watches took of a processor, by their own account."""
    bodies = [json.loads(path.read_text()) for path in (folder / "trace").glob("*.watch")]
    spent, passed = (sum(body[key] for body in bodies) for key in ("own_cpu_s", "seconds"))
    return float(spent / passed)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: chosen.cores])
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "trace").mkdir()
        (folder / "watch").mkdir()
        for source in trace_hook.WATCH_FILES:
            shutil.copyfile(PROBE / source, folder / "watch" / source)
        rounds = round(chosen.seconds / run(folder, "rank", 100, chosen.threads)[1] * 100) or 1
        ratios = []
        for _ in range(chosen.pairs):
            order = draw.sample(["rank", "traced"], 2)
            times = {verb: run(folder, verb, rounds, chosen.threads) for verb in order}
            ratios.append([a / b for a, b in zip(times["traced"], times["rank"], strict=True)])
        own = share(folder)
    elapsed, spent = (statistics.quantiles(column, n=4) for column in zip(*ratios, strict=True))
    if chosen.json:
        print(json.dumps({"elapsed": elapsed, "processor": spent, "own": own}))
        return 0
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, of which {chosen.cores} used, load "
        f"{load:.1f}, Python {sys.version.split()[0]}, {chosen.threads} sleeping threads"
    )
    for what, (low, middle, high) in (("elapsed", elapsed), ("processor", spent)):
        print(f"{what}: ratio {middle:.4f} ({low:.4f} to {high:.4f}), {chosen.pairs} pairs")
    print(f"by its own account {100 * own:.2f} % of a processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
