#!/usr/bin/env python3
"""What a cold import gains from files in the order of a trace: two SquashFS of one tree.

From this machine's disk, the file's pages thrown out and shown to be gone; and from the stand-in
for a parallel file system, where the reads are counted too. A benchmark, not a test.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import (
    Row,
    Samples,
    as_json,
    describe,
    interleave,
    machine_facts,
    ratio,
    table,
)
from dlcontainer.build.file_order import sort
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import sif
from dlcontainer.image.contents import FolderTree
from dlcontainer.lab.filesystem import counting
from dlcontainer.lab.filesystem.microbenchmark import resident
from dlcontainer.lab.slowfs.counters import CounterSnapshot
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.machine import find_program, mount_of
from dlcontainer.system.process import ProcessRunner

NAMES = ("as it comes", "by the trace")
PLACES = ("disk", "stand-in")
QUIET = ("-noappend", "-quiet", "-no-progress")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """Two images of one tree, what is imported from them, and what the stand-in counted."""

    engine: Apptainer
    runner: ProcessRunner
    folder: Path
    import_argv: tuple[str, ...]
    read_ms: float
    seen: dict[str, list[CounterSnapshot]] = field(default_factory=dict)

    def image(self, name: str) -> Path:
        """The image that is packed so."""
        return self.folder / "images" / f"{NAMES.index(name)}.sqfs"

    def run(self, image: Path) -> float:
        """Import once from an image; tell the seconds."""
        spec = RunSpec(image=image, argv=self.import_argv, mode="userns")
        env = apptainer.environment(self.runner.environ)
        began = time.perf_counter()
        self.runner(self.engine.run_argv(spec), env=env, cwd=self.folder, timeout=600)
        return time.perf_counter() - began

    def from_disk(self, name: str) -> Callable[[], float]:
        """Return the import from a file of which no page is in memory."""

        def action() -> float:
            forget(self.image(name))
            return self.run(self.image(name))

        return action

    def from_stand_in(self, name: str) -> Callable[[], float]:
        """Return the import from a slow file system, mounted for it alone; its reads are kept."""

        def action() -> float:
            delay = Delay(operation_s=self.read_ms / 1000, read_s=self.read_ms / 1000)
            shown = StandIn(source=self.folder / "images", delay=delay)
            with (
                tempfile.TemporaryDirectory(prefix="dlcontainer-order-") as point,
                shown.mounted(Path(point), self.runner),
            ):
                seconds = self.run(Path(point) / self.image(name).name)
                self.seen.setdefault(name, []).append(shown.counters.counted())
            return seconds

        return action


def forget(file: Path) -> None:
    """Throw a file's pages out of memory; ends the program where some stay."""
    number = os.open(file, os.O_RDONLY)
    try:
        os.fsync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        share = resident(number, file.stat().st_size)
    finally:
        os.close(number)
    if share != 0:
        raise SystemExit(f"not cold: {share} of {file.name} is still in memory")


def main() -> None:
    """Measure, print the tables or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder is removed then too
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name:
        bench, tree = _prepare(Path(name), options)
        makers = {"disk": bench.from_disk, "stand-in": bench.from_stand_in}
        actions = {f"{at} {one}": makers[at](one) for at in options.places for one in NAMES}
        samples = interleave(actions, rounds=options.n, seed=options.seed)
        sizes = {one: bench.image(one).stat().st_size / 1e6 for one in NAMES}
    rows = _rows(samples, bench.seen, sizes)
    facts = machine_facts() | {"disk": mount_of(options.folder).kind}
    if options.json:
        more = {"rounds": options.n, "seed": options.seed, "samples_s": samples}
        more |= {"tree": tree, "read_ms": options.read_ms, "sizes_mb": sizes}
        print(as_json("order", facts, rows, **more))
        return
    print(describe(facts))
    print(
        f"import {options.module}: {tree['files']} files of the trace; disk: {facts['disk']}; "
        f"stand-in: {options.read_ms:g} ms a call; {options.n} rounds\n"
    )
    print(table(rows, sides=NAMES))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, help="an image of dlcontainer's (.sif)")
    parser.add_argument("--module", default="torch", help="what is imported (default torch)")
    parser.add_argument("--python", default="/opt/pytorch/bin/python", help="the image's Python")
    parser.add_argument("-n", type=int, default=8, help="rounds (default 8)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--read-ms", type=float, default=5.0, help="of the stand-in (default 5)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="folder on disk (default /var/tmp)"
    )
    parser.add_argument("--places", nargs="+", choices=PLACES, default=PLACES, help="(both)")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    for program in ("mksquashfs", "unsquashfs", "strace"):
        if find_program(program, os.environ) is None:
            parser.error(f"no {program} on PATH")
    return options


def _prepare(folder: Path, options: argparse.Namespace) -> tuple[Bench, Mapping[str, int]]:
    """Trace an import from the image, unpack it, pack its tree both ways."""
    runner = ProcessRunner(environ=dict(os.environ))
    bench = Bench(
        engine=apptainer.find(os.environ),
        runner=runner,
        folder=folder,
        import_argv=(options.python, "-c", f"import {options.module}"),
        read_ms=options.read_ms,
    )
    spec = RunSpec(image=options.image.absolute(), argv=bench.import_argv, mode="userns")
    task = counting.CountingTask(
        argv=tuple(bench.engine.run_argv(spec)), ranks=1, under=None, work=folder
    )
    trace = counting.count(task, "strace", runner).trace(None)
    tree, offset = folder / "tree", sif.tree(options.image).offset
    unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(offset), "-d", str(tree)]
    runner([*unpack, str(options.image)], timeout=600)
    made = sort(trace, FolderTree(folder=tree).entries())
    (folder / "sort.list").write_bytes(made.text)
    (folder / "images").mkdir()
    ways: tuple[Sequence[str], ...] = ((), ("-sort", str(folder / "sort.list")))
    for name, more in zip(NAMES, ways, strict=True):
        argv = ["mksquashfs", str(tree), str(bench.image(name)), *QUIET, *SQUASH, *more]
        runner(argv, timeout=600)
    return bench, {"files": made.files, "strangers": made.strangers}


def _rows(
    samples: Samples, seen: Mapping[str, Sequence[CounterSnapshot]], sizes: Mapping[str, float]
) -> list[Row]:
    plain, ordered = NAMES
    # The round before the first is thrown away there too.
    counted = {name: one[1:] for name, one in seen.items()}
    found = [
        (f"cold import, {at}", samples[f"{at} {plain}"], samples[f"{at} {ordered}"], "s")
        for at in PLACES
        if f"{at} {plain}" in samples
    ]
    if counted:
        for what, unit, value in (
            ("calls that reach the stand-in", "", lambda one: float(one.metadata + one.reads)),
            ("read from it", "MB", lambda one: one.bytes / 1e6),
        ):
            one, other = ([value(each) for each in counted[name]] for name in NAMES)
            found.append((what, one, other, unit))
    found.append(("size", [sizes[plain]], [sizes[ordered]], "MB"))
    return [
        Row(
            what=what,
            ours=f"{median(one):.4g} {unit}".rstrip(),
            theirs=f"{median(other):.4g} {unit}".rstrip(),
            value=ratio(other, one),
        )
        for what, one, other, unit in found
    ]


if __name__ == "__main__":
    main()
