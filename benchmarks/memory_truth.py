"""Rows of benchmarks/memory_forecast.py by a Python with torch: foretold, and of real steps.

PYTHON benchmarks/memory_truth.py predict|measure ROWS   (RANK, WORLD_SIZE, MASTER_* for ranks)

ROWS is JSON: [network, batch, optimizer, strategy], all of one number of ranks. A real step trains
on the CPU, and its peak is that of the allocator's own events. Needs nothing of dlcontainer but its
probe's folder; prints a JSON object for each row.
"""

import sys
from argparse import Namespace
from pathlib import Path

# In place of this folder, which has a module of the name of one of Python's.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "dlcontainer" / "probe")

import json
import os
import tempfile
import time
import warnings
from typing import Any

# Steps whose peaks are read, and how a trace names them.
_STEPS, _MARK = 4, "a step that is read"


def main(what: str, rows: list[Any]) -> None:
    """Print the peak of each row, bytes."""
    import parallel_axes  # type: ignore[import-not-found]
    import torch  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name, batch, optimizer, strategy in rows:
        wanted = Namespace(
            workload=name, batch=batch, optimizer=optimizer, device="cpu", precision="fp32"
        )
        wanted.micro_batches, wanted.script = 0, ""
        begin = time.process_time()
        if what == "predict":
            import memory_step  # type: ignore[import-not-found]

            said = memory_step.row(torch, wanted, strategy)
        else:
            axes = parallel_axes.Axes(strategy)
            if axes.ranks > 1 and not torch.distributed.is_initialized():
                torch.distributed.init_process_group("gloo")
            peaks = _measured(torch, wanted, axes)
            said = {"peak": min(peaks), "most": max(peaks)}
        said["processor_s"] = time.process_time() - begin
        print(json.dumps(said), flush=True)
    if what == "measure" and torch.distributed.is_initialized():
        torch.distributed.barrier()


def _measured(torch: Any, wanted: Namespace, axes: Any) -> list[int]:
    """Train some steps; return the peak of each after the second."""
    import memory_build  # type: ignore[import-not-found]
    import parallel_torch  # type: ignore[import-not-found]
    import precision_torch  # type: ignore[import-not-found]

    network = memory_build.published(torch, wanted)
    count, net = 2 * axes["pp"] if axes["pp"] > 1 else 1, None
    if not axes.is_plain:
        mesh, rank = parallel_torch.mesh(axes, "cpu"), int(os.environ["RANK"])
        net = parallel_torch.Parallel(
            torch,
            network.model,
            network.loss,
            mesh,
            axes,
            axes.at(rank),
            "cpu",
            count,
            wanted.workload,
        )
        net.rebind(network.optimizer)
    model = net.model if net else network.model
    sample = (network.inputs, network.targets)
    base = sum(map(_size, [*model.parameters(), *model.buffers(), *sample]))
    is_copied, made = axes.is_plain and axes.ranks > 1, [model]

    def begin() -> None:
        # The profile is told no end of what began before it: buckets that are made again are its.
        if is_copied:
            made[0] = torch.nn.parallel.DistributedDataParallel(model)

    def step() -> None:
        network.optimizer.zero_grad()
        if net is not None:
            net.passes(*sample, precision_torch.Whole())
        else:
            network.loss(made[0](network.inputs), network.targets).backward()
        network.optimizer.step()

    return [base + peak for peak in _peaks(torch, begin, step)]


def _size(tensor: Any) -> int:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.untyped_storage().nbytes())


def _peaks(torch: Any, begin: Any, step: Any) -> list[int]:
    """Return the most bytes over those that were there before, in each step after the second.

    They differ where ranks send: a thread of gloo lets go of its tensors when it gets a core.
    """
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        begin()
        step()
        step()
        for _ in range(_STEPS):
            with torch.profiler.record_function(_MARK):
                step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    begins = sorted(event["ts"] for event in events if event.get("name") == _MARK)
    memory = [event for event in events if event.get("name") == "[memory]"]
    now, peaks = 0, [0] * len(begins)
    for event in sorted(memory, key=lambda event: event["ts"]):
        now += event["args"]["Bytes"]
        step_number = sum(event["ts"] >= one for one in begins) - 1
        if step_number >= 0:
            peaks[step_number] = max(peaks[step_number], now)
    return peaks


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
