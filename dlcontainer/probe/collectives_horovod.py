"""Collectives by Horovod on PyTorch's tensors; ranks find each other by MPI. Python >= 3.6."""

import horovod
import horovod.torch as hvd
import torch

import accelerator
from probe_collectives import IN_PLACE, PERIOD


class Group(object):
    """All ranks as Horovod counts them; see probe_collectives.py."""

    framework = torch

    def __init__(self, place, _backend, _patience):
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        # Horovod's own collectives between devices are NCCL's and RCCL's.
        own = "auto" if hvd.nccl_built() else accelerator.CPU
        self._on = accelerator.chosen(torch, own)
        self._device = self._on.place(self._on.take(place.local_rank))
        # What an operation gives is a tensor of its own, but for those that work in place.
        self._first = self._result = None

    def prepare(self, elements):
        """Make the buffer."""
        self._first = torch.zeros(max(elements, PERIOD), device=self._device)

    def fill(self, pattern):
        """Fill it; there is no result until an operation has run."""
        self._result = None
        count = len(self._first)
        self._first.copy_(self._repeated(pattern or [0.0], count))

    def _repeated(self, pattern, count):
        one = torch.tensor(pattern, dtype=torch.float32, device=self._device)
        return one.repeat(-(-count // len(pattern)))[:count]

    def act(self, operation, elements):
        """Run one; see probe_collectives.py."""
        getattr(self, "_" + operation)(elements)
        self._on.settle()

    def _broadcast(self, elements):
        name = _name("broadcast", elements)
        self._result = hvd.broadcast_(self._first[:elements], 0, name=name)

    def _all_reduce(self, elements):
        name = _name("all_reduce", elements)
        self._result = hvd.allreduce_(self._first[:elements], op=hvd.Sum, name=name)

    def _reduce_scatter(self, elements):
        name = _name("reduce_scatter", elements)
        self._result = hvd.reducescatter(self._first[:elements], op=hvd.Sum, name=name)

    def _all_gather(self, elements):
        part = self._first[: elements // self.size]
        self._result = hvd.allgather(part, name=_name("all_gather", elements))

    def _all_to_all(self, elements):
        name = _name("all_to_all", elements)
        self._result = hvd.alltoall(self._first[:elements], name=name)

    def _barrier(self, _elements):
        hvd.barrier()

    def wrong(self, operation, part):
        """Count the values of a stretch that are not the known ones."""
        result = self._first if operation in IN_PLACE else self._result
        known = self._repeated(part.pattern(), part.count)
        own = result[part.at : part.at + part.count]
        return part.count if len(own) != part.count else int((own != known).sum().item())

    def transport(self):
        """Give what is known of the way between ranks."""
        way = "nccl" if self._on else "mpi" if hvd.mpi_enabled() else "gloo"
        return {"backend": "horovod", "horovod": horovod.__version__, "way": way}

    def close(self):
        """Leave the group."""
        hvd.shutdown()


def _name(operation, elements):
    """Name a tensor by its size too, as each gradient of a training has one name and one size.

    Horovod caches what ranks agreed on by a tensor's name, and drops it where the size changes.
    """
    return "{}.{}".format(operation, elements)
