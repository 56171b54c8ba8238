#!/usr/bin/env python3
"""A rank of traced_forecast.py: data-parallel steps whose computing is a sleep (emulated).

A sleep stands in an operation of PyTorch's own, so a profiler sees it as computing. Settings are
JSON in the first argument; rank 0 writes the slowest rank's seconds of each step to the second.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

LAYERS, WARM_UP = 8, 3


@torch.library.custom_op("emulated::pause", mutates_args=())
def pause(inputs: torch.Tensor, seconds: float) -> torch.Tensor:
    """Sleep, and give a copy of what came in."""
    time.sleep(seconds)
    return inputs.clone()


class _Pass(torch.autograd.Function):
    """A layer's passes: a third of its time forward, the rest backward; its gradient is ones."""

    @staticmethod
    def forward(context: Any, inputs: torch.Tensor, weight: torch.Tensor, seconds: float) -> Any:
        context.save_for_backward(weight)
        context.seconds = seconds
        return pause(inputs, seconds / 3)

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (weight,) = context.saved_tensors
        taken = torch.ones_like(weight) if context.needs_input_grad[1] else None
        return pause(gradients[0], 2 * context.seconds / 3), taken, None


class _Layer(nn.Module):
    """Some parameters, whose passes take so long."""

    def __init__(self, count: int, seconds: float) -> None:
        super().__init__()
        self.weight, self.seconds = nn.Parameter(torch.zeros(count)), seconds

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return _Pass.apply(inputs, self.weight, self.seconds)


def main() -> None:
    """Train as the settings say, and write the steps' seconds."""
    torch.set_num_threads(1)
    settings = json.loads(sys.argv[1])
    rank, size = int(os.environ["PALS_RANKID"]), int(os.environ["PALS_SIZE"])
    address = f"tcp://n1:{settings['port']}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
    passes = settings["passes"]
    each = settings["bytes"] // 4 // LAYERS
    seconds = settings["rank_s"] / LAYERS / passes
    layers = nn.Sequential(*[_Layer(each, seconds) for _ in range(LAYERS)])
    for number, layer in enumerate(layers):
        layer.requires_grad_(number >= settings["frozen"])
    model = _wrapped(layers, settings)
    optimizer = torch.optim.SGD([p for p in layers.parameters() if p.requires_grad], lr=0.1)
    own = []
    for _ in range(WARM_UP + settings["steps"]):
        begin = time.perf_counter()
        for number in range(passes):
            _passed(model, is_last=number == passes - 1)
        if settings["behind"]:
            for parameter in layers.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        own.append(time.perf_counter() - begin)
    slowest = torch.tensor(own[WARM_UP:], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    if rank == 0:
        Path(sys.argv[2]).write_text(json.dumps(slowest.tolist()))
    dist.barrier()
    dist.destroy_process_group()


def _passed(model: nn.Module, *, is_last: bool) -> None:
    inputs = torch.ones(4, requires_grad=True)
    if is_last or not isinstance(model, nn.parallel.DistributedDataParallel):
        model(inputs).sum().backward()
        return
    with model.no_sync():
        model(inputs).sum().backward()


def _wrapped(layers: nn.Module, settings: dict[str, Any]) -> nn.Module:
    if settings["behind"]:
        return layers
    model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=settings["bucket_mb"])
    if settings["packed"]:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    return model


if __name__ == "__main__":
    main()
