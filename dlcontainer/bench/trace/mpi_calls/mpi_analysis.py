"""From the calls of MPI that a job's processes left to the rows that are said of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace import critical_path, intervals, matched, rank_activities
from dlcontainer.bench.trace.intervals import Union
from dlcontainer.bench.trace.matched import NodeClock, TracedRank
from dlcontainer.bench.trace.mpi_calls import call_file, call_worlds, joined_calls
from dlcontainer.bench.trace.mpi_calls.call_file import CallRecord, MpiProcess
from dlcontainer.bench.trace.mpi_calls.call_worlds import CallWorld
from dlcontainer.bench.trace.mpi_calls.joined_calls import JoinedCalls
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.rank_profile import RankProfile
from dlcontainer.bench.trace.trace_records import (
    MPI_STARTS,
    MpiCallRow,
    MpiRankRow,
    MpiTrace,
    MpiWorld,
    RankTimeline,
)
from dlcontainer.bench.trace.watch import rank_doing
from dlcontainer.bench.trace.watch.rank_doing import TracedProcess
from dlcontainer.bench.trace.watch.watch_file import ProcessWatch
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

_S = 1e-9
# As the script that runs on compute nodes names them: why a node has no library, a line a file.
_NONE = "*.none"
_MOST_LINE = 4096
_MOST_ROWS = 500
# Ranks of a program whose bars are kept.
MOST_DRAWN = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCalls:
    """A job's worlds, the places of the launcher's ranks in them, and who has no calls and why."""

    worlds: Sequence[CallWorld]
    reasons: tuple[str, ...]

    def places(self) -> set[int]:
        """Return the job's own numbers of its processes of MPI."""
        texts = {of.head.place for world in self.worlds for of in world.processes.values()}
        return {int(text) for text in texts if text.isdigit()}


def read(traces: Path, built: Path) -> JobCalls:
    """Read what a job's processes left, and why nodes have no library; raises BenchDataError."""
    processes, cut = call_file.read(traces)
    refused = [
        f"{of.head.program} was not traced: {of.head.reason} ({of.head.library.split('?')[0]})"
        for of in processes
        if of.head.reason
    ]
    if cut:
        refused.append(
            f"{counted(cut, 'process', 'processes')} of MPI could not write: the disk was full"
        )
    return JobCalls(
        worlds=call_worlds.of(processes), reasons=tuple(dict.fromkeys([*_none(built), *refused]))
    )


def _none(built: Path) -> Iterator[str]:
    for path in sorted(built.glob(_NONE)):
        try:
            text = foreign_files.read(path, _MOST_LINE).decode(errors="replace")
        except OSError as error:
            raise BenchDataError(
                "a file of the job can't be read", where=str(path), why=str(error)
            ) from None
        yield f"calls of MPI were not traced: {' '.join(text.split())[:300]}"


def join(calls: JobCalls, clocks: dict[str, NodeClock]) -> list[JoinedCalls]:
    """Put all worlds on the clock of those that are known, and join each; adds to the clocks."""
    joined = []
    for world in calls.worlds:
        of_world = joined_calls.join(world)
        _add(clocks, matched.clocks(_ranks(world), of_world.of_clocks()))
        for process in world.processes.values():
            clock = clocks[_boot(process)]
            call_file.move(process, clock.moved_ns, clock.bound_ns)
        if any(process.moved_ns for process in world.processes.values()):
            of_world = joined_calls.join(world)
        joined.append(of_world)
    return joined


def _boot(process: MpiProcess) -> str:
    return process.head.boot or process.head.node


def _ranks(world: CallWorld) -> list[TracedRank]:
    """Return the ranks of a world as those of any trace: computing is outside of MPI."""
    ranks = []
    for rank, process in world.processes.items():
        window = _window(process)
        records = list(process.calls())
        busy = intervals.union((record.begin, record.end) for record in records)
        profile = RankProfile(
            spans=len(records),
            collectives=[joined_calls.span(process.kind(record), record) for record in records],
            compute=intervals.without([window], busy),
            groups=None,
        )
        ranks.append(
            TracedRank(
                rank=rank,
                node=process.head.node,
                boot=_boot(process),
                profile=profile,
                steps={0: window},
            )
        )
    return ranks


def _window(process: MpiProcess) -> tuple[int, int]:
    """From the end of MPI_Init to the last that is known of a process."""
    begin = next(
        (of.end for of in process.calls() if process.kind(of) in MPI_STARTS), process.head.at_ns
    )
    last = max((record.end for record in process.records), default=begin)
    if process.ended_ns is not None and not process.left_out:
        last = max(last, process.ended_ns)
    return begin, max(begin, last)


def _add(clocks: dict[str, NodeClock], local: Mapping[str, NodeClock]) -> None:
    """Add the clocks of a world to those of the others, by a node that both have."""
    anchor = next((boot for boot in local if boot in clocks), None)
    if anchor is None and clocks:
        # Nothing tells how far this world's nodes are from the others'.
        clocks.update({boot: replace(clock, bound_ns=None) for boot, clock in local.items()})
        return
    shift = clocks[anchor].moved_ns - local[anchor].moved_ns if anchor else 0
    for boot, clock in local.items():
        if boot not in clocks:
            bounds = (clock.bound_ns, clocks[anchor].bound_ns if anchor else 0)
            clocks[boot] = NodeClock(
                node=clock.node,
                moved_ns=clock.moved_ns + shift,
                bound_ns=None if None in bounds else sum(of or 0 for of in bounds),
            )


