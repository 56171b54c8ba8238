"""A counting run: what a command asks of the file system, by rank and by node.

A run of its own: tracing slows what it counts. strace sees every call that a process makes,
whether or not the client's cache answers it; our FUSE counters see what reaches the file system;
audit hooks see only what Python opens and lists. So the tool stands beside each figure.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import JsonValue

from dlcontainer.errors import BenchDataError, ChecksFailedError, UsageError
from dlcontainer.image import open_trace
from dlcontainer.image.open_trace import Trace
from dlcontainer.lab.filesystem import strace
from dlcontainer.lab.filesystem.count_file import CountingRun, FileSystemCounts, ImportNode, Tool
from dlcontainer.lab.slowfs.mounting import DEVICE, helper
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system import foreign_files
from dlcontainer.system.background import BackgroundTask as Running
from dlcontainer.system.background import BackgroundWork, beside
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import (
    CommandFailedError,
    CommandNotFoundError,
    CommandTimeoutError,
    CompletedCommand,
    ProcessRunner,
)

SEES: Mapping[Tool, str] = {
    "strace": "calls that processes make, whoever answers them; mapped pages are no reads",
    "slowfs": "what reaches the file system, past the client's caches",
    "audit": "what Python opens and lists; no stat, no read, no library that a library opens",
}
_MOST_COUNTS = 64_000_000  # bytes of what one process of a command counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """Counts of one rank or of a node; `files` were opened, in order of first open."""

    operations: Mapping[str, int]
    bytes: int | None
    files: tuple[str, ...]

    def described(self) -> FileSystemCounts:
        """Return it as it is written, with files by suffix."""
        return FileSystemCounts(
            operations=dict(sorted(self.operations.items())),
            bytes=self.bytes,
            unique_files=len(self.files),
            pyc=sum(1 for path in self.files if Path(path).suffix == ".pyc"),
            so=sum(1 for path in self.files if ".so" in Path(path).suffixes),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class CountingResult:
    """A counting run's outcome."""

    tool: Tool
    ranks: tuple[Count, ...]
    node: Count
    slowest_s: float
    setting: Mapping[str, JsonValue] = field(default_factory=dict)

    def of(self, command: Sequence[str], imports: Sequence[ImportNode] = ()) -> CountingRun:
        """Return it as it is written; `imports` is the import tree, empty where none was asked."""
        return CountingRun(
            command=tuple(command),
            tool=self.tool,
            sees=SEES[self.tool],
            ranks=len(self.ranks) or None,
            per_rank=tuple(count.described() for count in self.ranks),
            per_node=self.node.described(),
            slowest_s=self.slowest_s,
            setting=dict(self.setting),
            imports=tuple(imports),
        )

    def trace(self, under: Path | None) -> Trace:
        """Return the files that were opened, in order, relative to `under` or to '/'.

        Raises BenchDataError where there is none.
        """
        roots = [str(under.absolute()), str(under.resolve())] if under else ["/"]
        # What our file system showed is relative to it.
        shown = self.tool == "slowfs"
        files = (f"/{file}" for file in self.node.files) if shown else self.node.files
        trace = open_trace.of_files(files, ["/"] if shown else roots)
        if not trace.paths:
            raise BenchDataError("no trace: the command opened no file in the traced folder")
        return trace


@dataclass(frozen=True, kw_only=True, slots=True)
class CountingTask:
    """What is run, how often at once, and below which folder files count."""

    argv: tuple[str, ...]
    ranks: int
    under: Path | None
    work: Path
    timeout_s: float = 600.0


def choose(tool: Tool | None, under: Path | None, runner: ProcessRunner) -> Tool:
    """Choose the tool: strace where present, else our FUSE counters, else audit hooks.

    Raises ChecksFailedError where the one that was asked for is not available.
    """
    if tool == "strace" or tool is None:
        if find_program("strace", runner.environ) is not None:
            return "strace"
        if tool == "strace":
            raise ChecksFailedError(
                "strace not found", next_step="install strace, or use --with slowfs"
            )
    if tool == "slowfs":
        helper(runner.environ)
        return "slowfs"
    if tool is None and under is not None and os.access(DEVICE, os.R_OK | os.W_OK):
        return "slowfs"
    return "audit"


def count(
    task: CountingTask, tool: Tool, runner: ProcessRunner, shown: StandIn | None = None
) -> CountingResult:
    """Run the ranks at once and count; raises BenchDataError where one fails.

    `shown` is the file system that the tool slowfs mounts, else one without any delay.
    """
    if tool == "strace":
        return _by_strace(task, runner)
    if tool == "slowfs":
        return _by_slowfs(task, runner, shown)
    return _by_audit(task, runner)


def run_ranks(
    commands: Sequence[Sequence[str]], runners: Sequence[ProcessRunner], timeout_s: float
) -> list[float]:
    """Start all commands at once and wait for all; return each one's seconds.

    Raises BenchDataError with the last words of the first rank that fails. When this ends, by an
    interruption too, none of them runs any more.
    """
    with beside(runners[0]) as crew:
        environs = [runner.environ for runner in runners]
        return [done.elapsed for done in _crewed(crew, commands, environs, timeout_s)]


def run_one(
    argv: Sequence[str], runner: ProcessRunner, timeout_s: float = 600.0
) -> CompletedCommand:
    """Run one rank alone; raises BenchDataError with its last words where it fails."""
    with beside(runner) as crew:
        return _crewed(crew, [argv], [runner.environ], timeout_s)[0]


