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
    missing_ranks,
    otf2_archive,
    overhead,
    process_trace,
    rank_activities,
    rank_profile,
)
from dlcontainer.bench.trace.matched import JoinedCollectives, NodeClock, TracedRank
from dlcontainer.bench.trace.mpi_calls import call_file, mpi_analysis
from dlcontainer.bench.trace.mpi_calls.mpi_analysis import JobCalls
from dlcontainer.bench.trace.otf2_archive import ANCHOR, ArchiveCounts, ArchiveRank, ArchiveWatches
from dlcontainer.bench.trace.process_trace import COMPLETE, KINETO, TRACED, ProcessTrace, StepEnd
from dlcontainer.bench.trace.rank_activities import RankActivities
from dlcontainer.bench.trace.trace_records import (
    GOOD,
    RankRow,
    SideName,
    SideTrace,
    TracedClock,
)
from dlcontainer.bench.trace.watch import job_watch, rank_doing, watch_file
from dlcontainer.bench.trace.watch.rank_doing import TracedProcess
from dlcontainer.bench.trace.watch.watch_file import ProcessWatch
from dlcontainer.bench.trace.watch.watch_records import JobWatch

_S = 1e-9
# As the scripts of a job name them.
_MPI = "mpi"
_FILES = (".json", call_file.SUFFIX)
# What a reader of steps may be off by: a float of seconds since the epoch.
_NS = 1e9


def read(
    folder: Path, side: SideName, ranks: int, ended: str, step_at: StepEnd = "optimizer"
) -> SideTrace:
    """Read the trace of a side whose job had as many ranks, and write it as OTF2 beside.

    Raises BenchDataError where no rank left a profile, no process calls of MPI, and nothing was
    watched, or the job failed.
    """
    by_rank = process_trace.ranks(process_trace.read(folder))
    traced = [rank for rank in map(_traced, by_rank.values()) if rank is not None]
    calls = mpi_analysis.read(folder, folder.parent / _MPI)
    missing = missing_ranks.missing(by_rank, {rank.rank for rank in traced}, ranks)
    if calls.worlds:
        # A rank of the launcher's that is one of MPI trains nothing, nor does a job without steps.
        placed = calls.places() - by_rank.keys()
        missing = tuple(rank for rank in missing if by_rank and rank.rank not in placed)
    no_trace = None
    if not traced and not calls.worlds:
        no_trace = missing_ranks.nothing(by_rank, missing, step_at, calls.reasons)
    joined = matched.join(traced)
    clocks = matched.clocks(traced, joined) if traced else {}
    joined_calls = mpi_analysis.join(calls, clocks)
    watches = watch_file.read(folder)
    job_watches = ArchiveWatches(watches=watches, clocks=clocks)
    archive = _archived(folder.parent, traced, by_rank, job_watches, calls)
    if any(clock.moved_ns for clock in clocks.values()):
        traced = [rank_activities.on_clock(rank, clocks) for rank in traced]
        joined = matched.join(traced)
    activities = {rank.rank: rank_activities.of(rank, joined.collectives) for rank in traced}
    rows = [_row(rank, activities[rank.rank], by_rank[rank.rank]) for rank in traced]
    archived = {} if isinstance(archive, str) else archive.calls
    is_known = all(by_rank[rank.rank].head.operations or rank.profile.compute for rank in traced)
    watch = _watched(watches, by_rank, activities, clocks, is_computing_known=is_known)
    if no_trace is not None and (watch is None or ended != GOOD):
        raise no_trace.error(folder)
    return SideTrace(
        side=side,
        ended=ended,
        overhead=overhead.of([by_rank[rank.rank] for rank in traced]),
        steps=len(set.intersection(*(set(rank.steps) for rank in traced))) if traced else 0,
        is_computing_known=is_known,
        ranks=tuple(_with_archive(row, archive) for row in rows),
        missing=missing,
        collectives=collective_table.rows(traced, activities, joined),
        clocks=tuple(map(_clock, clocks.values())),
        slowest=critical_path.slowest(traced, activities) if traced else None,
        mpi=mpi_analysis.trace(calls, joined_calls, archived, watches),
        notes=(
            *(_notes(by_rank, joined) if traced else ()),
            *_archive_notes(archive),
        ),
        archive=None if isinstance(archive, str) else f"{otf2_archive.FOLDER}/{ANCHOR}",
        files=tuple(sorted(path.name for path in folder.glob("*") if path.suffix in _FILES)),
        watch=watch,
        no_trace=no_trace,
    )


def _watched(
    watches: Sequence[ProcessWatch],
    by_rank: Mapping[int, ProcessTrace],
    activities: Mapping[int, RankActivities],
    clocks: Mapping[str, NodeClock],
    *,
    is_computing_known: bool,
) -> JobWatch | None:
    """Return what the ranks' clocks saw of their processes, joined with the ranks' profiles."""
    processes = [
        TracedProcess(
            rank=rank,
            boot=boot,
            pid=head.pid,
            moved_ns=clocks[boot].moved_ns,
            is_computing_known=is_computing_known,
        )
        for rank in activities
        if (boot := (head := by_rank[rank].head).boot or head.node)
    ]
    return job_watch.of(watches, *rank_doing.of(processes, activities, watches))


def _archived(
    folder: Path,
    traced: Sequence[TracedRank],
    by_rank: Mapping[int, ProcessTrace],
    job_watches: ArchiveWatches,
    calls: JobCalls,
) -> ArchiveCounts | str:
    """Write OTF2 into a side's folder; return what is in it, or why there is none."""
    profiles = {rank.rank: by_rank[rank.rank].profile(KINETO) for rank in traced}
    ranks = [
        ArchiveRank(
            rank=rank.rank,
            node=rank.node,
            kineto=path,
            moved_ns=job_watches.clocks[rank.boot].moved_ns,
            bound_ns=job_watches.clocks[rank.boot].bound_ns,
        )
        for rank in traced
        if (path := profiles[rank.rank]) is not None
    ]
    return otf2_archive.write(folder / otf2_archive.FOLDER, ranks, calls.worlds, job_watches)


def _archive_notes(archive: ArchiveCounts | str) -> list[str]:
    if isinstance(archive, str):
        return [archive]
    if not archive.unwatched:
        return []
    return [
        f"OTF2 is without {archive.unwatched:,} of the processes, runs and looks of trace/watch-*"
    ]


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
