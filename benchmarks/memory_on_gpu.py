"""What a GPU holds beside the tensors that the memory forecast foretells: a basis for the reserve.

PYTHON_WITH_TORCH benchmarks/memory_on_gpu.py [--only NAME,…]     on a machine with a GPU, by path

For a few networks at two batches, in fp32 and bf16: foretold by the probe `memory` in a process
without device; then a real step's `max_memory_allocated` (tensors), `max_memory_reserved` (with the
allocator's gaps), and the device's memory in use after it, less that before (context, workspaces
too). Prints a row for each, then the least reserve (bytes and share) that covers all rows.
"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

# In place of this folder, which has a module of the name of one of Python's.
sys.path[0] = str(Path(__file__).resolve().parent.parent / "dlcontainer" / "probe")

import json
import subprocess
from typing import Any

ROWS = [
    ("resnet50", 32, "sgd"),
    ("resnet50", 128, "sgd"),
    ("googlenet", 128, "sgd"),
    ("deeplabv3plus", 1, "adamw"),
    ("deeplabv3plus", 2, "adamw"),
    ("transformer", 64, "adamw"),
    ("transformer", 256, "adamw"),
]
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    """Print the rows; each is a process of its own, so that nothing is left of another's."""
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", default="")
    parser.add_argument("--row", default="", help="of this script itself")
    wanted = parser.parse_args()
    if wanted.row:
        print(json.dumps(measured(*json.loads(wanted.row))))
        return
    only = set(filter(None, wanted.only.split(",")))
    print("| network | batch | precision | foretold | allocated | error | reserved | in use |")
    print("|---|---|---|---|---|---|---|---|")
    beside = []
    for name, batch, optimizer in ROWS:
        for precision in PRECISIONS:
            if only and name not in only:
                continue
            told = foretold(name, batch, optimizer, precision)
            argv = [sys.executable, __file__, "--row"]
            row = json.dumps([name, batch, optimizer, precision])
            done = subprocess.run([*argv, row], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                print(f"| {name} | {batch} | {precision} | {told:,} | failed | | | |", flush=True)
                continue
            real = json.loads(done.stdout.splitlines()[-1])
            error = 100 * (told - real["allocated"]) / real["allocated"]
            beside.append((real["allocated"], real["used"] - real["allocated"]))
            print(
                f"| {name} | {batch} | {precision} | {told:,} | {real['allocated']:,} "
                f"| {error:+.2f} % | {real['reserved']:,} | {real['used']:,} |",
                flush=True,
            )
    for share in (0.0, 0.05, 0.1, 0.2):
        least = max((more - share * tensors for tensors, more in beside), default=0.0)
        print(f"reserve: {share:.0%} of the tensors and {max(0.0, least):,.0f} bytes cover all")


def foretold(name: str, batch: int, optimizer: str, precision: str) -> int:
    """Ask the probe, which sees no GPU."""
    argv = [sys.executable, sys.path[0], "memory", "--strategies", "dp1", "--workload", name]
    argv += ["--batch", str(batch), "--optimizer", optimizer, "--precision", precision]
    done = subprocess.run(
        [*argv, "--device", "cuda"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(json.loads(done.stdout.splitlines()[-1])["memory"]["rows"][0]["peak"])


def measured(name: str, batch: int, optimizer: str, precision: str) -> dict[str, int]:
    """Train five steps on the GPU; bytes."""
    import memory_build  # type: ignore[import-not-found]
    import precision_torch  # type: ignore[import-not-found]
    import torch  # type: ignore[import-not-found]

    device, cuda = torch.accelerator.current_accelerator().type, torch.cuda
    before = cuda.device_memory_used() if hasattr(cuda, "device_memory_used") else _used(0)
    wanted = Namespace(workload=name, batch=batch, optimizer=optimizer, device="cuda")
    network = memory_build.published(torch, wanted)
    model: Any = network.model.to(device)
    inputs, targets = network.inputs.to(device), network.targets.to(device)
    way = precision_torch.Whole()
    if precision == "bf16":
        way = precision_torch.Mixed(torch, device, torch.bfloat16)
    for number in range(5):
        network.optimizer.zero_grad()
        with way.forward():
            loss = network.loss(model(inputs), targets)
        loss.backward()
        del loss
        network.optimizer.step()
        if number == 1:
            cuda.synchronize()
            cuda.reset_peak_memory_stats()
    cuda.synchronize()
    now = cuda.device_memory_used() if hasattr(cuda, "device_memory_used") else _used(0)
    # What the device's own count can't see: the most that the allocator ever held.
    return {
        "allocated": cuda.max_memory_allocated(),
        "reserved": cuda.max_memory_reserved(),
        "used": max(now - before, cuda.max_memory_reserved()),
    }


def _used(device: int) -> int:
    query = ["nvidia-smi", f"--id={device}", "--query-gpu=memory.used"]
    done = subprocess.run(
        [*query, "--format=csv,noheader,nounits"], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout.split()[0]) << 20


if __name__ == "__main__":
    main()
