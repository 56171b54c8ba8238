#!/usr/bin/env python3
"""What Kineto costs an operation of PyTorch, and whether `bench trace`'s interval holds the truth.

PYTHON, one with PyTorch, trains a small network on a CPU: steps without the profiler, as many with
it, as many without; with the sizes of operations, without sizes, and without operations (as
`bench trace --no-operations`) in turn, a process each. Said is the processor time that an operation
costs more, in the median over the rounds, and by how much a step is longer. Then the steps that
nothing traced are cut into three blocks, over and over: an interval of the overhead should hold 0.

    python benchmarks/trace_cost.py PYTHON [--steps 200] [--rounds 5] [--json]
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
sys.path.insert(0, str(HERE.parent))

from statistics import fmean, median

from dlcontainer.bench.trace import overhead
from dlcontainer.bench.trace.process_trace import ProcessHead, ProcessTrace, StepLine

PROGRAM = """\
import json, sys, time
import torch
from torch import nn, profiler
from torch.autograd import profiler as inner

steps, kind = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))

def block():
    times = []
    for _ in range(steps):
        begin = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
        times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return times

block()
before = block()
if kind == "none":
    enable, scopes = inner._enable_profiler, {torch._C._profiler.RecordScope.USER_SCOPE}
    inner._enable_profiler = lambda *words: enable(*words, scopes)
activities = profiler.supported_activities()
kineto = profiler.profile(activities=activities, record_shapes=kind != "names")
kineto.start()
traced = block()
kineto.stop()
count = len(kineto.events()) / steps
print(json.dumps({"blocks": [before, traced, block()], "operations": count}))
"""


KINDS = {"sizes": "with sizes", "names": "without sizes", "none": "without operations"}


def run(python: str, steps: int, kind: str) -> dict[str, Any]:
    """Run the program to its end."""
    argv = [python, "-c", PROGRAM, str(steps), kind]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def cost_us(trial: dict[str, Any], operations: float) -> float:
    """Return the processor time that the profiler takes an operation, µs."""
    before, traced, after = ([step[1] for step in block] for block in trial["blocks"])
    more: float = median(traced) - fmean((median(before), median(after)))
    return 1e6 * more / operations


def longer(trial: dict[str, Any]) -> float:
    """Return a step's processor time with the profiler, over that without."""
    before, traced, after = (median(step[1] for step in block) for block in trial["blocks"])
    ratio: float = traced / fmean((before, after))
    return ratio


def held(times: Sequence[float], steps: int) -> list[bool]:
    """Tell of each cut of untraced steps into three blocks whether the interval holds 0."""
    head = ProcessHead.model_validate(
        {"schema": "dlcontainer/trace-process/1", "node": "n", "boot": "b", "pid": 1}
        | {"rank": 0, "ranks": 1, "torch": "2"}
    )
    told = []
    for first in range(0, len(times) - 3 * steps + 1, steps // 2):
        lines = [
            StepLine(step=1 + i, block=i // steps, at=1.0, s=times[first + i])
            for i in range(3 * steps)
        ]
        trace = ProcessTrace(path=Path(), head=head, steps=lines, profiles={}, end="complete")
        cost = overhead.of([trace])
        if cost.low is not None and cost.high is not None:
            told.append(cost.low <= 1 <= cost.high)
    return told


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    trials = [
        (kind, run(given.python, given.steps, kind)) for _ in range(given.rounds) for kind in KINDS
    ]
    operations = fmean(float(trial["operations"]) for name, trial in trials if name == "sizes")
    costs = {
        kind: sorted(cost_us(trial, operations) for name, trial in trials if name == kind)
        for kind in KINDS
    }
    ratios = {kind: sorted(longer(t) for name, t in trials if name == kind) for kind in KINDS}
    untraced = [[s[0] for s in trial["blocks"][n]] for _, trial in trials for n in (0, 2)]
    holds = {
        steps: [hold for times in untraced for hold in held(times, steps)] for steps in (12, 30)
    }
    if given.json:
        load = os.getloadavg()[0]
        print(json.dumps({"cost_us": costs, "step": ratios, "held": holds, "load": load}))
        return
    print(f"load {os.getloadavg()[0]:.1f}, {operations:.0f} operations")
    for kind, words in KINDS.items():
        us, ratio = costs[kind], ratios[kind]
        print(
            f"{words}: {median(us):.1f} us an operation [{us[0]:.1f}, {us[-1]:.1f}], "
            f"a step {median(ratio):.2f} [{ratio[0]:.2f}, {ratio[-1]:.2f}]"
        )
    for steps, told in holds.items():
        if told:
            print(f"--steps {steps}: 0 is held in {100 * fmean(told):.0f} % of {len(told)} cuts")


if __name__ == "__main__":
    main()
