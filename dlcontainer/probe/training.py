"""The train probe: a small residual network on synthetic data, PyTorch, CPU or GPU.

Prints one JSON object. Wall time is that of all steady steps together, the device idle at both
ends: a median step would hide stragglers. Python >= 3.6.
"""

import argparse
import json
import os
import resource
import sys
import time

SCHEMA = "dlcontainer/probe/1"
CLASSES = 10
# device -> batch, image side, width of the first stage: a step of some 20 ms on either
SIZES = {"cpu": (16, 32, 8), "cuda": (256, 64, 64)}
BATCHES = 8  # made before the clock starts, used in turn


def options(arguments):
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="probe train")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    for name in ("--batch", "--size", "--width"):
        parser.add_argument(name, type=int, default=0, help="0: the device's usual one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(arguments)


def network(torch, width):
    """Make a residual network: a stem, three stages of two basic blocks, a linear head."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inner, outer, stride):
            super(Block, self).__init__()
            self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.first_norm = nn.BatchNorm2d(outer)
            self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.second_norm = nn.BatchNorm2d(outer)
            self.short = None
            if stride != 1 or inner != outer:
                self.short = nn.Sequential(
                    nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer)
                )

        def forward(self, x):
            y = torch.relu(self.first_norm(self.first(x)))
            y = self.second_norm(self.second(y))
            return torch.relu(y + (x if self.short is None else self.short(x)))

    layers = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    inner = width
    for outer, stride in ((width, 1), (2 * width, 2), (4 * width, 2)):
        layers += [Block(inner, outer, stride), Block(outer, outer, 1)]
        inner = outer
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inner, CLASSES)]
    return nn.Sequential(*layers)


class Clock(object):
    """Times of steps: events on a GPU, which its queue is not stopped for; else the clock."""

    def __init__(self, torch, on_gpu):
        self.torch, self.on_gpu, self.marks = torch, on_gpu, []

    def settle(self):
        """Wait until the device is idle."""
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def mark(self):
        """Mark the end of a step (first: the begin of all)."""
        if self.on_gpu:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def steps_s(self):
        """Give each step's time, s; the device must be idle."""
        pairs = zip(self.marks, self.marks[1:])
        if self.on_gpu:
            return [a.elapsed_time(b) / 1e3 for a, b in pairs]
        return [b - a for a, b in pairs]


def cpu_seconds():
    """Give this process's CPU time, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(torch, wanted, device):
    """Train; give the values and the losses of all steps, warm-up included."""
    torch.manual_seed(wanted.seed)
    make = torch.Generator()
    make.manual_seed(wanted.seed + 1)
    shape = (wanted.batch, 3, wanted.size, wanted.size)
    # On the CPU, then moved: the same numbers on every device.
    images = [torch.randn(*shape, generator=make).to(device) for _ in range(BATCHES)]
    labels = [
        torch.randint(0, CLASSES, (wanted.batch,), generator=make).to(device)
        for _ in range(BATCHES)
    ]
    model = network(torch, wanted.width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    kept = []

    def step(number):
        optimizer.zero_grad()
        picked = number % BATCHES
        loss = torch.nn.functional.cross_entropy(model(images[picked]), labels[picked])
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())

    clock = Clock(torch, device != "cpu")
    for number in range(wanted.warmup):
        step(number)
    clock.settle()
    cpu, begin = cpu_seconds(), time.perf_counter()
    clock.mark()
    for number in range(wanted.steps):
        step(wanted.warmup + number)
        clock.mark()
    clock.settle()
    wall, cpu = time.perf_counter() - begin, cpu_seconds() - cpu
    steps = clock.steps_s()
    values = {
        "wall_s": wall,
        "cpu_s_per_step": cpu / wanted.steps,
        "step_p50_s": quantile(steps, 0.5),
        "step_p95_s": quantile(steps, 0.95),
    }
    return values, steps, [float(loss) for loss in kept]


def quantile(values, share):
    """Give the smallest value with at least this share at or below it (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, int(-(-share * len(ordered) // 1)) - 1))]


def run(arguments, first_line_ns):
    """Train and print the report."""
    wanted = options(arguments)
    inside = os.environ.pop("DLC_PROBE_INSIDE", "")
    import torch

    if wanted.threads:
        torch.set_num_threads(wanted.threads)
    has_gpu = torch.cuda.is_available()
    if wanted.device == "cuda" and not has_gpu:
        sys.exit("--device cuda: this PyTorch sees no GPU")
    device = "cuda" if has_gpu and wanted.device != "cpu" else "cpu"
    batch, size, width = SIZES[device]
    wanted.batch, wanted.size = wanted.batch or batch, wanted.size or size
    wanted.width = wanted.width or width
    values, steps, losses = measure(torch, wanted, device)
    import attest

    usage = resource.getrusage(resource.RUSAGE_SELF)
    counts = {
        "max_rss_mb": usage.ru_maxrss / 1024.0,
        "samples_per_s": wanted.batch * wanted.steps / values["wall_s"],
    }
    if device != "cpu":
        counts["device_memory_mb"] = torch.cuda.max_memory_allocated() / 1e6
    body = {
        "schema": SCHEMA,
        "probe": "train",
        "ok": True,
        "error": None,
        "workload": dict(vars(wanted), device=device, precision="fp32"),
        "stamps_ns": {
            "inside": int(inside) if inside.isdigit() else None,
            "python": first_line_ns,
        },
        "values": values,
        "counts": counts,
        "steps_s": [round(step, 6) for step in steps],
        "losses": losses,
        "stack": attest.stack(torch),
    }
    print(json.dumps(body, sort_keys=True))
