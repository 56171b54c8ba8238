#!/usr/bin/env python3
"""Import by several ranks, warm: native trees, and images with and without a module pack.

The image's mount is kept (one for all ranks of the node), or fresh (one for each rank, by the
engine). All sides take turns in an order drawn by chance. A benchmark, not a test.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from collections import Counter
from dataclasses import dataclass, field
from statistics import median

from benchmarks.sampling import Row, as_json, describe, interleave, machine_facts, ratio, table
from benchmarks.squash_runs import Launcher, spent
from dlcontainer.engines import apptainer
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import sif
from dlcontainer.system.process import ProcessRunner

REQUEST = re.compile(r"opcode: (\w+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """How a Python is started, the server of its mount, and the processor seconds of launches."""

    argv: Sequence[str]
    server: int | None = None
    processor_s: list[float] = field(default_factory=list)

    def spent(self) -> float:
        """Return the processor seconds of all ended children, and of the server."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime + spent(self.server)


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    facts, rows, samples, requests, cold = machine_facts(), [], {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="dlcontainer-pack-") as name, ExitStack() as stack:
        work = Path(name)
        sides = {
            what: Side(argv=[str(prefix / "bin/python")]) for what, prefix in options.native.items()
        }
        for what, image in options.image.items():
            if "requests" in options.measure:
                requests[what] = counted(image, work / f"{what} counted", options)
            if "cold" in options.measure:
                cold[what] = counted_cold(image, work, options)
            server = stack.enter_context(mounted(image, work / what))
            argv = _inside(work / what, options)
            sides[f"{what}, kept mount"] = Side(argv=argv, server=server)
            if "fresh" in options.measure:
                sides[f"{what}, fresh mount"] = Side(argv=_inside(image, options))
        for ranks in options.ranks:
            actions = {
                what: _starter(side, f"import {options.module}", ranks)
                for what, side in sides.items()
            }
            taken = interleave(actions, rounds=options.n, seed=options.seed)
            # The round before the first is thrown away there too.
            processor = {what: side.processor_s[-options.n :] for what, side in sides.items()}
            samples[str(ranks)] = {"seconds": taken, "processor seconds": processor}
            for unit, values in samples[str(ranks)].items():
                rows += _rows(values, next(iter(options.native)), f"{ranks} ranks, {unit}")
    if options.json:
        print(as_json("pack", facts, rows, samples=samples, requests=requests, cold=cold))
        return
    print(describe(facts))
    print(table(rows, sides=("native", "this")))
    for what, seen in requests.items():
        print(f"{what}: {sum(seen.values())} requests of a warm import: {dict(seen)}")
    for what, figures in cold.items():
        print(f"{what}: a fresh mount and an import: {dict(figures)}")


def counted(image: Path, point: Path, options: argparse.Namespace) -> Mapping[str, int]:
    """Count what a warm import asks the server of the mount; exact, whatever else runs."""
    log = point.with_name(f"{point.name}.log")
    action = _starter(Side(argv=_inside(point, options)), f"import {options.module}", 1)
    with mounted(image, point, log=log):
        action()
        before = log.stat().st_size
        action()
        text = log.read_bytes()[before:].decode(errors="replace")
    return dict(Counter(REQUEST.findall(text)).most_common())


def counted_cold(image: Path, work: Path, options: argparse.Namespace) -> Mapping[str, float]:
    """Count the calls of a fresh mount and an import that reach a shared file system."""
    launcher = Launcher(
        engine=apptainer.find(os.environ),
        runner=ProcessRunner(environ=dict(os.environ)),
        folder=work,
        argv=(options.python, "-c", f"import {options.module}"),
    )
    seen = launcher.counted(image)
    return {"calls": sum(seen.operations.values()), "MB": round((seen.bytes or 0) / 1e6, 1)}


@contextmanager
def mounted(image: Path, point: Path, *, log: Path | None = None) -> Iterator[int]:
    """Mount an image's tree, as DLCONTAINER_KEEP does, and return the server's process.

    `log`: the server tells each request there.
    """
    point.mkdir()
    argv = ["squashfuse_ll", "-f", *(["-d"] if log else [])]
    # Read-only, as wrappers and the engine mount: else the kernel asks for times after reads.
    argv += ["-o", f"ro,offset={sif.tree(image).offset}", str(image), str(point)]
    with (log or Path(os.devnull)).open("wb") as out:
        server = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        while not point.is_mount():
            if server.poll() is not None:
                raise SystemExit(f"{image}: squashfuse_ll can't mount it")
            time.sleep(0.05)
        yield server.pid
    finally:
        subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False)
        server.wait()


def _inside(image: Path, options: argparse.Namespace) -> list[str]:
    engine = apptainer.find(os.environ)
    return list(engine.run_argv(RunSpec(image=image, argv=(options.python,), mode="userns")))


def _starter(side: Side, program: str, ranks: int) -> Callable[[], float]:
    """Return the action: start ranks at once, tell the seconds until the last one has imported."""
    argv = [*side.argv, "-c", program]

    def action() -> float:
        env = apptainer.environment(os.environ)
        before, began = side.spent(), time.perf_counter()
        started = [subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL) for _ in range(ranks)]
        codes = [one.wait() for one in started]
        if any(codes):
            raise SystemExit(f"`{' '.join(argv)}` failed")
        seconds = time.perf_counter() - began
        side.processor_s.append(side.spent() - before)
        return seconds

    return action


def _rows(samples: Mapping[str, Sequence[float]], reference: str, how: str) -> list[Row]:
    return [
        Row(
            what=f"{what}, {how}",
            ours=f"{median(samples[reference]):.3g} s",
            theirs=f"{median(values):.3g} s",
            value=ratio(values, samples[reference]),
        )
        for what, values in samples.items()
        if what != reference
    ]


def _named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not path or not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{text!r}: wanted NAME=PATH, of a file or folder")
    return name, Path(path).absolute()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--native", type=_named, action="append", metavar="NAME=PREFIX")
    parser.add_argument("--image", type=_named, action="append", metavar="NAME=FILE")
    parser.add_argument("--module", default="torch", help="what is imported (default torch)")
    parser.add_argument("--python", default="/opt/pytorch/bin/python", help="the image's Python")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 4], help="(default 1 4)")
    parser.add_argument("-n", type=int, default=8, help="rounds (default 8)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument(
        "--measure", nargs="*", choices=("fresh", "requests", "cold"), default=("requests",),
        help="fresh mounts as well; count requests; count cold calls (default requests)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if not options.native or not options.image:
        parser.error("give --native and --image once or more; the first native is the reference")
    options.native, options.image = dict(options.native), dict(options.image)
    return options


if __name__ == "__main__":
    main()