def _crewed(
    crew: BackgroundWork,
    commands: Sequence[Sequence[str]],
    environs: Sequence[Mapping[str, str]],
    timeout_s: float,
) -> list[CompletedCommand]:
    def start(argv: Sequence[str], environ: Mapping[str, str]) -> Running[CompletedCommand]:
        return crew.start(lambda runner: runner(argv, env=environ, timeout=timeout_s))

    started = [start(*launch) for launch in zip(commands, environs, strict=True)]
    ended: list[CompletedCommand] = []
    failures: list[str] = []
    for rank, running in enumerate(started):
        try:
            ended.append(running.result())
        except CommandFailedError as error:
            stderr = " ".join(error.completed.stderr.split())[-400:]
            failures.append(f"rank {rank}: {error}: {stderr}")
        except (CommandNotFoundError, CommandTimeoutError) as error:
            failures.append(f"rank {rank}: {error}")
    if failures:
        raise BenchDataError("a rank of the command failed", why=failures[0])
    return ended


def _by_strace(task: CountingTask, runner: ProcessRunner) -> CountingResult:
    program = find_program("strace", runner.environ)
    logs = [task.work / f"strace.{rank}" for rank in range(task.ranks)]
    traced = ",".join(f"?{name}" for name in strace.CALLS)
    options = ["-f", "-qq", "-y", "-s", "0", "-e", f"trace={traced}", "-e", "signal=none"]
    commands = [[str(program), *options, "-o", str(log), "--", *task.argv] for log in logs]
    seconds = run_ranks(commands, [runner] * task.ranks, task.timeout_s)
    folders = [] if task.under is None else [str(task.under.absolute()), str(task.under.resolve())]
    ranks = []
    for log in logs:
        with log.open(encoding="utf-8", errors="surrogateescape") as lines:
            totals = strace.total(strace.calls(lines), folders)
        ranks.append(Count(operations=totals.operations, bytes=totals.bytes, files=totals.files))
    return CountingResult(
        tool="strace", ranks=tuple(ranks), node=_sum(ranks), slowest_s=max(seconds)
    )


def _by_slowfs(task: CountingTask, runner: ProcessRunner, shown: StandIn | None) -> CountingResult:
    if task.under is None:
        raise UsageError(
            "--with slowfs requires --under",
            next_step="name the folder to count in: --under FOLDER",
        )
    under = task.under.absolute()
    shown = shown or StandIn(source=under)
    point = task.work / "mount"
    point.mkdir()
    # Another path for the same files: nobody else's processes come to see the mount.
    words = [word.replace(str(under), str(point)) for word in task.argv]
    if words == list(task.argv):
        raise UsageError(
            f"--under {under}: the command does not name this folder",
            why="the counting file system has another path, which replaces the folder in the "
            "command",
            next_step="name the folder's files by their absolute paths in the command",
        )
    commands, environs = [words] * task.ranks, [runner.environ] * task.ranks
    # The mount ends first: a rank that waits for an answer can't be killed.
    with beside(runner) as crew, shown.mounted(point, runner):
        seconds = [done.elapsed for done in _crewed(crew, commands, environs, task.timeout_s)]
        counts = shown.counters.counted()
    node = Count(operations=counts.operations, bytes=counts.bytes, files=counts.files)
    ranks = (node,) if task.ranks == 1 else ()
    return CountingResult(
        tool="slowfs", ranks=ranks, node=node, slowest_s=max(seconds), setting=shown.setting()
    )


def _by_audit(task: CountingTask, runner: ProcessRunner) -> CountingResult:
    source = Path(__file__).with_name("audit_hook.py")
    hooks = task.work / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_bytes(source.read_bytes())
    runners = []
    for rank in range(task.ranks):
        folder = task.work / f"audit.{rank}"
        folder.mkdir()
        path = os.pathsep.join(filter(None, [str(hooks), runner.environ.get("PYTHONPATH", "")]))
        more = {"PYTHONPATH": path, "DLCONTAINER_AUDIT": str(folder)}
        runners.append(replace(runner, environ={**runner.environ, **more}))
    seconds = run_ranks([task.argv] * task.ranks, runners, task.timeout_s)
    ranks = [_audited(task.work / f"audit.{rank}", task.under) for rank in range(task.ranks)]
    return CountingResult(
        tool="audit", ranks=tuple(ranks), node=_sum(ranks), slowest_s=max(seconds)
    )


def _audited(folder: Path, under: Path | None) -> Count:
    written = sorted(folder.glob("*.json"))
    if not written:
        raise BenchDataError(
            "the audit hooks counted nothing",
            why="no Python process loaded sitecustomize: the command runs no Python, or Python "
            "with -I or -S",
            next_step="install strace, or use --under FOLDER on a machine with FUSE",
        )
    files: Counter[str] = Counter()
    listed: Counter[str] = Counter()
    for file in written:
        body = foreign_files.loads(foreign_files.read(file, _MOST_COUNTS))
        files.update(body["opened"])
        listed.update(body["listed"])
    inside = [str(under.absolute()), str(under.resolve())] if under else [""]

    def kept(paths: Iterable[str]) -> list[str]:
        whole = [os.path.abspath(path) for path in paths]  # noqa: PTH100 - links stay
        return [path for path in whole if any(path.startswith(prefix) for prefix in inside)]

    return Count(
        operations={
            "open": sum(files[path] for path in files if kept([path])),
            "readdir": sum(listed[path] for path in listed if kept([path])),
        },
        bytes=None,
        files=tuple(dict.fromkeys(kept(files))),
    )


def _sum(ranks: Sequence[Count]) -> Count:
    operations: Counter[str] = Counter()
    for rank in ranks:
        operations.update(rank.operations)
    sizes = [rank.bytes for rank in ranks]
    return Count(
        operations=dict(operations),
        bytes=None if None in sizes else sum(size or 0 for size in sizes),
        files=tuple(dict.fromkeys(file for rank in ranks for file in rank.files)),
    )
