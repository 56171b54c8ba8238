"""What the watch of a job's processes saw, in words and rows. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.trace.watch import looks
from dlcontainer.bench.trace.watch.watch_records import Doing, FileSystemRow, JobWatch, ProcessRow

if TYPE_CHECKING:
    from dlcontainer.bench.trace.costs import CostLine

COSTS_HEAD = ("what", "seconds", "95 % interval", "looks", "share")
_FILES_HEAD = (
    "file system", "rank", "read, MB", "written, MB", "waiting to read, s", "to write, s",
    "to open and stat, s",
)  # fmt: skip
_PROCESSES_HEAD = (
    "process", "rank", "pid", "seen, s", "user, s", "system, s", "children, s", "queued, s",
    "peak, MiB", "read, MB", "written, MB", "its first thread",
)  # fmt: skip
_NAMES = {
    "poll": "events", "futex": "a thread", "child": "a child", "pipe": "a pipe",
    "socket": "a socket", "read": "reading", "write": "writing", "sync": "syncing",
    "path": "open, stat", "fault": "mapped files", "blocked": "a device", "waiting": "a call",
}  # fmt: skip
_NOT_TOLD = "not told"
_MOST_STATES = 3


def cost(line: "CostLine") -> str:
    """Say a cost: its seconds with their bounds, and its share."""
    bounds = f" [{line.low_s:.3f}, {line.high_s:.3f}], {counted(line.looks, 'look')}"
    return f"{line.seconds:.3f} s{bounds if line.looks else ''}, {100 * line.share:.0f} %"


def cost_rows(lines: "Sequence[CostLine]") -> list[tuple[str, ...]]:
    """Return a row for each cost."""
    return [
        (
            line.what,
            f"{line.seconds:.3f}",
            f"{line.low_s:.3f} to {line.high_s:.3f}" if line.looks else "-",
            f"{line.looks:,}" if line.looks else "-",
            f"{100 * line.share:.0f} %",
        )
        for line in lines
    ]


def notes(watch: JobWatch) -> Iterator[str]:
    """Yield what watching cost, and what it missed."""
    share = 100 * watch.own_cpu_s / watch.seconds if watch.seconds else 0.0
    yield (
        f"processes were looked at {watch.looks:,} times, for {watch.own_cpu_s:.2f} s of a "
        f"processor ({share:.1f} % of one, all ranks together)"
    )
    yield from watch.notes


def tables(watch: JobWatch, most: int) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Yield heads and rows of file systems and of processes, at most so many rows of each."""
    files = sorted(watch.file_systems, key=lambda row: -row.thread_s)[:most]
    yield _FILES_HEAD, [_file_system(row) for row in files]
    rows = sorted(watch.processes, key=_weight)[:most]
    yield _PROCESSES_HEAD, [_process(row) for row in sorted(rows, key=lambda row: row.rank)]


def _weight(row: ProcessRow) -> tuple[float, float]:
    busy = sum(part.looks for part in row.doing if part.doing not in ("child", "asleep"))
    return -(row.user_s + row.system_s), -busy


def _file_system(row: FileSystemRow) -> tuple[str, ...]:
    waits = row.waits
    write = [looks.words(waits[doing]) for doing in ("write", "sync") if doing in waits]
    return (
        row.name or f"of files and paths that are {_NOT_TOLD}",
        str(row.rank),
        _mb(row.read_bytes),
        _mb(row.written_bytes),
        looks.words(waits["read"]) if "read" in waits else "-",
        " + ".join(write) or "-",
        looks.words(waits["path"]) if "path" in waits else "-",
    )


def _process(row: ProcessRow) -> tuple[str, ...]:
    return (
        row.name if row.many == 1 else f"{row.name}, {row.many:,} of them",
        str(row.rank),
        str(row.pid) if row.many == 1 else "-",
        f"{row.first_s:.1f} to {row.last_s:.1f}",
        f"{row.user_s:.2f}",
        f"{row.system_s:.2f}",
        f"{row.children_s:.2f}",
        _NOT_TOLD if row.queued_s is None else f"{row.queued_s:.2f}",
        _NOT_TOLD if row.peak_bytes is None else f"{row.peak_bytes / 2**20:.0f}",
        _mb(row.read_bytes),
        _mb(row.written_bytes),
        _states(row),
    )


def _states(row: ProcessRow) -> str:
    of = sum(part.looks for part in row.doing)
    words = []
    for part in row.doing[:_MOST_STATES]:
        time = looks.estimate(part.looks, of, row.seconds)
        words.append(f"{state(part.doing, part.file_system)} {looks.words(time)}")
    return "; ".join(words) or "no look"


def state(doing: Doing, file_system: str | None) -> str:
    """Say what a thread was seen at."""
    name = _NAMES.get(doing, doing)
    return f"{name} {file_system}" if file_system else name


def _mb(count: int | None) -> str:
    return _NOT_TOLD if count is None else f"{count / 1e6:.1f}"
