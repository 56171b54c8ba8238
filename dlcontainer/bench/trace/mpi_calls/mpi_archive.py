"""Calls of MPI in an OTF2 archive: regions, messages and collectives with their communicators.

The first thread of each rank of all worlds is in one group of locations, as OTF2 has it once for
MPI. A communicator with members that left nothing is not defined: its calls are regions alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlcontainer.bench.trace.archive_definitions import ArchiveDefinitions
from dlcontainer.bench.trace.mpi_calls.call_file import CallGroup, CallRecord, Content, MpiProcess
from dlcontainer.bench.trace.mpi_calls.call_worlds import CallWorld
from dlcontainer.bench.trace.mpi_calls.joined_calls import SENDS

# Of all ranks together.
MOST_CALLS = 500_000
_BLOCKING_SENDS = frozenset(kind for kind in SENDS if not kind.startswith("MPI_I"))
_RankKey = tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class _ArchiveComm:
    """A communicator in the archive, and its ranks by those of the world."""

    comm: Any
    ranks: Mapping[int, int]


def write(
    definitions: ArchiveDefinitions, worlds: Sequence[CallWorld]
) -> dict[tuple[int, int], int]:
    """Write all worlds; return how many calls are in the archive, by world and rank."""
    locations = _locations(definitions, worlds)
    firsts = [thread[min(thread)] for thread in locations.values()]
    if not firsts:
        return {}
    otf2, writer = definitions.otf2, definitions.made
    writer.group(
        "all ranks of MPI",
        group_type=otf2.GroupType.COMM_LOCATIONS,
        paradigm=otf2.Paradigm.MPI,
        members=firsts,
    )
    most, counts = MOST_CALLS // len(firsts), {}
    for number, world in enumerate(worlds):
        comms = _comms(definitions, number, world, locations)
        for rank, process in world.processes.items():
            writer = _RankWriter(definitions, process, comms)
            counts[number, rank] = writer.write(locations[number, rank], most)
    return counts


def _locations(
    definitions: ArchiveDefinitions, worlds: Sequence[CallWorld]
) -> dict[_RankKey, dict[int, Any]]:
    """Define a location for each thread of each rank; threads by their number."""
    programs = [world.program for world in worlds]
    locations: dict[_RankKey, dict[int, Any]] = {}
    for number, world in enumerate(worlds):
        more = f" of world {number}" if programs.count(world.program) > 1 else ""
        for rank, process in world.processes.items():
            group = definitions.group(
                f"{process.head.program} rank {rank}{more}",
                process.head.node,
                process.moved_ns,
                process.bound_ns,
            )
            threads = {1} | {record.thread for record in process.calls()}
            locations[number, rank] = {
                thread: definitions.thread(f"thread {thread}", group) for thread in sorted(threads)
            }
    return locations


def _comms(
    definitions: ArchiveDefinitions,
    number: int,
    world: CallWorld,
    locations: Mapping[_RankKey, Mapping[int, Any]],
) -> dict[tuple[int, int], _ArchiveComm]:
    """Define the communicators whose members are all known, by what is equal at these."""
    members: dict[tuple[int, int], dict[int, int]] = {}
    sizes: dict[tuple[int, int], CallGroup] = {}
    for rank, process in world.processes.items():
        for group in process.groups.values():
            if not group.is_inter:
                members.setdefault(group.key, {})[group.rank] = rank
                sizes[group.key] = group
    otf2, writer = definitions.otf2, definitions.made
    comms = {}
    for turn, (key, ranks) in enumerate(members.items()):
        if len(ranks) != sizes[key].size:
            continue
        name = f"communicator {turn} of world {number}"
        within = [locations[number, ranks[place]] for place in sorted(ranks)]
        group = writer.group(
            name,
            group_type=otf2.GroupType.COMM_GROUP,
            paradigm=otf2.Paradigm.MPI,
            members=[threads[min(threads)] for threads in within],
        )
        comms[key] = _ArchiveComm(
            comm=writer.comm(name, group=group),
            ranks={rank: place for place, rank in ranks.items()},
        )
    return comms


class _RankWriter:
    """Writes the calls of a process: enter, what it is for OTF2, what it completed, leave."""

    def __init__(
        self,
        definitions: ArchiveDefinitions,
        process: MpiProcess,
        comms: Mapping[tuple[int, int], _ArchiveComm],
    ) -> None:
        self._definitions, self._process, self._comms = definitions, process, comms
        self._within: dict[tuple[int, int, int], list[CallRecord]] = {}
        for record in process.records:
            if record.what in (Content.SENT, Content.RECEIVED, Content.POSTED):
                key = (record.thread, record.begin, record.end)
                self._within.setdefault(key, []).append(record)

    def write(self, locations: Mapping[int, Any], most: int) -> int:
        """Write the first calls of the process, at most as many; return their number."""
        writers = {
            thread: self._definitions.events(location) for thread, location in locations.items()
        }
        last, moved = dict[int, int](), self._process.moved_ns
        count = 0
        for record in self._process.calls():
            if count == most:
                break
            # A thread is in one call at a time; what was put together of polls may touch.
            begin = max(record.begin, last.get(record.thread, 0))
            end = last[record.thread] = max(record.end, begin)
            self._call(writers[record.thread], record, begin - moved, end - moved)
            count += 1
        return count

    def _call(self, events: Any, record: CallRecord, begin: int, end: int) -> None:
        kind = self._process.kind(record)
        region, size = self._definitions.region(kind), record.sent or record.got
        events.enter(begin, region, **self._attributes(size))
        comm = self._comm(record)
        more = self._within.get((record.thread, record.begin, record.end), [])
        op = self._operation(kind)
        if record.turn and comm is not None and op is not None:
            events.mpi_collective_begin(begin)
            root = comm.ranks.get(record.peer, self._definitions.otf2.CollectiveRoot.NONE)
            events.mpi_collective_end(end, op, comm.comm, root, record.sent, record.got)
        elif record.post:
            self._message(events, record, begin, end)
        for of in more:
            self._completed(events, of, begin, end)
        events.leave(end, region)

    def _attributes(self, size: int) -> dict[str, Any]:
        return {"attributes": {self._definitions.bytes: size}} if size else {}

    def _comm(self, record: CallRecord) -> _ArchiveComm | None:
        group = self._process.group(record)
        return self._comms.get(group.key) if group else None

    def _operation(self, kind: str) -> Any:
        operations = self._definitions.otf2.CollectiveOp
        return getattr(operations, kind.removeprefix("MPI_").upper(), None)

    def _message(self, events: Any, record: CallRecord, begin: int, end: int) -> None:
        """Write the event of a call that sends, receives, or begins to."""
        kind, comm = self._process.kind(record), self._comm(record)
        if kind == "MPI_Irecv":
            events.mpi_irecv_request(begin, record.post)
        elif comm is None or record.peer not in comm.ranks:
            return
        elif kind in _BLOCKING_SENDS:
            peer = comm.ranks[record.peer]
            events.mpi_send(begin, peer, comm.comm, record.tag, record.sent)
        elif kind in SENDS:
            peer = comm.ranks[record.peer]
            events.mpi_isend(begin, peer, comm.comm, record.tag, record.sent, record.post)
        elif kind == "MPI_Recv":
            events.mpi_recv(end, comm.ranks[record.peer], comm.comm, record.tag, record.got)

    def _completed(self, events: Any, record: CallRecord, begin: int, end: int) -> None:
        """Write what a call started or completed of others."""
        kind, comm = self._process.kind(record), self._comm(record)
        if comm is None or record.peer not in comm.ranks:
            return
        peer, where = comm.ranks[record.peer], comm.comm
        if record.what == Content.SENT:
            events.mpi_isend_complete(end, record.post)
        elif record.what == Content.POSTED and kind in SENDS:
            events.mpi_isend(begin, peer, where, record.tag, record.sent, record.post)
        elif record.what == Content.POSTED:
            events.mpi_irecv_request(begin, record.post)
        elif kind.startswith("MPI_Sendrecv"):
            events.mpi_recv(end, peer, where, record.tag, record.got)
        else:
            events.mpi_irecv(end, peer, where, record.tag, record.got, record.post)
