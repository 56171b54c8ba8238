"""From what the processes of a traced job left to what is said of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace import (
    collective_table,
    critical_path,
    intervals,
    matched,
    otf2_archive,
    overhead,
    process_trace,
    rank_activities,
    rank_profile,
)
from dlcontainer.bench.trace.matched import JoinedCollectives, NodeClock, TracedRank
from dlcontainer.bench.trace.mpi_calls import call_file, mpi_analysis
from dlcontainer.bench.trace.mpi_calls.mpi_analysis import JobCalls
from dlcontainer.bench.trace.otf2_archive import ANCHOR, ArchiveCounts, ArchiveRank
from dlcontainer.bench.trace.process_trace import COMPLETE, KINETO, TRACED, ProcessTrace
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.trace_records import (
    MissingRank,
    RankRow,
    SideName,
    SideTrace,
    TracedClock,
)
from dlcontainer.errors import BenchDataError

_S = 1e-9
# As the scripts of a job name them.
_MPI = "mpi"
_FILES = (".json", call_file.SUFFIX)
# What a reader of steps may be off by: a float of seconds since the epoch.
_NS = 1e9


def read(folder: Path, side: SideName, ranks: int, ended: str) -> SideTrace:
    """Read the trace of a side whose job had as many ranks, and write it as OTF2 beside.

    Raises BenchDataError where no rank left a profile, and no process calls of MPI.
    """
    by_rank = process_trace.ranks(process_trace.read(folder))
    traced = [rank for rank in map(_traced, by_rank.values()) if rank is not None]
    calls = mpi_analysis.read(folder, folder.parent / _MPI)
    missing = _missing(by_rank, {rank.rank for rank in traced}, ranks)
    if calls.worlds:
        # A rank of the launcher's that is one of MPI trains nothing, nor does a job without steps.
        placed = calls.places() - by_rank.keys()
        missing = tuple(rank for rank in missing if by_rank and rank.rank not in placed)
    elif not traced:
        raise _nothing(folder, by_rank, missing, calls.reasons)
    joined = matched.join(traced)
    clocks = matched.clocks(traced, joined) if traced else {}
    joined_calls = mpi_analysis.join(calls, clocks)
    archive = _archived(folder.parent, traced, by_rank, clocks, calls)
    if any(clock.moved_ns for clock in clocks.values()):
        traced = [rank_activities.on_clock(rank, clocks) for rank in traced]
        joined = matched.join(traced)
    activities = {rank.rank: rank_activities.of(rank, joined.collectives) for rank in traced}
    rows = [_row(rank, activities[rank.rank], by_rank[rank.rank]) for rank in traced]
    archived = {} if isinstance(archive, str) else archive.calls
    return SideTrace(
        side=side,
        ended=ended,
        overhead=overhead.of([by_rank[rank.rank] for rank in traced]),
        steps=len(set.intersection(*(set(rank.steps) for rank in traced))) if traced else 0,
        ranks=tuple(_with_archive(row, archive) for row in rows),
        missing=missing,
        collectives=collective_table.rows(traced, activities, joined),
        clocks=tuple(map(_clock, clocks.values())),
        slowest=critical_path.slowest(traced, activities) if traced else None,
        mpi=mpi_analysis.trace(calls, joined_calls, archived),
        notes=(
            *(_notes(by_rank, joined) if traced else ()),
            *([archive] if isinstance(archive, str) else []),
        ),
        archive=None if isinstance(archive, str) else f"{otf2_archive.FOLDER}/{ANCHOR}",
        files=tuple(sorted(path.name for path in folder.glob("*") if path.suffix in _FILES)),
    )


def _archived(
    folder: Path,
    traced: Sequence[TracedRank],
    by_rank: Mapping[int, ProcessTrace],
    clocks: Mapping[str, NodeClock],
    calls: JobCalls,
) -> ArchiveCounts | str:
    """Write OTF2 into a side's folder; return what is in it, or why there is none."""
    profiles = {rank.rank: by_rank[rank.rank].profile(KINETO) for rank in traced}
    ranks = [
        ArchiveRank(
            rank=rank.rank,
            node=rank.node,
            kineto=path,
            moved_ns=clocks[rank.boot].moved_ns,
            bound_ns=clocks[rank.boot].bound_ns,
        )
        for rank in traced
        if (path := profiles[rank.rank]) is not None
    ]
    return otf2_archive.write(folder / otf2_archive.FOLDER, ranks, calls.worlds)


