#!/usr/bin/env python3
"""How often do the calibration kernels refuse two sides that are the same?

A run is eight pairs of fresh processes of one Python, in an order drawn in fours, which only are
called native and container: a few seconds. Each process is the import probe with a module of the
standard library, so that its kernels run as in a session. What is counted is how many runs the
joint test of the gating kernels refuses, by the code and with the thresholds of a session of one
look, with the bound of Clopper and Pearson (95 %, one-sided). With --raw each run is a line of
a file, and a trial that was stopped goes on there.

    python benchmarks/calibration.py [-n 300] [--pairs 8] [--raw FILE] [--json]
"""

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))

from dlcontainer.bench.analysis import calibration
from dlcontainer.bench.analysis.calibration import KernelReading
from dlcontainer.bench.stats.counts import rate_not_excluded

PROBE = HERE.parent / "dlcontainer" / "probe"
KERNELS = ("integer", "bandwidth", "malloc", "syscall", "open")
AIM = 0.01
_TIMEOUT_S = 120


def launch() -> dict[str, float]:
    """Run one process; return its kernels' times."""
    argv = [sys.executable, "-S", str(PROBE), "import", "--module", "json"]
    env = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    begin = time.perf_counter()
    done = subprocess.run(
        argv, env=env, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S
    )
    values = json.loads(done.stdout.splitlines()[-1])["values"]
    found = {name: float(values[f"{calibration.PREFIX}{name}_s"]) for name in KERNELS}
    return found | {"process": time.perf_counter() - begin}


def run(pairs: int, draw: random.Random) -> dict[str, Any]:
    """Measure one run: each side's launches, pair by pair."""
    orders: list[bool] = []
    while len(orders) < pairs:
        block = [True, True, False, False]
        draw.shuffle(block)
        orders += block
    begin, load = time.perf_counter(), os.getloadavg()[0]
    sides: dict[str, list[dict[str, float]]] = {"native": [], "container": []}
    for is_first in orders[:pairs]:
        for side in sorted(sides, reverse=is_first):
            sides[side].append(launch())
    return {"seconds": time.perf_counter() - begin, "load": load, **sides}


def readings(found: Mapping[str, Any]) -> list[KernelReading]:
    """Judge one run."""
    return [
        calibration.compare(
            kernel,
            [process[kernel] for process in found["native"]],
            [process[kernel] for process in found["container"]],
            settled=calibration.DECLARED,
            looks=1,
        )
        for kernel in KERNELS
    ]


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Count what was refused, and say how the kernels scatter."""
    judged = [readings(found) for found in runs]
    gated = [[item for item in run if item.is_gate and item.differs] for run in judged]
    own = [[item for item in run if not item.is_gate and item.differs] for run in judged]
    refused = sum(map(bool, gated))
    # A run's interval has the width of a session of as many pairs.
    widths = {
        kernel: sorted(math.log(run[i].interval.high / run[i].interval.ratio) for run in judged)
        for i, kernel in enumerate(KERNELS)
    }
    return {
        "runs": len(runs),
        "refused": refused,
        "bound": rate_not_excluded(refused, len(runs)),
        "aim": AIM,
        "own_kernels_differ": sum(map(bool, own)),
        "half_width": {name: values[len(values) // 2] for name, values in widths.items()},
        "seconds_a_run": sum(found["seconds"] for found in runs) / len(runs),
        "load": [min(found["load"] for found in runs), max(found["load"] for found in runs)],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="False refusals of the calibration kernels.")
    parser.add_argument("-n", "--runs", type=int, default=300)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--raw", type=Path, default=Path(os.devnull))
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    runs = _done(wanted.raw)
    with wanted.raw.open("a") as file:
        while len(runs) < wanted.runs:
            runs.append(run(wanted.pairs, random.Random(f"{wanted.seed} {len(runs)}")))
            file.write(json.dumps(runs[-1]) + "\n")
            file.flush()
    found = summary(runs)
    if wanted.json:
        print(json.dumps(found))
    else:
        _say(found)
    return 0


def _done(path: Path) -> list[dict[str, Any]]:
    """Read what an earlier trial has measured; a line that was cut is measured again."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    if whole != lines:
        path.write_text("".join(whole))
    return [json.loads(line) for line in whole]


def _say(found: Mapping[str, Any]) -> None:
    print(
        f"{found['refused']} of {found['runs']} runs refused: at most "
        f"{100 * found['bound']:.2g} % (95 %); aim {100 * AIM:g} %"
    )
    print(f"other kernels beyond their threshold: {found['own_kernels_differ']} runs")
    widths = ", ".join(f"{name} {100 * w:.2g} %" for name, w in found["half_width"].items())
    print(f"half width of a run's interval, median: {widths}")
    low, high = found["load"]
    print(
        f"{found['seconds_a_run']:.1f} s a run; load {low:.1f} to {high:.1f}; {found['machine']}, "
        f"Python {found['python']}"
    )


if __name__ == "__main__":
    sys.exit(main())
