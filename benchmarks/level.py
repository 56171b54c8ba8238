#!/usr/bin/env python3
"""What a level of zstd costs and saves: the tree of an image, packed at each level in one run.

Sizes are exact; times are processor time, which waits for nobody. A benchmark, not a test.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import (
    Row,
    Samples,
    as_json,
    describe,
    machine_facts,
    ratio,
    table,
)
from dlcontainer.engines.apptainer import LEVEL, squash
from dlcontainer.image import sif
from dlcontainer.system.machine import find_program

QUIET = ("-noappend", "-quiet", "-no-progress")


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder is removed then too
    sizes: dict[int, float] = {}
    samples: Samples
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name:
        tree, offset = Path(name) / "tree", sif.tree(options.image).offset
        unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(offset), "-d", str(tree)]
        processor_s([*unpack, str(options.image)])
        actions = {str(level): _packing(tree, level, sizes) for level in (LEVEL, *options.levels)}
        # Processor time needs no round that is thrown away, and a level of 15 takes minutes.
        samples = {level: [] for level in actions}
        for _ in range(options.n):
            for level, action in actions.items():
                samples[level].append(action())
    rows = [row for other in options.levels for row in _rows(other, samples, sizes)]
    facts = machine_facts()
    if options.json:
        more = {"rounds": options.n, "samples_s": samples, "sizes_mb": sizes}
        print(as_json("level", facts, rows, **more))
        return
    print(f"{describe(facts)}; {options.n} rounds, processor time\n")
    print(table(rows, sides=(f"level {LEVEL}", "other")))


def processor_s(argv: list[str]) -> float:
    """Run a command to its end; tell the processor time that it took, s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        raise SystemExit(f"`{' '.join(argv)}` ended with {done.returncode}:\n{said}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _packing(tree: Path, level: int, sizes: dict[int, float]) -> Callable[[], float]:
    target = tree.with_name(f"{level}.sqfs")

    def action() -> float:
        seconds = processor_s(["mksquashfs", str(tree), str(target), *QUIET, *squash(level)])
        sizes[level] = target.stat().st_size / 1e6
        target.unlink()
        return seconds

    return action


def _rows(level: int, samples: Samples, sizes: dict[int, float]) -> list[Row]:
    usual, other = samples[str(LEVEL)], samples[str(level)]
    return [
        Row(
            what=f"size: level {level} / {LEVEL}",
            ours=f"{sizes[LEVEL]:.1f} MB",
            theirs=f"{sizes[level]:.1f} MB",
            value=ratio([sizes[level]], [sizes[LEVEL]]),
        ),
        Row(
            what=f"packing: level {level} / {LEVEL}",
            ours=f"{median(usual):.1f} s",
            theirs=f"{median(other):.1f} s",
            value=ratio(other, usual),
        ),
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, help="an image of dlcontainer's (.sif)")
    parser.add_argument("--levels", nargs="+", type=int, default=[15], help="(default 15)")
    parser.add_argument("-n", type=int, default=1, help="rounds (default 1, which takes minutes)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where it packs (default /var/tmp)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    for program in ("mksquashfs", "unsquashfs"):
        if find_program(program, os.environ) is None:
            parser.error(f"no {program} on PATH")
    return options


if __name__ == "__main__":
    main()
