#!/usr/bin/env python3
"""What `dlcontainer validate --static` of an image costs: seconds, and memory of its own.

Beside it, in turns, another program reads each byte of the image once (`cat`): the ratio says how
much of the image had to be read, on any disk. Memory is what is not mapped from files (RssAnon of
/proc, looked at every 10 ms: shorter peaks are missed), and the most with mapped files (ru_maxrss).
That of unsquashfs, which reads a SIF, is none of it.

    python benchmarks/static_validation.py IMAGE... [--site local] [-n 5] [--json]
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from benchmarks.sampling import (
    Row,
    Samples,
    as_json,
    describe,
    interleave,
    machine_facts,
    ratio,
    spread,
    table,
)

_ANONYMOUS = re.compile(r"^RssAnon:\s+(\d+) kB", re.MULTILINE)
_FOUND = (0, 1)  # 1: it found errors


def validation(image: Path, site: str, memory: dict[str, list[float]]) -> Callable[[], float]:
    """Return an action that validates an image; its memory in MB is noted."""
    argv = ["dlcontainer", "validate", str(image), "--site", site, "--static", "--json"]

    def action() -> float:
        start, anonymous = time.perf_counter(), 0.0
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                text = Path(f"/proc/{process.pid}/status").read_text()
                match = _ANONYMOUS.search(text)
                anonymous = max(anonymous, int(match[1]) / 1000 if match else 0)
                time.sleep(0.01)
            seconds = time.perf_counter() - start
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in _FOUND:
            raise SystemExit(f"`{' '.join(argv)}` ended with {process.returncode}")
        memory.setdefault("own", []).append(anonymous)
        memory.setdefault("with mapped files", []).append(usage.ru_maxrss / 1000)
        return seconds

    return action


def reading(image: Path) -> Callable[[], float]:
    """Return an action that reads each file once."""
    files = [image] if image.is_file() else [path for path in image.rglob("*") if is_plain(path)]
    names = b"\0".join(os.fsencode(path) for path in files)

    def action() -> float:
        start = time.perf_counter()
        argv = ["xargs", "-0", "cat", "--"]
        subprocess.run(argv, input=names, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    return action


def is_plain(path: Path) -> bool:
    """Return whether a path is a file by itself."""
    return path.is_file() and not path.is_symlink()


def size_gb(image: Path) -> float:
    """Return an image's size, or that of its files."""
    paths = [image] if image.is_file() else [path for path in image.rglob("*") if is_plain(path)]
    return sum(path.stat().st_size for path in paths) / 1e9


def rows(image: Path, samples: Samples, memory: dict[str, list[float]]) -> list[Row]:
    """Set an image's figures as lines."""
    ours, theirs = spread(samples["validate"]), spread(samples["cat"])
    what = f"{image.name}, {size_gb(image):.2f} GB"
    times = Row(
        what=f"{what}: seconds, and a `cat` of it",
        ours=f"{ours.median:.2f}",
        theirs=f"{theirs.median:.2f}",
        value=ratio(samples["validate"], samples["cat"]),
    )
    return [
        times,
        *(
            Row(what=f"{what}: memory, {kind}", ours="", theirs="", value=spread(mb), unit=" MB")
            for kind, mb in memory.items()
        ),
    ]


def main() -> None:
    """Measure each image; print a table, or JSON with all samples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE")
    parser.add_argument("--site", default="local")
    parser.add_argument("-n", type=int, default=5, help="rounds, after one that is thrown away")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    facts = machine_facts()
    lines: list[Row] = []
    kept: dict[str, object] = {}
    for image in given.images:
        memory: dict[str, list[float]] = {}
        actions = {"validate": validation(image, given.site, memory), "cat": reading(image)}
        samples = interleave(actions, rounds=given.n, seed=1)
        lines += rows(image, samples, memory)
        kept[str(image)] = {**samples, "memory_mb": memory}
    if given.json:
        print(as_json("static-validation", facts, lines, rounds=given.n, samples=kept))
        return
    print(describe(facts))
    print(table(lines, sides=("validate", "cat")))


if __name__ == "__main__":
    main()
