#!/usr/bin/env python3
"""What the train probe itself costs in a training step: with its clock and without, interleaved.

In one process the probe's own loop (a mark of the clock after each step) and a loop of bare steps
take turns, in blocks whose order is drawn in fours. The network is the probe's, or a step of a
known length that does nothing (`--idle`), which any Python can run. Said are the ratios of a block
with marks to one without, of its wall time and of its processor time, each with its interval, and
the cost of one mark alone, from a loop of marks.

A block has one step unless told else: what disturbs a machine then disturbs both sides alike. It
has the mark of its begin too, so a mark is counted twice in a step: what is found is too much.

On a GPU (`--device cuda`) the marks are events in its queue, as in a session. `--raw` needs
nothing but PyTorch, so that a machine without dlcontainer can measure; `--of FILE` analyses its
output here.

    python benchmarks/probe_overhead.py [--prefix PREFIX] [--steps 1] [--pairs 2000] [--idle MS]
        [--device cpu|cuda] [--raw] [--of FILE]
"""

import argparse
import importlib
import json
import os
import platform
import random
import subprocess
import sys
import time
from math import log
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
PROBE = HERE.parent / "dlcontainer" / "probe"
AIM = 0.005


class Idle:
    """A trainer whose step takes a known time on the clock."""

    device = "cpu"
    framework = None

    def __init__(self, step_s: float) -> None:
        self.step_s = step_s

    def step(self, _number: int) -> None:
        """Burn the time of a step."""
        end = time.perf_counter() + self.step_s
        while time.perf_counter() < end:
            pass

    def settle(self) -> None:
        """Do nothing: the device is idle."""

    def clock(self) -> Any:
        """Return the processor's clock."""
        return importlib.import_module("probe_train").Clock()


def blocks(trainer: Any, steps: int, pairs: int, seed: int) -> list[dict[str, Any]]:
    """Time blocks of steps in pairs, one with the probe's marks and one without."""
    draw, number, found = random.Random(seed), 0, []
    orders: list[bool] = []
    while len(orders) < pairs:
        block = [True, True, False, False]
        draw.shuffle(block)
        orders += block
    for marked_first in orders[:pairs]:
        times: dict[bool, tuple[float, float]] = {}
        for marked in (marked_first, not marked_first):
            trainer.settle()
            clock = trainer.clock()
            begin, cpu = time.perf_counter(), time.process_time()
            if marked:
                # As probe_train.measure does it.
                clock.mark()
                for _ in range(steps):
                    trainer.step(number)
                    clock.mark()
                    number += 1
            else:
                for _ in range(steps):
                    trainer.step(number)
                    number += 1
            trainer.settle()
            times[marked] = (time.perf_counter() - begin, time.process_time() - cpu)
        found.append({"marked_first": marked_first, "with": times[True], "without": times[False]})
    return found


def mark_s(trainer: Any, number: int = 20_000) -> float:
    """Return the processor's time of one mark, s: the best of five loops."""
    best = float("inf")
    for _ in range(5):
        trainer.settle()
        clock = trainer.clock()
        begin = time.perf_counter()
        for _ in range(number):
            clock.mark()
        best = min(best, (time.perf_counter() - begin) / number)
    return best


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure in this process."""
    sys.path.insert(0, str(PROBE))
    probe_train = importlib.import_module("probe_train")
    if options.idle:
        trainer: Any = Idle(options.idle / 1e3)
    else:
        words = ["--framework", options.framework, "--threads", str(options.threads)]
        wanted = probe_train.options([*words, "--device", options.device])
        wanted.place, wanted.meeting = importlib.import_module("ranks").place(), None
        trainer = importlib.import_module(f"train_{options.framework}").Trainer(wanted)
    for number in range(10):
        trainer.step(number)
    found = blocks(trainer, options.steps, options.pairs, options.seed)
    return {
        "pairs": found,
        "mark_s": mark_s(trainer),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, "
        f"load {os.getloadavg()[0]:.1f}, {device_name(trainer)}",
    }


def device_name(trainer: Any) -> str:
    """Return the name of what the trainer trains on."""
    device = str(trainer.device)
    if not device.startswith("cuda"):
        return device
    return str(importlib.import_module("torch").cuda.get_device_name(trainer.device))


def analysed(found: dict[str, Any], steps: int) -> str:
    """Return the figures as lines of Markdown."""
    pairs = found["pairs"]
    step = sum(pair["without"][0] for pair in pairs) / len(pairs) / steps
    alone = found["mark_s"] / step
    lines = [
        f"machine: {found['machine']}, Python {found['python']}",
        f"a step: {step * 1e3:.3f} ms on average; {len(pairs)} pairs of blocks of {steps}",
        f"wall time, {ratio(pairs, 0)}",
        f"processor time, {ratio(pairs, 1)}",
        f"a mark alone: {found['mark_s'] * 1e9:.0f} ns, {alone:.5%} of such a step: "
        + ("less" if alone < AIM else "not less")
        + f" than {AIM:.1%}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def ratio(pairs: list[dict[str, Any]], which: int) -> str:
    """Return the words for the ratio of blocks with marks to those without, with its interval."""
    from dlcontainer.bench.stats import paired, regression
    from dlcontainer.bench.stats.differences import PairDifference

    differences = [
        PairDifference(
            number=number,
            d=log(pair["with"][which] / pair["without"][which]),
            candidate_first=pair["marked_first"],
        )
        for number, pair in enumerate(pairs, 1)
    ]
    found = paired.interval(regression.fit(differences), 0.95)
    bound = 1 + AIM
    word = "met" if found.high < bound else "missed" if found.low > bound else "not decided"
    return (
        f"with marks / without: {found.ratio:.5f} (95 % interval {found.low:.5f} to "
        f"{found.high:.5f}); less than {AIM:.1%}: {word}"
    )


def main() -> int:
    """Measure, in the Python of a prefix where one is given, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--prefix", type=Path, help="whose Python has the framework: a twin's tree")
    parser.add_argument("--framework", default="torch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1, help="of a block")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--idle", type=float, metavar="MS", help="a step that only takes time")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--raw", action="store_true", help="print what was measured, as JSON")
    parser.add_argument("--of", type=Path, metavar="FILE", help="analyse what --raw printed")
    options = parser.parse_args()
    if options.of:
        found = json.loads(options.of.read_text().splitlines()[-1])
    elif options.prefix:
        words = [word for word in sys.argv[1:] if word != "--raw"]
        at = words.index("--prefix") if "--prefix" in words else -1
        words = (
            words[:at] + words[at + 2 :] if at >= 0 else [w for w in words if "--prefix" not in w]
        )
        python = str(options.prefix / "bin" / "python")
        argv = [python, str(Path(__file__).resolve()), "--raw", *words]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
    else:
        found = measure(options)
    if options.raw:
        print(json.dumps(found))
        return 0
    sys.path.insert(0, str(HERE.parent))
    print(analysed(found, options.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
