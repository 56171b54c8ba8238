"""Ranks of a proof meet by torch.distributed: gloo between CPUs, else by the devices' library. Python >= 3.6."""

import datetime
import os
import time

import torch

import accelerator
import prove_figures

# Bytes. The last one is held against the site's floor: large enough to fill any network.
SIZES = {"cuda": (1 << 20, 1 << 25, 1 << 28), "cpu": (1 << 16, 1 << 20, 1 << 23)}
WARM, TIMED = 2, 5


def own_device(index, shown):
    """Name a device so that ranks of one node can tell whether they share it; None: can't tell.

    `shown` are the devices that the driver shows this process (attest_gpus.modes).
    """
    seen = accelerator.seen(torch)
    if not seen:
        return None
    count = seen.count()
    index = index % count
    uuid = seen.uuid(index)
    if uuid is not None:  # newer ones have it
        return uuid
    if shown and len(shown) == count:
        return shown[index]["uuid"]
    # A cgroup may show each rank one device, and each as number 0.
    return None if count == 1 else str(index)


class Group(object):
    """A process group of all ranks; `backend` is the devices' own where each rank has one for itself."""

    def __init__(self, place, backend, patience):
        self.backend, self._place = backend, place
        if not torch.distributed.is_available():
            raise RuntimeError("this PyTorch was built without torch.distributed")
        place.export(os.environ)
        self._on = accelerator.of_backend(torch, backend)
        self._device = self._on.place(self._on.take(place.local_rank))
        limit = datetime.timedelta(seconds=patience)
        torch.distributed.init_process_group(
            backend, init_method=self._on.init_method, timeout=limit
        )
        self.size = torch.distributed.get_world_size()

    def off(self):
        """Sum what each rank gives, check each value; give the largest difference (0 is right)."""
        # Small whole numbers: their sums are exact in float32.
        pattern = torch.arange(1 << 14, device=self._device) % 7 + 1
        mine = pattern.float() * (self._place.rank + 1)
        torch.distributed.all_reduce(mine)
        total = self._place.size * (self._place.size + 1) // 2
        return float((mine - pattern.float() * total).abs().max().item())

    def bandwidth(self):
        """Time all-reduces; busbw is nccl-tests' own figure: bytes / s * 2 (n - 1) / n, GB/s."""
        found = []
        for size in accelerator.sizes(SIZES, self._on.type):
            data = torch.ones(size // 4, device=self._device)
            for _ in range(WARM):
                torch.distributed.all_reduce(data)
            self._settle()
            begin = time.time()
            for _ in range(TIMED):
                torch.distributed.all_reduce(data)
            self._settle()
            seconds = (time.time() - begin) / TIMED
            found.append(prove_figures.figures(size, seconds, self._place.size))
            del data
        return found

    def _settle(self):
        self._on.settle()
        torch.distributed.barrier()

    def close(self):
        """Leave the group."""
        torch.distributed.destroy_process_group()


def backend():
    """Name what ranks with a device of their own each use."""
    return accelerator.seen(torch).backend() or "gloo"


def library():
    """Give the version of the devices' collective library; None where nothing says it."""
    return next(iter(accelerator.library(torch).values()), None)
