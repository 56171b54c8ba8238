"""The train probe: a small residual network on synthetic data, with the framework that is asked for.

Prints one JSON object. Wall time is that of all steady steps together, the device idle at both
ends: a median step would hide stragglers. Python >= 3.6.

Each framework has a file of its own, training_NAME.py, with a class Trainer: made from the options,
it trains a step, waits until its device is idle, gives a clock and the losses. The networks are the
same, layer by layer; weights and data come from each framework's own generator, so their losses are
not to be compared with each other.
"""

import argparse
import importlib
import json
import os
import resource
import time

SCHEMA = "dlcontainer/probe/1"
FRAMEWORKS = ("torch", "tensorflow", "mxnet")
CLASSES = 10
# device -> batch, image side, width of the first stage: a step of some 20 ms on either
SIZES = {"cpu": (16, 32, 8), "cuda": (256, 64, 64)}
BATCHES = 8  # made before the clock starts, used in turn
RATE, MOMENTUM = 0.02, 0.9


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe train")
    parser.add_argument("--framework", choices=FRAMEWORKS, default="torch")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    for name in ("--batch", "--size", "--width"):
        parser.add_argument(name, type=int, default=0, help="0: the device's usual one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(arguments)


def settle_sizes(wanted, device):
    """Fill in what the options left to the device."""
    batch, size, width = SIZES[device]
    wanted.batch, wanted.size = wanted.batch or batch, wanted.size or size
    wanted.width = wanted.width or width


def stages(width):
    """Give the stages after the stem: input channels, output channels, stride; two blocks each."""
    return ((width, width, 1), (width, 2 * width, 2), (2 * width, 4 * width, 2))


class Clock(object):
    """Times of steps by this process's clock: for devices that are idle after a step."""

    def __init__(self):
        self.marks = []

    def mark(self):
        """Mark the end of a step (first: the begin of all)."""
        self.marks.append(time.perf_counter())

    def steps_s(self):
        """Give each step's time, s; the device must be idle."""
        return [b - a for a, b in zip(self.marks, self.marks[1:])]


def cpu_seconds():
    """Give this process's CPU time, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(trainer, wanted):
    """Train; give the values and the steps' times."""
    clock = trainer.clock()
    for number in range(wanted.warmup):
        trainer.step(number)
    trainer.settle()
    cpu, begin = cpu_seconds(), time.perf_counter()
    clock.mark()
    for number in range(wanted.steps):
        trainer.step(wanted.warmup + number)
        clock.mark()
    trainer.settle()
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    steps = clock.steps_s()
    values = {
        "wall_s": wall,
        "cpu_s_per_step": cpu / wanted.steps,
        "step_p50_s": quantile(steps, 0.5),
        "step_p95_s": quantile(steps, 0.95),
    }
    return values, steps


def quantile(values, share):
    """Give the smallest value with at least this share at or below it (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


def run(arguments, first_line_ns):
    """Train and print the report."""
    wanted = options(arguments)
    inside = os.environ.pop("DLC_PROBE_INSIDE", "")
    trainer = importlib.import_module("training_" + wanted.framework).Trainer(wanted)
    values, steps = measure(trainer, wanted)
    import attest

    usage = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "max_rss_mb": usage.ru_maxrss / 1024.0,
        "samples_per_s": wanted.batch * wanted.steps / values["wall_s"],
    }
    counts.update(trainer.counts())
    workload = dict(vars(wanted), device=trainer.device, precision="fp32")
    del workload["framework"]  # the stack names it, with its version
    body = {
        "schema": SCHEMA,
        "probe": "train",
        "ok": True,
        "error": None,
        "workload": workload,
        "stamps_ns": {
            "inside": int(inside) if inside.isdigit() else None,
            "python": first_line_ns,
        },
        "values": values,
        "counts": counts,
        "steps_s": [round(step, 6) for step in steps],
        "losses": trainer.losses(),
        "stack": attest.stack(trainer.framework),
    }
    print(json.dumps(body, sort_keys=True))
