"""How much slower a network's kernels are at a small local batch: samples a second, by batch.

Strong scaling keeps the global batch: of 256 samples four nodes have 64 each. A step has a part
that no batch makes shorter (the update of all parameters, the start of each kernel, threads that
have no sample). This measures it, on any machine with a PyTorch:

    PYTHON benchmarks/small_batches.py [--networks caffenet,alexnet] [--rounds 5] [--json FILE]

PYTHON is one that imports torch, such as an image's. The networks are the train probe's own, with
SGD with momentum, real compute. All batches of a network are timed once a round, in an order drawn
again for each; a ratio is of two times of the same round. Printed are its median and its range.
With one thread the seconds are processor time, which waits for no other work; with more they are
wall time, and threads that wait give their core away, else a busy machine is what is measured.
"""

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Not this folder: `statistics.py` of it would stand for Python's own.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]

from statistics import median

# The probe stands alone: it is put on the path as a launch in an image has it.
PROBE = HERE.parent / "dlcontainer" / "probe"
# The batches of Caffe's own examples, down to what eight nodes and more leave of them.
BATCHES = {
    "convnet": (100, 50, 25, 12, 6, 3),
    "caffenet": (256, 128, 64, 32, 16, 8, 4, 2, 1),
    "alexnet": (256, 128, 64, 32, 16, 8, 4, 2, 1),
    "googlenet": (64, 32, 16, 8, 4, 2, 1),
}
LEAST_S = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchTimes:
    """Seconds of a step at one batch, one a round; and of its update alone."""

    batch: int
    step_s: tuple[float, ...]
    update_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkTimes:
    """All batches of a network, the largest first, and the load as its rounds began and ended."""

    network: str
    batches: tuple[BatchTimes, ...]
    load: tuple[float, float]

    def efficiency(self, times: BatchTimes) -> tuple[float, float, float]:
        """Give samples a second against the largest batch's: the median and the range of rounds."""
        whole = self.batches[0]
        ratios = [
            (times.batch / step) / (whole.batch / large)
            for step, large in zip(times.step_s, whole.step_s, strict=True)
        ]
        return median(ratios), min(ratios), max(ratios)

    def fixed_share(self, batch: int, *, is_update_left_out: bool = False) -> float:
        """Return the share of a step at this batch that no smaller batch makes shorter.

        Of the line through the medians' seconds, each weighed as its relative error, up to it.
        """
        seconds = {
            row.batch: median(
                step - (update if is_update_left_out else 0.0)
                for step, update in zip(row.step_s, row.update_s, strict=True)
            )
            for row in self.batches
            if row.batch <= batch
        }
        fixed, sample = line(seconds)
        return max(0.0, fixed) / (max(0.0, fixed) + sample * batch)


def line(seconds: Mapping[int, float]) -> tuple[float, float]:
    """Return the least squares' fixed seconds and those of a sample, errors relative."""
    weights = {batch: 1 / time_s**2 for batch, time_s in seconds.items()}
    total = sum(weights.values())
    mean_batch = sum(weights[batch] * batch for batch in seconds) / total
    mean_s = sum(weights[batch] * time_s for batch, time_s in seconds.items()) / total
    spread = sum(weights[batch] * (batch - mean_batch) ** 2 for batch in seconds)
    both = sum(
        weights[batch] * (batch - mean_batch) * (time_s - mean_s)
        for batch, time_s in seconds.items()
    )
    sample = both / spread
    return mean_s - sample * mean_batch, sample


