"""What an import asks for, measured on this machine: operations, reads, warm seconds.

The tree is seen through our counting file system, without delay, by one rank and by two: what the
second adds is each rank's own, the rest the node's. An image is counted the same way, as a file.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dlcontainer.bench.filesystem import counting
from dlcontainer.bench.filesystem.counting import Count, Task
from dlcontainer.bench.slowfs.cache_profiles import Profile
from dlcontainer.bench.slowfs.counters import METADATA
from dlcontainer.bench.slowfs.mounting import helper
from dlcontainer.bench.slowfs.passthrough import Delay
from dlcontainer.bench.slowfs.server import StandIn
from dlcontainer.bench.storm.alternatives import Way
from dlcontainer.bench.storm.model import MB, Load
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files, report_files
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner

_MOST_BYTES = 64_000_000
SCHEMA = "dlcontainer/loads/1"
_WARM_RUNS = 3
# Long enough that a busy machine's own delays are small beside some hundred of them.
_LATE_S = 0.01
# $1 the image, $2 where, $3 the unmounter; the rest is run once it is mounted.
_THROUGH_IMAGE = """
image=$1 point=$2 unmount=$3; shift 3
mkdir -p "$point" && squashfuse -o auto_unmount "$image" "$point" || exit 1
"$@"; code=$?
"$unmount" -u -z "$point"
exit $code
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Runnable:
    """A command that imports, its environment, and the folder or file's folder it reads."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    under: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """The same import from an image's file."""

    run: Runnable
    file: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The loads of each way, the image's size, and what they were counted with."""

    loads: Mapping[Way, Load]
    image_mb: float | None
    profile: str
    subject: str


