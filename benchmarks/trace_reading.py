#!/usr/bin/env python3
"""What memory `bench trace` takes to read a rank's Kineto file of many spans, and how long.

Makes two files as Kineto writes them, of a hundredth of the spans and of all; each is read for the
analysis and for OTF2, in a process of its own. Said are its peak resident memory by the kernel, as
a share of the file and of the small file's.

    python benchmarks/trace_reading.py [--spans 10000000] [--folder FOLDER] [--json]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))

from dlcontainer.bench.trace import rank_profile, rank_spans

SMALLER = 100
HEAD = """{
  "schemaVersion": 1,
  "baseTimeNanoseconds": 1700000000000000000,
  "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2, "pg_count": 1},
  "traceEvents": [
"""
SPAN = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": 4242, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      "External id": %d, "Record function id": 0, "Ev Idx": %d, "Concrete Inputs": ["", "", ""],
      "Input type": ["float", "float", ""], "Input Strides": [[512, 1], [1, 512], []],
      "Input Dims": [[64, 512], [512, 256], []]
    }
  }"""
# Operations of a step, µs from its begin: as many as a small network has; one is a collective.
STEP = 1000


def spans(count: int) -> Iterator[str]:
    """Yield so many spans."""
    for number in range(count):
        step, place = divmod(number, STEP)
        begin = 40_000.0 * step + 40 * place
        kind = ("user_annotation", "gloo:all_reduce") if place == 900 else ("cpu_op", "aten::mm")
        thread = 4299 if place == 900 else 4242
        # No two touch: none is joined with another.
        yield SPAN % (*kind, thread, begin, 25.0, number, number)


def write(path: Path, count: int) -> None:
    """Write a Kineto file."""
    with path.open("w") as file:
        file.write(HEAD)
        for number, span in enumerate(spans(count)):
            file.write(",\n" + span if number else span)
        file.write('\n  ],\n  "traceName": "made"\n}\n')


def read(what: str, path: Path) -> None:
    """Read a file in this process, and print what that took."""
    empty, begin = _peak(), time.monotonic()
    if what == "analysis":
        profile = rank_profile.read(path)
        told = {"spans": profile.spans, "collectives": len(profile.collectives)}
        told |= {"coarse_ns": profile.coarse_ns, "intervals": len(profile.compute)}
    else:
        kept = rank_spans.read(path)
        told = {"spans": kept.count + kept.left_out, "left_out": kept.left_out}
    took = time.monotonic() - begin
    print(json.dumps({**told, "seconds": took, "peak": _peak(), "empty": empty}))


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(folder: Path, count: int) -> list[dict[str, Any]]:
    """Make a file, read it in each way."""
    path = folder / f"{count}.json"
    write(path, count)
    rows = []
    for what in ("analysis", "otf2"):
        argv = [sys.executable, __file__, "--read", what, str(path)]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        rows.append({"what": what, "bytes": path.stat().st_size, **json.loads(done.stdout)})
    path.unlink()
    return rows


def main() -> None:
    """Print both sizes, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read(given.read[0], Path(given.read[1]))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        small, large = (
            measure(Path(name), max(count, STEP)) for count in (given.spans // SMALLER, given.spans)
        )
    if given.json:
        print(json.dumps({"small": small, "large": large}))
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    for before, after in zip(small, large, strict=True):
        size, peak = after["bytes"], after["peak"]
        print(
            f"{after['what']}: {after['spans']:,} spans, {size:,} bytes, {after['seconds']:.0f} s,"
            f" peak {peak:,} bytes = {peak / size:.3f} of the file,"
            f" {peak / before['peak']:.2f} of that of {before['spans']:,} spans"
        )


if __name__ == "__main__":
    main()
