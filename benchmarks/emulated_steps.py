#!/usr/bin/env python3
"""One rank of held_out_steps.py: steps whose compute is a sleep and whose messages are gloo's.

Emulated compute: it tells of communication alone. Started by `dlc-launch` on each host with a
Python that has torch; takes the settings' file and the file for rank 0's rows. Imports nothing of
dlcontainer. A row's seconds are the slowest rank's, in the order of the repetitions.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


def main() -> None:
    """Run all operations and steps of the settings, rank 0 writes the rows."""
    torch = importlib.import_module("torch")
    distributed = importlib.import_module("torch.distributed")
    torch.set_num_threads(1)
    settings = json.loads(Path(sys.argv[1]).read_text())
    rank, size = int(os.environ["PALS_RANKID"]), int(os.environ["PALS_SIZE"])
    distributed.init_process_group(
        "gloo", init_method=f"tcp://n1:{settings['port']}", rank=rank, world_size=size
    )
    ranks = Ranks(torch, rank, size)
    rows = []
    for operation in settings["operations"]:
        seconds = ranks.timed(ranks.operation(operation), settings["repetitions"])
        rows.append({**operation, "seconds": seconds})
    for step in settings["steps"]:
        rows.append({**step, "seconds": ranks.timed(ranks.step(step), settings["repetitions"])})
    apart = ranks.apart(settings["alone_s"], settings["repetitions"])
    if rank == 0:
        Path(sys.argv[2]).write_text(json.dumps({"rows": rows, "apart_s": apart}))
    distributed.barrier()
    distributed.destroy_process_group()


class Ranks:
    """This rank's side of operations and steps."""

    def __init__(self, torch: Any, rank: int, size: int) -> None:
        """Make the groups of neighbours: of 4 ranks in pairs, inner ones and outer ones."""
        self.torch, self.distributed = torch, torch.distributed
        self.rank, self.size = rank, size
        self.inner = self.outer = None
        if size == 4:
            inner = [self.distributed.new_group(pair) for pair in ([0, 1], [2, 3])]
            outer = [self.distributed.new_group(pair) for pair in ([0, 2], [1, 3])]
            self.inner, self.outer = inner[rank // 2], outer[rank % 2]

    def timed(self, act: Callable[[], None], repetitions: int) -> list[float]:
        """Return the slowest rank's seconds of each repetition, after a warm-up."""
        act()
        times = []
        for _ in range(repetitions):
            self.distributed.barrier()
            begin = time.perf_counter()
            act()
            own = self.torch.tensor(time.perf_counter() - begin, dtype=self.torch.float64)
            self.distributed.all_reduce(own, op=self.distributed.ReduceOp.MAX)
            times.append(float(own))
        return times

    def apart(self, seconds: float, repetitions: int) -> list[list[float]]:
        """Return each rank's own seconds of a sleep, for each repetition."""
        rows = []
        for _ in range(repetitions):
            begin = time.perf_counter()
            time.sleep(seconds)
            own = self.torch.tensor([time.perf_counter() - begin], dtype=self.torch.float64)
            every = [self.torch.zeros_like(own) for _ in range(self.size)]
            self.distributed.all_gather(every, own)
            rows.append([float(other) for other in every])
        return rows

    def floats(self, size: float) -> Any:
        """Return an array of so many bytes."""
        return self.torch.ones(max(1, round(size / 4)))

    def operation(self, row: Mapping[str, Any]) -> Callable[[], None]:
        """Return one operation: an all-reduce, or a message to the next rank."""
        array, other = self.floats(row["bytes"]), self.floats(row["bytes"])

        def all_reduce() -> None:
            self.distributed.all_reduce(array)

        def send_recv() -> None:
            sent = self.distributed.isend(array, (self.rank + 1) % self.size)
            self.distributed.recv(other, (self.rank - 1) % self.size)
            sent.wait()

        return all_reduce if row["operation"] == "all_reduce" else send_recv

    def step(self, row: Mapping[str, Any]) -> Callable[[], None]:
        """Return a step by its strategy's axes: pp outermost, then dp or fsdp, tp innermost."""
        axes = row["axes"]
        if "pp" in axes:
            return self.pipelined(row)
        if "fsdp" in axes:
            return self.sharded(row)
        return self.whole(row)

    def whole(self, row: Mapping[str, Any]) -> Callable[[], None]:
        """Return a step without pipeline: tensor parallel within, buckets beside the backward."""
        axes, layers = row["axes"], row["layers"]
        both = len(axes) > 1
        # None is the group of all ranks.
        inner, outer = (self.inner, self.outer) if both else (None, None)
        size = row["gradient_bytes"] / row["buckets"]
        buckets = [self.floats(size) for _ in range(row["buckets"])]
        activation = self.floats(row["activation_bytes"])

        def passed(seconds: float, pieces: int) -> None:
            for _ in range(pieces):
                time.sleep(seconds / pieces)
                if "tp" in axes:
                    self.distributed.all_reduce(activation, group=inner)

        def act() -> None:
            compute, sent = row["rank_s"], []
            passed(compute / 3, 2 * layers)
            # Layers of a bucket: its all-reduce begins behind their backward pass.
            for bucket in buckets:
                passed(2 * compute / 3 / len(buckets), max(1, 2 * layers // len(buckets)))
                if "dp" in axes:
                    work = self.distributed.all_reduce(bucket, group=outer, async_op=True)
                    sent.append(work)
            for work in sent:
                work.wait()

        return act

    def sharded(self, row: Mapping[str, Any]) -> Callable[[], None]:
        """Return an fsdp step: parameters gathered a layer ahead, gradients scattered behind."""
        layers = row["layers"]
        part = self.floats(row["gradient_bytes"] / layers / self.size)
        gathered = self.torch.ones(len(part) * self.size)
        gradients, scattered = self.torch.ones(len(gathered)), self.torch.ones(len(part))

        def gather() -> Any:
            return self.distributed.all_gather_into_tensor(gathered, part, async_op=True)

        def act() -> None:
            compute, scatters = row["rank_s"], []
            for forward in (True, False):
                ahead = gather()
                for layer in range(layers):
                    ahead.wait()
                    if layer + 1 < layers:
                        ahead = gather()
                    time.sleep((1 if forward else 2) * compute / 3 / layers)
                    if not forward:
                        work = self.distributed.reduce_scatter_tensor(
                            scattered, gradients, async_op=True
                        )
                        scatters.append(work)
            for work in scatters:
                work.wait()

        return act

    def pipelined(self, row: Mapping[str, Any]) -> Callable[[], None]:
        """Return a step of a pipeline; with dp, gradients follow it; with tp, a stage has it."""
        axes, micro = row["axes"], row["micro_batches"]
        pure = axes == ["pp"]
        stages = self.size if pure else 2
        # pp is the outermost axis: rank = stage * 2 + place within the stage.
        stage = self.rank if pure else self.rank // 2
        apart = 1 if pure else 2
        activation, gradients = (
            self.floats(row["activation_bytes"]),
            self.floats(row["gradient_bytes"]),
        )
        seconds = row["rank_s"] / micro

        def passed(share: float) -> None:
            pieces = 2 * row["layers"] // stages if "tp" in axes else 1
            for _ in range(pieces):
                time.sleep(seconds * share / pieces)
                if "tp" in axes:
                    self.distributed.all_reduce(activation, group=self.inner)

        def act() -> None:
            sent, taken = [], self.floats(row["activation_bytes"])
            for forward in order(stage, stages, micro, row["schedule"]):
                before, behind = (-apart, apart) if forward else (apart, -apart)
                if 0 <= self.rank + before < self.size:
                    self.distributed.recv(taken, self.rank + before)
                passed(1 / 3 if forward else 2 / 3)
                if 0 <= self.rank + behind < self.size:
                    work = self.distributed.isend(activation.clone(), self.rank + behind)
                    sent.append(work)
            for work in sent:
                work.wait()
            if "dp" in axes:
                # The two ranks of a stage have the same part of the network.
                self.distributed.all_reduce(gradients, group=self.inner)

        return act


def order(stage: int, stages: int, micro: int, schedule: str) -> Iterator[bool]:
    """Yield a stage's passes, True for a forward pass."""
    first = micro if schedule == "gpipe" else min(micro, stages - stage)
    yield from [True] * first
    for number in range(micro):
        yield False
        if first + number < micro:
            yield True


if __name__ == "__main__":
    main()
