"""The processes of one MPI_COMM_WORLD: a job may start several, also at the same time. Pure.

A launcher tells its ranks the number of their launch (Open MPI and PMIx, Slurm's step), or it is
the port of Hydra's mpiexec. Of files with the same number each rank's first is of the first world,
its second of the second.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dlcontainer.bench.trace.mpi_calls.call_file import MpiProcess


@dataclass(frozen=True, kw_only=True, slots=True)
class CallWorld:
    """An MPI_COMM_WORLD: its processes by their rank; `reason` says why they may be others'."""

    ranks: int
    processes: dict[int, MpiProcess]
    reason: str = ""

    @property
    def begin_ns(self) -> int:
        """Return when its first process began."""
        return min(process.head.at_ns for process in self.processes.values())

    @property
    def program(self) -> str:
        """Return the names of its programs."""
        names = [of.head.program for _, of in sorted(self.processes.items())]
        return ", ".join(dict.fromkeys(names))


def of(processes: Sequence[MpiProcess]) -> tuple[CallWorld, ...]:
    """Return the worlds in the order that they began."""
    launches: dict[tuple[str, int], list[MpiProcess]] = {}
    for process in processes:
        if not process.head.reason:
            launches.setdefault((process.head.launch, process.head.ranks), []).append(process)
    worlds = (
        world for (launch, ranks), of in launches.items() for world in _worlds(launch, ranks, of)
    )
    return tuple(sorted(worlds, key=lambda world: world.begin_ns))


def _worlds(launch: str, ranks: int, processes: Sequence[MpiProcess]) -> Iterator[CallWorld]:
    turns: list[dict[int, MpiProcess]] = []
    for process in sorted(processes, key=lambda of: of.head.at_ns):
        turn = sum(process.head.rank in world for world in turns)
        if turn == len(turns):
            turns.append({})
        turns[turn][process.head.rank] = process
    overlap = not launch and ranks > 1 and any(_ended(a) > _began(b) for a, b in pairwise(turns))
    reason = "several worlds ran at once, and their launcher did not number them" * overlap
    for world in turns:
        yield CallWorld(ranks=ranks, processes=dict(sorted(world.items())), reason=reason)


def _began(world: dict[int, MpiProcess]) -> int:
    return min(process.head.at_ns for process in world.values())


def _ended(world: dict[int, MpiProcess]) -> int:
    return max(
        process.records[-1].end if process.records else process.head.at_ns
        for process in world.values()
    )