def _with_archive(row: RankRow, archive: ArchiveCounts | str) -> RankRow:
    if isinstance(archive, str):
        return row
    return replace(row, archived=archive.spans[row.rank], archived_not=archive.left_out[row.rank])


def _traced(process: ProcessTrace) -> TracedRank | None:
    path, lines = process.profile(KINETO), process.block(TRACED)
    steps = {
        line.step: (round(_NS * (line.at - line.s)), round(_NS * line.at))
        for line in lines
        if line.s
    }
    if path is None or not path.exists() or not steps:
        return None
    return TracedRank(
        rank=process.head.rank or 0,
        node=process.head.node,
        # A node that does not tell its boot is one by its name.
        boot=process.head.boot or process.head.node,
        profile=rank_profile.read(path),
        steps=steps,
    )


def _missing(
    by_rank: Mapping[int, ProcessTrace], traced: set[int], ranks: int
) -> tuple[MissingRank, ...]:
    sizes = [process.head.ranks or 1 for process in by_rank.values()]
    return tuple(
        MissingRank(rank=number, why=_why(by_rank.get(number)))
        for number in range(max([ranks, *sizes, *(number + 1 for number in by_rank)]))
        if number not in traced
    )


def _why(process: ProcessTrace | None) -> str:
    if process is None:
        return "it left nothing: no optimizer of PyTorch stepped in it, or it was killed before"
    step = process.steps[-1].step if process.steps else 0
    if process.end is None:
        return f"killed: its last block that was written ended with step {step}"
    return f"its trace ended in step {step}: {process.end}"


def _nothing(
    folder: Path,
    by_rank: Mapping[int, ProcessTrace],
    missing: Sequence[MissingRank],
    reasons: Sequence[str],
) -> BenchDataError:
    if not by_rank:
        of_mpi = "; ".join(reasons) or "calls of MPI are seen where they pass a shared library"
        return BenchDataError(
            "no optimizer of PyTorch stepped in any process, and none called MPI: there is no "
            "trace",
            where=str(folder),
            why="the hook sees optimizers of PyTorch 2.0 and later, in a Python that reads "
            f"PYTHONPATH: not python -I, -E or -S, and not inside torch.compile; {of_mpi}",
            next_step="trace a command that trains with PyTorch, or that calls MPI",
        )
    return BenchDataError(
        "no rank left a profile",
        where=str(folder),
        why="; ".join(f"rank {rank.rank}: {rank.why}" for rank in missing[:4]),
        next_step="let the program do more steps, or trace fewer: --steps",
    )


def _row(rank: TracedRank, of: RankActivities, process: ProcessTrace) -> RankRow:
    waiting = {who: intervals.length(union) * _S for who, union in of.waiting.items()}
    exposed = intervals.length(of.transfer)
    hidden = intervals.length(intervals.both(of.in_flight, of.computing))
    return RankRow(
        rank=rank.rank,
        node=rank.node,
        total_s=(of.window[1] - of.window[0]) * _S,
        computing_s=intervals.length(of.computing) * _S,
        waiting_for=waiting,
        exposed_s=exposed * _S,
        other_s=intervals.length(of.other()) * _S,
        hidden_s=hidden * _S,
        spans=rank.profile.spans,
        collectives=len(rank.profile.collectives),
        left_out=rank.profile.left_out,
        coarse_s=rank.profile.coarse_ns * _S,
        write_s=sum(line.write_s for line in process.profiles.values()),
    )


def _clock(clock: NodeClock) -> TracedClock:
    bound = None if clock.bound_ns is None else clock.bound_ns * _S
    return TracedClock(node=clock.node, moved_s=clock.moved_ns * _S, bound_s=bound)


def _notes(by_rank: Mapping[int, ProcessTrace], joined: JoinedCollectives) -> list[str]:
    notes = []
    if joined.reason:
        notes.append(f"who waits for whom is not told: {joined.reason}")
    elif joined.apart:
        spans = counted(joined.apart, "span")
        notes.append(f"{spans} of collectives without a counterpart at other ranks")
    ends = {process.end for process in by_rank.values() if process.end}
    return [*notes, *(f"a trace ended early: {end}" for end in sorted(ends - {COMPLETE}))]
