"""What an import asks for, measured on this machine: operations, reads, processor time.

The tree is seen through our counting file system, without delay, by one rank and by two: what the
second adds is each rank's own, the rest the node's. An image is counted the same way, as a file.
"""

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem import counting
from dlcontainer.lab.filesystem.counting import Count, CountingTask
from dlcontainer.lab.slowfs.cache_profiles import Profile
from dlcontainer.lab.slowfs.counters import METADATA
from dlcontainer.lab.slowfs.mounting import helper
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.storm import repeats
from dlcontainer.lab.storm.alternatives import Way
from dlcontainer.lab.storm.loads import LoadMeasurement, Timing
from dlcontainer.lab.storm.repeats import ColdImport, MeasuringNode, WarmImport
from dlcontainer.lab.storm.storm_model import MB, ImportLoad
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner

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
class PackedImport:
    """The same import from an image's file."""

    run: Runnable
    file: Path


def of_prefix(prefix: Path, module: str, environ: Mapping[str, str]) -> Runnable:
    """Return the import of a module by the Python of a folder; raises BenchDataError without
    one.
    """
    python = prefix / "bin/python"
    # Not `exists`, which raises where a folder may not be entered.
    if not os.access(python, os.X_OK):
        raise BenchDataError(
            f"{prefix}: no bin/python in this folder that you may run",
            next_step="give an image, or the folder of a virtual environment or installation",
        )
    quiet = {**environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
    argv = (str(python.absolute()), "-c", f"import {module}")
    return Runnable(argv=argv, environ=quiet, under=prefix.absolute())


def packed(tree: Runnable, work: Path, runner: ProcessRunner) -> PackedImport | None:
    """Return the same import from the tree in one SquashFS; None without the programs."""
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
    return PackedImport(run=run, file=image)


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
        task = CountingTask(argv=what.argv, ranks=ranks, under=what.under, work=folder)
        runner = replace(self.runner, environ=what.environ)
        shown = StandIn(source=what.under, profile=self.profile)
        return counting.count(task, "slowfs", runner, shown).node

    def timed(self, what: Runnable, node: MeasuringNode, name: str) -> Timing:
        """Time warm imports until they agree, then cold ones with prompt and with late reads."""
        runner = replace(self.runner, environ=what.environ)

        def warm() -> WarmImport:
            done = counting.run_one(what.argv, runner)
            return WarmImport(processor_s=done.processor_s, wall_s=done.elapsed)

        def cold(late_s: float) -> ColdImport:
            folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.work))
            task = CountingTask(argv=what.argv, ranks=1, under=what.under, work=folder)
            delay = Delay(read_s=late_s)
            shown = StandIn(source=what.under, profile=self.profile, delay=delay)
            took = counting.count(task, "slowfs", runner, shown).slowest_s
            return ColdImport(wall_s=took, read_turns=shown.counters.counted().read_turns)

        runs = repeats.settled(warm, node)
        self.say("measure how many reads an import waits for")
        return Timing(runs=runs, waits=repeats.waits(cold, _LATE_S))


def measure(
    bench: Bench, tree: Runnable, image: PackedImport | None, subject: str
) -> LoadMeasurement:
    """Count and time; raises BenchDataError where an import fails, or others are too busy here."""
    node = MeasuringNode(cores=len(os.sched_getaffinity(0)), load_1min=round(os.getloadavg()[0], 2))
    bench.say("count a cold import from the tree: one rank, then two")
    first, two = bench.counted(tree, 1, "tree-1"), bench.counted(tree, 2, "tree-2")
    bench.say("time warm imports from the tree")
    timings = {"tree": bench.timed(tree, node, "late")}
    loads: dict[Way, ImportLoad] = {"tree": of_tree(first, two, timings["tree"])}
    size = None
    if image is not None:
        bench.say("count a cold import from the image, and time warm imports")
        image_counts = bench.counted(image.run, 1, "image-1")
        timings["image"] = bench.timed(image.run, node, "late-image")
        loads |= of_image(image_counts, timings["image"], loads["tree"].cpu_s)
        size = image.file.stat().st_size / MB
    return LoadMeasurement(
        loads=loads,
        image_mb=size,
        profile=bench.profile.name,
        subject=subject,
        node=node,
        timings=timings,
    )


def metadata(count: Count) -> int:
    """Add up the metadata operations of a count of our file system's."""
    return sum(count.operations[name] for name in METADATA)


def of_tree(single: Count, two: Count, timing: Timing) -> ImportLoad:
    """Split a node's counts into the node's and each rank's own."""
    rank_calls = max(0, metadata(two) - metadata(single))
    return ImportLoad(
        shared_operations=max(0, metadata(single) - rank_calls),
        own_operations=rank_calls,
        read_waits=timing.waits.reads,
        mb=(single.bytes or 0) / MB,
        cpu_s=repeats.processor_s(timing.runs),
    )


def of_image(image_counts: Count, timing: Timing, tree_s: float) -> dict[Way, ImportLoad]:
    """Return the loads of the ways that have an image; an import from the tree computes for
    `tree_s`.

    The file's pages are in the node's memory for all its ranks, however it is mounted; what a mount
    costs the processor is paid by each rank, or once a node.
    """
    operations = metadata(image_counts)
    image_s = max(tree_s, repeats.processor_s(timing.runs))
    once = ImportLoad(
        shared_operations=operations,
        own_operations=0,
        read_waits=timing.waits.reads,
        mb=(image_counts.bytes or 0) / MB,
        cpu_s=tree_s,
        start_s=image_s - tree_s,
        at_start=True,
    )
    return {
        "image per rank": replace(
            once, shared_operations=0, own_operations=operations, cpu_s=image_s, start_s=0.0
        ),
        "image per node": once,
        "staged": replace(once, shared_operations=0, read_waits=0.0, mb=0.0, at_start=False),
    }
