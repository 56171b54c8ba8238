#!/usr/bin/env python3
"""Import from a native tree behind the stand-in for a shared file system, without and with a pack.

Two copies of the tree are made, and one is packed. Each launch has a fresh mount, so nothing of the
tree is in the client's memory. A benchmark, not a test.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import Row, as_json, describe, interleave, machine_facts, ratio, table
from benchmarks.squash_runs import timed
from dlcontainer.config import resources
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.process import ProcessRunner

PLAIN, PACKED = "plain", "packed"


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    facts, runner = machine_facts(), ProcessRunner(environ=dict(os.environ))
    with tempfile.TemporaryDirectory(prefix="dlcontainer-slow-") as name:
        work = Path(name)
        trees = {what: work / what for what in (PLAIN, PACKED)}
        for tree in trees.values():
            # As it is: links and times too.
            subprocess.run(["cp", "-a", str(options.prefix.resolve()), str(tree)], check=True)
        _pack(trees[PACKED], options.module, work)
        calls: dict[str, int] = {}
        actions = {
            what: _import(tree, options, runner, calls, what) for what, tree in trees.items()
        }
        samples = interleave(actions, rounds=options.n, seed=options.seed)
    rows = [
        Row(
            what=f"{PACKED} / {PLAIN}, {options.module} at {options.delay_ms:g} ms a call",
            ours=f"{median(samples[PLAIN]):.3g} s",
            theirs=f"{median(samples[PACKED]):.3g} s",
            value=ratio(samples[PACKED], samples[PLAIN]),
        )
    ]
    if options.json:
        print(as_json("slow-tree", facts, rows, samples=samples, calls=calls))
        return
    print(describe(facts))
    print(table(rows, sides=(PLAIN, PACKED)))
    print(f"calls of the last import: {', '.join(f'{k} {v:,}' for k, v in calls.items())}")


def _pack(tree: Path, module: str, work: Path) -> None:
    writer = resources.PROBE / "pack_modules.py"
    argv = [str(tree / "bin/python"), "-IB", str(writer), "--everywhere"]
    argv += ["--report", str(work / "pack.json"), module]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def _import(
    tree: Path,
    options: argparse.Namespace,
    runner: ProcessRunner,
    calls: dict[str, int],
    what: str,
) -> Callable[[], float]:
    def once() -> float:
        delay = Delay(operation_s=options.delay_ms / 1e3, read_s=options.delay_ms / 1e3)
        shown = StandIn(source=tree, delay=delay)
        point = tree.with_name(f"{what}-seen")
        point.mkdir(exist_ok=True)
        argv = [str(point / "bin/python"), "-B", "-c", f"import {options.module}"]
        with shown.mounted(point, runner):
            seconds, _ = timed(argv, _environment())
        counted = shown.counters.counted()
        calls[what] = counted.metadata + counted.reads
        shutil.rmtree(point, ignore_errors=True)
        return seconds

    return once


def _environment() -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "OMP_NUM_THREADS": "1"}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", type=Path, help="a virtual environment: a twin's tree")
    parser.add_argument("--module", default="torch", help="what is imported (default torch)")
    parser.add_argument("--delay-ms", type=float, default=1.0, help="of a call (default 1)")
    parser.add_argument("-n", type=int, default=6, help="rounds (default 6)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    return parser.parse_args()


if __name__ == "__main__":
    main()
