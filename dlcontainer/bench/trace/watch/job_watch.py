"""From the files of all watches of a job to what is said of its processes and file systems. Pure.

Rows beyond a number are left out, and counted: those with the least time.
"""

from collections.abc import Iterable, Sequence

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace.watch import looks
from dlcontainer.bench.trace.watch.watch_file import (
    ProcessWatch,
    WatchedFileSystem,
    WatchedProcess,
    WatchHead,
)
from dlcontainer.bench.trace.watch.watch_records import (
    DoingLooks,
    FileSystemRow,
    JobWatch,
    ProcessRow,
    RankDoing,
    WaitCause,
)

_MOST_ROWS = 2000


def of(
    watches: Sequence[ProcessWatch],
    doings: tuple[RankDoing, ...] = (),
    causes: tuple[WaitCause, ...] = (),
) -> JobWatch | None:
    """Return what was seen; None where nothing was watched."""
    if not watches:
        return None
    heads = [watch.head for watch in watches]
    rows = [_process(watch, row) for watch in watches for row in watch.head.processes]
    rows.sort(key=lambda row: (row.rank, -row.seconds, row.pid))
    kept = set(sorted(range(len(rows)), key=lambda number: -rows[number].seconds)[:_MOST_ROWS])
    return JobWatch(
        seconds=max(head.seconds for head in heads),
        looks=sum(head.looks for head in heads),
        own_cpu_s=sum(head.own_cpu_s for head in heads),
        processes=tuple(row for number, row in enumerate(rows) if number in kept),
        file_systems=_file_systems(heads),
        doings=doings,
        causes=causes,
        notes=tuple(_notes(heads, len(rows) - len(kept))),
    )


def _process(watch: ProcessWatch, row: WatchedProcess) -> ProcessRow:
    names, counts = watch.device_names(), row.bytes or (None, None, None, None)
    return ProcessRow(
        rank=watch.head.rank,
        node=watch.head.node,
        pid=row.pid,
        name=row.name,
        many=row.many,
        first_s=row.first_s,
        last_s=row.last_s,
        user_s=row.user_s,
        system_s=row.system_s,
        children_s=row.children_s,
        queued_s=row.queued_s,
        peak_bytes=None if row.peak_kib is None else 1024 * row.peak_kib,
        read_bytes=counts[0],
        written_bytes=counts[1],
        device_read_bytes=counts[2],
        device_written_bytes=counts[3],
        threads=row.threads,
        seconds=row.seconds,
        doing=tuple(
            DoingLooks(doing=doing, file_system=names.get(device), looks=count)
            for doing, device, count in sorted(row.main, key=lambda state: -state[2])
        ),
        others=row.others,
    )


def _file_systems(heads: Sequence[WatchHead]) -> tuple[FileSystemRow, ...]:
    rows = [_file_system(head, system) for head in heads for system in head.file_systems]
    some = [row for row in rows if row.waits or row.read_bytes or row.written_bytes]
    return tuple(
        sorted(some, key=lambda row: (-row.thread_s, -row.read_bytes - row.written_bytes, row.rank))
    )


def _file_system(head: WatchHead, system: WatchedFileSystem) -> FileSystemRow:
    return FileSystemRow(
        rank=head.rank,
        node=head.node,
        name=system.name or "not told",
        source=system.source,
        within=system.within,
        read_bytes=system.read_bytes,
        written_bytes=system.written_bytes,
        waits={
            doing: looks.estimate(min(count, head.looks), head.looks, head.seconds)
            for doing, (count, _, _) in system.waits.items()
        },
        thread_s=sum(of_threads for _, _, of_threads in system.waits.values()),
    )


def _notes(heads: Sequence[WatchHead], left_out: int) -> Iterable[str]:
    if left_out:
        yield f"{counted(left_out, 'process', 'processes')} of the least time were left out"
    cut = [head for head in heads if not head.is_over]
    if cut:
        ranks = ", ".join(str(head.rank) for head in cut[:8])
        yield f"the watch of rank {ranks} was killed: what it saw in its last seconds is missing"
    if any(not head.calls_told for head in heads):
        yield "the machine's system calls are not told apart: threads run or wait"
    closed = sum(row.calls_closed for head in heads for row in head.processes)
    if closed:
        yield f"{counted(closed, 'process', 'processes')} showed no system calls (permission)"
    if any(not head.is_adopting for head in heads):
        yield "a process whose parent ended could leave the watch"
    unlogged = sum(head.runs_left_out for head in heads)
    if unlogged:
        yield f"{counted(unlogged, 'look')} late in the job are in no rank's split"
    figures = sum(head.figures_left_out for head in heads)
    if figures:
        yield f"{counted(figures, 'time')} late in the job figures of processes were not kept"
    yield from sorted({note for head in heads for note in head.notes})