def trace(
    calls: JobCalls,
    joined: Sequence[JoinedCalls],
    archived: Mapping[tuple[int, int], int],
    watches: Sequence[ProcessWatch],
) -> MpiTrace:
    """Return what is said of all worlds; `archived` has OTF2's spans by world and rank."""
    return MpiTrace(
        worlds=tuple(
            _world(
                world,
                of,
                {rank: spans for (place, rank), spans in archived.items() if place == number},
                watches,
            )
            for number, (world, of) in enumerate(zip(calls.worlds, joined, strict=True))
        ),
        reasons=calls.reasons,
    )


def _world(
    world: CallWorld,
    joined: JoinedCalls,
    archived: Mapping[int, int],
    watches: Sequence[ProcessWatch],
) -> MpiWorld:
    activities = {
        rank.rank: rank_activities.of(rank, (), joined.waits.get(rank.rank, ()))
        for rank in _ranks(world)
    }
    rows = [
        _rank_row(activities[rank], process, archived.get(rank, 0))
        for rank, process in world.processes.items()
    ]
    first = next(iter(world.processes.values()))
    missing = tuple(rank for rank in range(world.ranks) if rank not in world.processes)
    doings, causes = rank_doing.of(_processes(world), activities, watches)
    return MpiWorld(
        program=world.program,
        # MPICH says several lines.
        library=first.head.library.split("?")[0],
        size=world.ranks,
        ranks=tuple(rows),
        missing=missing,
        calls=tuple(_call_rows(world, activities)),
        apart=joined.apart,
        reason=world.reason,
        doings=doings,
        causes=causes,
        timeline=_timeline(activities),
        path=None if missing or world.reason else critical_path.of_program(activities),
    )


def _timeline(activities: Mapping[int, RankActivities]) -> RankTimeline | None:
    """Return what ranks did from the first begin to the last end; None where that is no time.

    Of many ranks those that are waited for come first.
    """
    begin = min((of.window[0] for of in activities.values()), default=0)
    end = max((of.window[1] for of in activities.values()), default=0)
    if begin == end:
        return None
    late = {rank for of in activities.values() for rank in of.waiting}
    first = sorted(activities, key=lambda rank: (rank not in late, rank))[:MOST_DRAWN]
    drawn = {rank: critical_path.bars(activities[rank], (begin, end)) for rank in sorted(first)}
    return RankTimeline(seconds=(end - begin) * _S, bars=drawn)


def _processes(world: CallWorld) -> list[TracedProcess]:
    return [
        TracedProcess(
            rank=rank,
            boot=_boot(process),
            pid=process.head.pid,
            moved_ns=process.moved_ns,
            # Outside of MPI it computes, reads or sleeps: looks tell.
            is_computing_known=False,
        )
        for rank, process in world.processes.items()
    ]


def _rank_row(of: RankActivities, process: MpiProcess, archived: int) -> MpiRankRow:
    return MpiRankRow(
        rank=of.rank,
        node=process.head.node,
        program=process.head.program,
        total_s=(of.window[1] - of.window[0]) * _S,
        computing_s=intervals.length(of.computing) * _S,
        waiting_for={
            who: intervals.length(union) * _S for who, union in of.waiting.items() if union
        },
        transfer_s=intervals.length(of.transfer) * _S,
        calls=call_file.total(process.sums, process),
        left_out=process.left_out,
        archived=archived,
        ended=process.end or "cut",
    )


@dataclass(slots=True)
class _CallTotals:
    calls: int = 0
    ns: int = 0
    waiting: int = 0


def _call_rows(world: CallWorld, activities: Mapping[int, RankActivities]) -> Iterator[MpiCallRow]:
    """Yield a row for each call and size, those that took longest first."""
    cells: dict[tuple[str, int | None], _CallTotals] = {}
    for rank, process in world.processes.items():
        waited = intervals.union(of for union in activities[rank].waiting.values() for of in union)
        _count(process, waited, cells)
    longest = sorted(cells.items(), key=lambda pair: (-pair[1].ns, pair[0][0], pair[0][1] or 0))
    for (kind, size), cell in longest[:_MOST_ROWS]:
        yield MpiCallRow(
            kind=kind,
            bytes=size,
            calls=cell.calls,
            seconds=cell.ns * _S,
            waiting_s=None if world.reason else cell.waiting * _S,
        )


def _count(
    process: MpiProcess, waited: Union, cells: dict[tuple[str, int | None], _CallTotals]
) -> None:
    beyond = {kind: [of.calls, of.ns] for kind, of in process.sums.items()}
    for record in process.calls():
        kind = process.kind(record)
        cell = cells.setdefault((kind, _bytes(record)), _CallTotals())
        calls, ns = max(1, record.polls), record.end - record.begin
        cell.calls += calls
        cell.ns += ns
        cell.waiting += intervals.length(intervals.clipped(waited, record.begin, record.end))
        uncounted = beyond.get(kind, [0, 0])
        uncounted[0], uncounted[1] = uncounted[0] - calls, uncounted[1] - ns
    for kind, (calls, ns) in beyond.items():
        if process.left_out and calls > 0:
            cell = cells.setdefault((kind, None), _CallTotals())
            cell.calls += calls
            cell.ns += max(0, ns)


def _bytes(record: CallRecord) -> int | None:
    return record.sent or record.got or None
