"""Collectives by torch.distributed: gloo, mpi, and those between devices. Python >= 3.6."""

import datetime
import os

import torch
from torch import distributed

import accelerator
from probe_collectives import IN_PLACE, PERIOD


def _known(*names):
    """Give what this PyTorch calls an operation, its newest name first."""
    return next(getattr(distributed, name) for name in names if hasattr(distributed, name))


class Group(object):
    """A process group of all ranks; see probe_collectives.py."""

    framework = torch

    def __init__(self, place, backend, patience):
        if not distributed.is_available():
            raise RuntimeError("this PyTorch was built without torch.distributed")
        self.backend, self._on = backend, accelerator.of_backend(torch, backend)
        if backend in accelerator.BACKENDS and place.local_rank >= self._on.count():
            raise RuntimeError(
                "{} takes a {} for each rank of a node, and there are {}".format(
                    backend, accelerator.title(backend), self._on.count()
                )
            )
        self._device = self._on.place(self._on.take(place.local_rank))
        place.export(os.environ)
        limit = datetime.timedelta(seconds=patience)
        self._on.backend()  # some are known once a package of theirs is loaded
        distributed.init_process_group(
            backend, init_method=self._on.init_method, timeout=limit
        )
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self._first = self._second = None

    def prepare(self, elements):
        """Make the buffers."""
        self._first = torch.zeros(max(elements, PERIOD), device=self._device)
        self._second = torch.zeros(max(elements, PERIOD), device=self._device)

    def fill(self, pattern):
        """Fill the first buffer; the second one with what is no result."""
        if pattern is None:
            self._first.zero_()
            self._second.zero_()
        else:
            self._first.copy_(self._repeated(pattern, len(self._first)))
            self._second.fill_(-1.0)

    def _repeated(self, pattern, count):
        one = torch.tensor(pattern, dtype=torch.float32, device=self._device)
        return one.repeat(-(-count // len(pattern)))[:count]

    def act(self, operation, elements):
        """Run one; see probe_collectives.py."""
        getattr(self, "_" + operation)(elements)
        self._on.settle()

    def _broadcast(self, elements):
        distributed.broadcast(self._first[:elements], 0)

    def _all_reduce(self, elements):
        distributed.all_reduce(self._first[:elements])

    def _reduce_scatter(self, elements):
        block = elements // self.size
        act = _known("reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base")
        act(self._second[:block], self._first[:elements])

    def _all_gather(self, elements):
        block = elements // self.size
        if self.backend == "mpi":
            # PyTorch's MPI takes a list of parts only, which it copies from a buffer of its own.
            parts = list(self._second[:elements].chunk(self.size))
            distributed.all_gather(parts, self._first[:block])
            return
        act = _known("all_gather_single", "all_gather_into_tensor", "_all_gather_base")
        act(self._second[:elements], self._first[:block])

    def _all_to_all(self, elements):
        distributed.all_to_all_single(self._second[:elements], self._first[:elements])

    def _send_recv(self, elements):
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        operations = [
            distributed.P2POp(distributed.isend, self._first[:elements], after),
            distributed.P2POp(distributed.irecv, self._second[:elements], before),
        ]
        for work in distributed.batch_isend_irecv(operations):
            work.wait()

    def _barrier(self, _elements):
        distributed.barrier()

    def wrong(self, operation, part):
        """Count the values of a stretch that are not the known ones."""
        result = self._first if operation in IN_PLACE else self._second
        known = self._repeated(part.pattern(), part.count)
        return int((result[part.at : part.at + part.count] != known).sum().item())

    def transport(self):
        """Give what is known of the way between ranks."""
        found = {"backend": self.backend}
        if self._on:
            found.update(accelerator.library(torch))
        return found

    def close(self):
        """Leave the group."""
        distributed.destroy_process_group()
