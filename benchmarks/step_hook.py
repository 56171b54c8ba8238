#!/usr/bin/env python3
"""What the hook of `bench job` costs in a step: loops with it and without, interleaved.

In one process an optimizer's step of a known length (`--step-ms`) runs in blocks with the hook's
stamp behind each step, and without, whose order is drawn in pairs. Said are the ratio of a block
with stamps to one without, in the median with its quartiles, and the processor time of one stamp
alone, from a loop of stamps. Needs no PyTorch, which itself adds a loop over its list of hooks.

    python benchmarks/step_hook.py [--step-ms 1] [--steps 200] [--pairs 60] [--json]
"""

import argparse
import importlib.util
import json
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
STAMPS = HERE.parent / "dlcontainer" / "probe" / "event_stamps.py"
STEP = "optimizer-step/0"

import statistics


def events(folder: str) -> Any:
    """Return a file of events, as the hook has one."""
    spec = importlib.util.spec_from_file_location("event_stamps", STAMPS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.EventFile(folder)


def block(steps: int, step_s: float, note: Callable[[str], None] | None) -> float:
    """Run a block of steps; return its seconds."""
    begun = time.perf_counter()
    for _ in range(steps):
        end = time.perf_counter() + step_s
        while time.perf_counter() < end:
            pass
        if note is not None:
            note(STEP)
    return time.perf_counter() - begun


def ratios(steps: int, step_s: float, pairs: int, note: Callable[[str], None]) -> list[float]:
    """Return the ratio of each pair of blocks: with stamps to without."""
    draw, found = random.Random(1), []
    for _ in range(pairs):
        order = draw.sample([None, note], 2)
        seconds = {each is not None: block(steps, step_s, each) for each in order}
        found.append(seconds[True] / seconds[False])
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--step-ms", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        note = events(folder).note
        found = ratios(chosen.steps, chosen.step_ms / 1000, chosen.pairs, note)
        begun, count = time.process_time(), 100_000
        for _ in range(count):
            note(STEP)
        alone = (time.process_time() - begun) / count
    low, middle, high = statistics.quantiles(found, n=4)
    if chosen.json:
        print(json.dumps({"ratio": middle, "low": low, "high": high, "stamp_s": alone}))
        return 0
    load = os.getloadavg()[0]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {sys.version[:6]}"
    )
    print(f"step of {chosen.step_ms:g} ms: ratio {middle:.5f} (quartiles {low:.5f} to {high:.5f})")
    print(f"one stamp alone: {1e6 * alone:.2f} µs of the processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
