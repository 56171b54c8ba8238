"""Launches that show what a packing costs: mounts, imports, and the processor time of both.

An image is mounted as an instance by the engine itself, so that the mount, the first rank and one
that finds the mount warm can be told apart. What the FUSE process took is read from /proc: it is
no child of this program.
"""

import os
import resource
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.order import forget
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.lab.filesystem import counting
from dlcontainer.lab.filesystem.counting import Count
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.process import ProcessRunner

MODE = "userns"
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Seconds of one instance: its mount, its first import, a later one; s of the processor."""

    mount_s: float
    first_s: float
    later_s: float
    first_processor_s: float
    later_processor_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Launcher:
    """Imports from images, and from a folder that has an image's tree."""

    engine: Apptainer
    runner: ProcessRunner
    folder: Path
    argv: tuple[str, ...]

    def launch(self, image: Path, *, cold: bool) -> Launch:
        """Mount an image (or enter a tree), import twice, end it."""
        if cold:
            forget(image)
        name = f"dlc-{uuid.uuid4().hex[:8]}"
        spec = RunSpec(image=image, argv=self.argv, mode=MODE)
        begin = self.engine.start_argv(spec, name)
        noted = self.folder / "pid"
        mount_s, _ = self._timed([*begin[:-2], "--pid-file", str(noted), *begin[-2:]])
        try:
            server = _server(int(noted.read_text()))
            first, later = (self._join(spec, name, server) for _ in range(2))
        finally:
            self._timed(self.engine.stop_argv(name))
        return Launch(
            mount_s=mount_s,
            first_s=first[0],
            later_s=later[0],
            first_processor_s=first[1],
            later_processor_s=later[1],
        )

    def counted(self, image: Path, ranks: int = 1) -> Count:
        """Count what a cold import, its mount included, asks of the file system."""
        under = image if image.is_dir() else image.parent
        argv = tuple(self.engine.run_argv(RunSpec(image=image, argv=self.argv, mode=MODE)))
        with tempfile.TemporaryDirectory(prefix="dlcontainer-squash-") as work:
            task = counting.CountingTask(argv=argv, ranks=ranks, under=under, work=Path(work))
            return counting.count(task, "slowfs", self.runner, StandIn(source=under)).node

    def _join(self, spec: RunSpec, name: str, server: int | None) -> tuple[float, float]:
        before = spent(server)
        seconds, processor_s = self._timed(self.engine.join_argv(spec, name))
        return seconds, processor_s + spent(server) - before

    def _timed(self, argv: Sequence[str]) -> tuple[float, float]:
        environ = apptainer.environment(self.runner.environ, state=self.folder / "state")
        return timed(argv, environ)


def timed(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[float, float]:
    """Run a command to its end; tell the seconds, and those of the processor."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        argv, env=environ, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        raise SystemExit(f"`{' '.join(argv)}` ended with {done.returncode}:\n{said}")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _server(inside: int) -> int | None:
    """Find the FUSE process of an instance: the engine starts it beside the instance's first."""
    parent = _stat(inside)[1]
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"squashfuse" in words[0] and _stat(int(entry.name))[1] == parent:
                return int(entry.name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
    return None  # a tree has none


def spent(process: int | None) -> float:
    """Return the words for the processor seconds of a process so far; none has spent none."""
    if process is None:
        return 0.0
    fields = _stat(process)
    return (fields[11] + fields[12]) / _TICKS


def _stat(process: int) -> list[int]:
    """Return the fields of /proc/PID/stat after the name, the state as 0 (proc(5))."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    return [0, *(int(word) for word in text.rpartition(")")[2].split()[1:])]