def of_prefix(prefix: Path, module: str, environ: Mapping[str, str]) -> Runnable:
    """Give the import of a module by the Python of a folder; raises BenchDataError without one."""
    python = prefix / "bin/python"
    # Not `exists`, which raises where a folder may not be entered.
    if not os.access(python, os.X_OK):
        raise BenchDataError(
            f"{prefix}: there is no bin/python in it that you may run",
            next_step="give an image, or the folder of a virtual environment or installation",
        )
    quiet = {**environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
    argv = (str(python.absolute()), "-c", f"import {module}")
    return Runnable(argv=argv, environ=quiet, under=prefix.absolute())


def packed(tree: Runnable, work: Path, runner: ProcessRunner) -> Packed | None:
    """Give the same import from the tree in one SquashFS; None without the programs."""
    programs = [find_program(name, runner.environ) for name in ("mksquashfs", "squashfuse")]
    if None in programs:
        return None
    folder = work / "packed"
    folder.mkdir()
    image, point = folder / "tree.squashfs", work / "inside"
    # As images are packed: it stands for one.
    argv = [str(programs[0]), str(tree.under), str(image), "-quiet", "-no-progress", *SQUASH]
    runner(argv, timeout=3600)
    inside = [word.replace(str(tree.under), str(point)) for word in tree.argv]
    unmount = str(helper(runner.environ))
    script = ("/bin/sh", "-c", _THROUGH_IMAGE, "sh", str(image), str(point), unmount)
    run = Runnable(argv=(*script, *inside), environ=tree.environ, under=folder)
    return Packed(run=run, file=image)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """With what it is measured: a folder of ours, the door to processes, the clients' caching."""

    work: Path
    runner: ProcessRunner
    profile: Profile
    say: Callable[[str], None]

    def counted(self, what: Runnable, ranks: int, name: str) -> Count:
        """Count one cold import of some ranks on a node."""
        folder = self.work / name
        folder.mkdir()
        task = Task(argv=what.argv, ranks=ranks, under=what.under, work=folder)
        runner = replace(self.runner, environ=what.environ)
        shown = StandIn(source=what.under, profile=self.profile)
        return counting.count(task, "slowfs", runner, shown).node

    def read_waits(self, what: Runnable, name: str) -> float:
        """Tell how many reads a cold import waits for, from what a late answer to each costs."""
        took: list[float] = []
        for late_s in (0.0, _LATE_S):
            folder = self.work / f"{name}-{len(took)}"
            folder.mkdir()
            task = Task(argv=what.argv, ranks=1, under=what.under, work=folder)
            delay = Delay(read_s=late_s)
            shown = StandIn(source=what.under, profile=self.profile, delay=delay)
            runner = replace(self.runner, environ=what.environ)
            took.append(counting.count(task, "slowfs", runner, shown).slowest_s)
        return max(0.0, (took[1] - took[0]) / _LATE_S)

    def warm_s(self, what: Runnable) -> float:
        """Give the quickest of some warm imports, s: what is left when no file is waited for."""
        runner = replace(self.runner, environ=what.environ)
        found = [counting.run_ranks([what.argv], [runner], 600.0)[0] for _ in range(_WARM_RUNS)]
        return min(found)


def measure(bench: Bench, tree: Runnable, image: Packed | None, subject: str) -> Measured:
    """Count and time; raises BenchDataError where an import fails."""
    bench.say("count a cold import from the tree: one rank, then two")
    one, two = bench.counted(tree, 1, "tree-1"), bench.counted(tree, 2, "tree-2")
    warm = bench.warm_s(tree)
    bench.say("see how many reads are waited for")
    loads: dict[Way, Load] = {"tree": of_tree(one, two, bench.read_waits(tree, "late"), warm)}
    size = None
    if image is not None:
        bench.say("count a cold import from the image")
        seen, slower = bench.counted(image.run, 1, "image-1"), bench.warm_s(image.run)
        waits = bench.read_waits(image.run, "late-image")
        loads |= of_image(seen, waits, warm, max(warm, slower))
        size = image.file.stat().st_size / MB
    return Measured(loads=loads, image_mb=size, profile=bench.profile.name, subject=subject)


def metadata(count: Count) -> int:
    """Add up the metadata operations of a count of our file system's."""
    return sum(count.operations[name] for name in METADATA)


def of_tree(one: Count, two: Count, read_waits: float, warm_s: float) -> Load:
    """Split a node's counts into the node's and each rank's own."""
    own = max(0, metadata(two) - metadata(one))
    return Load(
        shared_operations=max(0, metadata(one) - own),
        own_operations=own,
        read_waits=read_waits,
        mb=(one.bytes or 0) / MB,
        cpu_s=warm_s,
    )


def of_image(seen: Count, read_waits: float, tree_s: float, image_s: float) -> dict[Way, Load]:
    """Give the loads of the ways that have an image.

    The file's pages are in the node's memory for all its ranks, however it is mounted; what a mount
    costs the processor is paid by each rank, or once a node.
    """
    operations = metadata(seen)
    once = Load(
        shared_operations=operations,
        own_operations=0,
        read_waits=read_waits,
        mb=(seen.bytes or 0) / MB,
        cpu_s=tree_s,
        start_s=image_s - tree_s,
    )
    return {
        "image per rank": replace(
            once, shared_operations=0, own_operations=operations, cpu_s=image_s, start_s=0.0
        ),
        "image per node": once,
        "staged": replace(once, shared_operations=0, read_waits=0.0, mb=0.0),
    }


def write(measured: Measured, path: Path) -> None:
    """Keep what was measured, to predict from it again; raises BenchDataError where it can't."""
    body = {"schema": SCHEMA, **asdict(measured)}
    report_files.write(json.dumps(body, indent=1) + "\n", path, "--keep")


def read(path: Path) -> Measured:
    """Read what was kept; raises BenchDataError for another kind of file."""
    try:
        body = foreign_files.loads(foreign_files.read(path, _MOST_BYTES))
        if body.pop("schema") != SCHEMA:
            raise KeyError("schema")
        loads = {way: Load(**load) for way, load in body.pop("loads").items()}
        return Measured(loads=loads, **body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BenchDataError(
            f"{path} holds no measured loads",
            why=str(error),
            next_step="make one: dlcontainer bench storm IMAGE|PREFIX --keep FILE.json",
        ) from None
