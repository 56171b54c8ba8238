"""Collectives by MPI, called through mpi4py on plain memory: no NumPy is needed. Python >= 3.6."""

from array import array

import mpi4py
from mpi4py import MPI

from probe_collectives import IN_PLACE, PERIOD


class Group(object):
    """All ranks of the MPI's own world; see probe_collectives.py."""

    framework = mpi4py

    def __init__(self, _place, _backend, _patience):
        self._world = MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()
        self._first = self._second = memoryview(array("f"))

    def prepare(self, elements):
        """Make the buffers."""
        self._first, self._second = (
            memoryview(array("f", [0.0]) * max(elements, PERIOD)) for _ in range(2)
        )

    def fill(self, pattern):
        """Fill the first buffer; the second one with what is no result."""
        self._first[:] = _repeated(pattern or [0.0], len(self._first))
        self._second[:] = _repeated([-1.0] if pattern else [0.0], len(self._second))

    def act(self, operation, elements):
        """Run one; see probe_collectives.py."""
        getattr(self, "_" + operation)(elements, elements // self.size)

    def _broadcast(self, elements, _block):
        self._world.Bcast(_given(self._first, elements), root=0)

    def _all_reduce(self, elements, _block):
        self._world.Allreduce(MPI.IN_PLACE, _given(self._first, elements), op=MPI.SUM)

    def _reduce_scatter(self, elements, block):
        first, second = _given(self._first, elements), _given(self._second, block)
        self._world.Reduce_scatter_block(first, second, op=MPI.SUM)

    def _all_gather(self, elements, block):
        self._world.Allgather(_given(self._first, block), _given(self._second, elements))

    def _all_to_all(self, elements, _block):
        self._world.Alltoall(_given(self._first, elements), _given(self._second, elements))

    def _send_recv(self, elements, _block):
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self._world.Sendrecv(
            _given(self._first, elements), dest=after,
            recvbuf=_given(self._second, elements), source=before,
        )  # fmt: skip

    def _barrier(self, _elements, _block):
        self._world.Barrier()

    def wrong(self, operation, part):
        """Count the values of a stretch that are not the known ones."""
        result = self._first if operation in IN_PLACE else self._second
        own = result[part.at : part.at + part.count].tobytes()
        known = _repeated(part.pattern(), part.count)
        if own == known.tobytes():
            return 0
        return sum(1 for one, other in zip(array("f", own), known) if one != other)

    def transport(self):
        """Give what is known of the way between ranks."""
        library = MPI.Get_library_version().replace("\0", "").strip()
        return {"backend": "mpi4py", "mpi": library.splitlines()[0]}

    def close(self):
        """Leave MPI itself to the end of the process."""


def _repeated(pattern, count):
    one = array("f", pattern)
    return (one * -(-count // len(one)))[:count]


def _given(memory, count):
    # No count: of a buffer that is blocks mpi4py takes it for that of a block.
    return [memory[:count], MPI.FLOAT]
