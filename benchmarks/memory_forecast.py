"""The memory forecast against real steps: eight networks at two batches, FSDP2 and TP of 2 and 4.

PYTHON benchmarks/memory_forecast.py [--python PYTHON_WITH_TORCH] [--only NAME,…]

Predicted: the probe `memory`, one process without data. Measured: real steps of as many ranks on
this machine (gloo), by the allocator's events; the step of the least peak counts, the largest
stands beside it. Prints the machine's load beside each row.
"""

import sys

# This folder has a module of the name of one of Python's.
sys.path.pop(0)
import argparse
import json
import math
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# network, batch, optimizer, strategy; batches small enough for a laptop.
ROWS = [
    (name, batch, "adamw" if name in ("transformer", "deeplabv3plus") else "sgd", "dp1")
    for name, batches in {
        "convnet": (16, 64),
        "caffenet": (2, 8),
        "alexnet": (2, 8),
        "googlenet": (2, 4),
        "resnet50": (2, 8),
        "tiramisu": (1, 2),
        "deeplabv3plus": (2, 4),
        "transformer": (2, 16),
    }.items()
    for batch in batches
]
ROWS += [
    ("transformer", 8, "adamw", strategy)
    for strategy in ("dp2", "fsdp2", "fsdp4", "tp2", "tp4", "pp2", "fsdp2xtp2", "dp2xpp2")
]


def rows_said(python: str, what: str, rows: list[Any], environ: dict[str, str]) -> Any:
    """Start a process that says a line for each row."""
    argv = [python, str(HERE / "memory_truth.py"), what, json.dumps(rows)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ})


def parsed(text: str) -> list[dict[str, Any]]:
    """Read the lines that it said."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def measured(python: str, rows: list[Any], ranks: int) -> list[dict[str, int]]:
    """Train for real: the peaks of the rank that holds most, of its least and most step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meet = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    running = [
        rows_said(python, "measure", rows, {**meet, "RANK": str(rank)}) for rank in range(ranks)
    ]
    said = [parsed(process.communicate()[0]) for process in running]
    return [
        {key: max(rank[place][key] for rank in said) for key in ("peak", "most")}
        for place in range(len(rows))
    ]


def ranks_of(strategy: str) -> int:
    """Return the number of ranks of a strategy."""
    return math.prod(int(word.lstrip("dfpst")) for word in strategy.split("x"))


def main() -> None:
    """Print a row for each network, batch and strategy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=sys.executable, help="one with torch")
    parser.add_argument("--only", default="", help="networks or strategies, with commas between")
    wanted = parser.parse_args()
    only = set(filter(None, wanted.only.split(",")))
    chosen = [row for row in ROWS if not only or only & {row[0], row[3]}]
    print(
        "| network | batch | optimizer | strategy | predicted | measured | error "
        "| largest step | CPU s | load |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    worst = 0.0
    for ranks in sorted({ranks_of(row[3]) for row in chosen}):
        rows = [row for row in chosen if ranks_of(row[3]) == ranks]
        told = parsed(rows_said(wanted.python, "predict", rows, {}).communicate()[0])
        for row, foretold, real in zip(
            rows, told, measured(wanted.python, rows, ranks), strict=True
        ):
            error = 100 * (foretold["peak"] - real["peak"]) / real["peak"]
            worst = max(worst, abs(error))
            figures = (
                f"{foretold['peak']:,}", f"{real['peak']:,}", f"{error:+.2f} %",
                f"{real['most']:,}", f"{foretold['processor_s']:.1f}", f"{os.getloadavg()[0]:.1f}",
            )  # fmt: skip
            print(f"| {' | '.join(map(str, (*row, *figures)))} |", flush=True)
    print(f"largest error {worst:.2f} %")


if __name__ == "__main__":
    main()