class Training:
    """A network of the probe with its optimizer; steps on noise."""

    def __init__(self, torch: Any, name: str) -> None:
        self._clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        sys.path.insert(0, str(PROBE))
        workloads = importlib.import_module("workloads_torch")
        facts = workloads.WORKLOADS[name]
        self._torch, self._shape, self._classes = torch, facts["cpu"]["shape"], facts["classes"]
        self._heads = workloads.HEADS
        torch.manual_seed(1)
        make = getattr(importlib.import_module(facts["module"]), name)
        self._model = make(self._shape[0], self._classes)
        self._optimizer = torch.optim.SGD(self._model.parameters(), 0.01, 0.9, weight_decay=5e-4)

    def timed(self, batch: int) -> tuple[float, float]:
        """Return the seconds of a step, and of its update: means over at least LEAST_S."""
        torch = self._torch
        images = torch.randn(batch, *self._shape)
        labels = torch.randint(0, self._classes, (batch,))
        self._step(images, labels)
        begin, updates, steps = self._clock(), 0.0, 0
        while steps == 0 or self._clock() - begin < LEAST_S:
            updates += self._step(images, labels)
            steps += 1
        return (self._clock() - begin) / steps, updates / steps

    def _step(self, images: Any, labels: Any) -> float:
        entropy = self._torch.nn.functional.cross_entropy
        logits = self._model(images)
        if isinstance(logits, tuple):
            heads = self._heads * sum(entropy(head, labels) for head in logits[1:])
            loss = entropy(logits[0], labels) + heads
        else:
            loss = entropy(logits, labels)
        self._optimizer.zero_grad()
        loss.backward()
        begin = self._clock()
        self._optimizer.step()
        return self._clock() - begin


def measured(torch: Any, name: str, batches: tuple[int, ...], rounds: int) -> NetworkTimes:
    """Time a network at all batches, in an order of its own each round, after a warm-up."""
    training, draw = Training(torch, name), random.Random(1)
    training.timed(min(batches))
    times: dict[int, list[tuple[float, float]]] = {batch: [] for batch in batches}
    load = os.getloadavg()[0]
    for _ in range(rounds):
        order = list(batches)
        draw.shuffle(order)
        for batch in order:
            times[batch].append(training.timed(batch))
    rows = tuple(
        BatchTimes(
            batch=batch,
            step_s=tuple(step for step, _ in pairs),
            update_s=tuple(update for _, update in pairs),
        )
        for batch, pairs in times.items()
    )
    return NetworkTimes(network=name, batches=rows, load=(load, os.getloadavg()[0]))


def lines(times: NetworkTimes) -> list[str]:
    """Write a network's table."""
    rows = [
        f"{times.network}: load {times.load[0]:.1f} to {times.load[1]:.1f}",
        "batch   samples/s   of the largest batch's   range of rounds   update's share",
    ]
    for row in times.batches:
        ratio, low, high = times.efficiency(row)
        step, update = median(row.step_s), median(row.update_s)
        rows.append(
            f"{row.batch:5d} {row.batch / step:11.1f} {ratio:12.3f} {'':12s}"
            f"[{low:.3f}, {high:.3f}] {100 * update / step:12.0f} %"
        )
    largest = times.batches[0].batch
    for batch in sorted({largest, min(largest, 8)}, reverse=True):
        whole, bare = times.fixed_share(batch), times.fixed_share(batch, is_update_left_out=True)
        rows.append(
            f"fixed, of a step at batch {batch}: {whole:.4f}; without the update: {bare:.4f}"
        )
    return rows


def main() -> None:
    """Measure, print, and write all times where a file is named."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--networks", default=",".join(BATCHES), help="names, with commas")
    parser.add_argument("--batches", help="the same ones for all networks, the largest first")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1, help="of the kernels")
    parser.add_argument("--json", type=Path, help="a file for each round's seconds")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    torch = importlib.import_module("torch")
    torch.set_num_threads(options.threads)
    capability = torch.backends.cpu.get_cpu_capability()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {capability}")
    done = []
    for name in options.networks.split(","):
        batches = (
            tuple(int(batch) for batch in options.batches.split(","))
            if options.batches
            else BATCHES[name]
        )
        done.append(measured(torch, name, batches, options.rounds))
        print("\n".join(["", *lines(done[-1])]), flush=True)
    if options.json:
        facts = {"torch": torch.__version__, "threads": torch.get_num_threads()}
        kept = {**facts, "cpu": capability, "networks": [asdict(times) for times in done]}
        options.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
