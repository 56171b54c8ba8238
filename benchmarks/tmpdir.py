#!/usr/bin/env python3
"""What a build gains from a tree in memory and from zstd: the real engine, ratios in one run.

The tree is real: small files of this Python's own libraries. A benchmark, not a test.
"""

import argparse
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
from dlcontainer.engines import apptainer, capabilities
from dlcontainer.engines.apptainer import SQUASH, Apptainer
from dlcontainer.engines.engine import BuildSpec
from dlcontainer.errors import DlcontainerError
from dlcontainer.system.machine import find_program, mount_of, read_host
from dlcontainer.system.process import ProcessRunner

MEMORY = Path("/dev/shm")
BASE = "base.sqfs"
DEFINITION = f"Bootstrap: localimage\nFrom: {BASE}\n"
ZSTD, GZIP = "zstd, as images are packed", "gzip (the default)"
SQUASHES = {ZSTD: SQUASH, GZIP: ("-comp", "gzip")}
SMALL = 100_000  # bytes
QUIET = ("-noappend", "-quiet", "-no-progress")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """The programs, the folders (on disk, in memory) and what runs commands."""

    engine: Apptainer
    mode: str
    mksquashfs: Path
    unsquashfs: Path
    runner: ProcessRunner
    disk: Path
    memory: Path

    @property
    def tree(self) -> Path:
        """The tree that is packed."""
        return self.disk / "tree"

    def seconds(self, argv: list[str], *, env: dict[str, str] | None = None) -> float:
        """Run a command in the folder on disk and tell its seconds."""
        return self.runner(argv, env=env, cwd=self.disk).elapsed


def main() -> None:
    """Measure, print the tables or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folders are removed then too
    with (
        tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.disk) as disk,
        tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=MEMORY) as memory,
    ):
        try:
            bench = _prepare(Path(disk), Path(memory))
        except DlcontainerError as error:
            raise SystemExit(str(error)) from None
        files, megabytes = _grow(bench.tree, options.files)
        _pack(bench, Path(disk) / BASE, ("-comp", "lz4"))
        (Path(disk) / "image.def").write_text(DEFINITION)
        sizes = {name: _pack(bench, Path(disk) / "size", how) for name, how in SQUASHES.items()}
        samples = interleave(_actions(bench), rounds=options.n, seed=options.seed)
    facts = machine_facts()
    facts |= {"disk": mount_of(options.disk).kind, "memory": mount_of(MEMORY).kind}
    tree = {"files": files, "mb": megabytes}
    if options.json:
        more = {"rounds": options.n, "seed": options.seed, "samples_s": samples}
        more |= {"tree": tree, "squashed_mb": sizes}
        rows = (*_places(samples), *_squashes(samples, sizes))
        print(as_json("tmpdir", facts, rows, **more))
        return
    print(describe(facts))
    print(f"tree: {files} files, {megabytes:.0f} MB; disk: {facts['disk']}, {options.n} rounds\n")
    print(table(_places(samples), sides=("memory", "disk")))
    print(f"\n{table(_squashes(samples, sizes), sides=(ZSTD, GZIP))}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=7, help="rounds (default 7)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--files", type=int, default=10_000, help="files in the tree")
    parser.add_argument(
        "--disk", type=Path, default=Path("/var/tmp"), help="folder on disk (default /var/tmp)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    if mount_of(options.disk).kind == "tmpfs":
        parser.error(f"{options.disk} is in memory: give a folder on disk, --disk")
    return options


def _prepare(disk: Path, memory: Path) -> Bench:
    environ = dict(os.environ)
    host = read_host(environ)
    engine = apptainer.find(environ)
    runner = ProcessRunner(environ=environ)
    tried = capabilities.require(disk / "cache", engine, host, runner)
    programs = {name: find_program(name, environ) for name in ("mksquashfs", "unsquashfs")}
    for name, program in programs.items():
        if program is None:
            raise SystemExit(f"no {name} on PATH: type `make setup`")
    return Bench(
        engine=engine,
        mode=tried.build_mode or "plain",
        mksquashfs=programs["mksquashfs"] or Path(),
        unsquashfs=programs["unsquashfs"] or Path(),
        runner=runner,
        disk=disk,
        memory=memory,
    )


def _grow(tree: Path, most: int) -> tuple[int, float]:
    """Copy the first small files of this Python's libraries; tell how many, and their MB."""
    folders = dict.fromkeys(Path(sysconfig.get_path(key)) for key in ("stdlib", "purelib"))
    count, size = 0, 0
    for folder in folders:
        for source in sorted(folder.rglob("*")):
            if count == most or source.is_symlink() or not source.is_file():
                continue
            if source.stat().st_size > SMALL:
                continue
            target = tree / "opt" / folder.name / source.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            count, size = count + 1, size + source.stat().st_size
    return count, size / 1e6


def _pack(bench: Bench, target: Path, how: tuple[str, ...]) -> float:
    """Pack the tree as root's; tell the image's MB.

    Whom no subordinate ids are given to can unpack no other user's files.
    """
    target.unlink(missing_ok=True)
    bench.seconds([str(bench.mksquashfs), "tree", target.name, "-all-root", *how, *QUIET])
    return target.stat().st_size / 1e6


def _actions(bench: Bench) -> dict[str, Callable[[], float]]:
    actions: dict[str, Callable[[], float]] = {}
    for name, folder in (("memory", bench.memory), ("disk", bench.disk)):
        actions[f"unpack {name}"] = _unpacking(bench, folder / "unpacked")
        actions[f"build {name}"] = _building(bench, folder)
    for name, how in SQUASHES.items():
        actions[f"squash {name}"] = _squashing(bench, how)
    return actions


def _unpacking(bench: Bench, target: Path) -> Callable[[], float]:
    def action() -> float:
        argv = [str(bench.unsquashfs), "-quiet", "-no-progress", "-d", str(target), BASE]
        seconds = bench.seconds(argv)
        shutil.rmtree(target)
        return seconds

    return action


def _building(bench: Bench, folder: Path) -> Callable[[], float]:
    """Build an image: unpack the base in `folder`, pack it again beside the definition."""
    image = bench.disk / "image.sif"
    spec = BuildSpec(definition="image.def", image=image, mode=bench.mode, squash=SQUASH)
    env = apptainer.environment(os.environ, tmpdir=folder)

    def action() -> float:
        image.unlink(missing_ok=True)
        return bench.seconds(bench.engine.build_argv(spec), env=env)

    return action


def _squashing(bench: Bench, how: tuple[str, ...]) -> Callable[[], float]:
    target = bench.disk / "squashed"

    def action() -> float:
        target.unlink(missing_ok=True)
        return bench.seconds([str(bench.mksquashfs), "tree", target.name, *how, *QUIET])

    return action


def _places(samples: Samples) -> list[Row]:
    named = {"unpack": "unpack: disk / memory", "build": "whole build: disk / memory"}
    return [
        Row(
            what=what,
            ours=_s(samples[f"{key} memory"]),
            theirs=_s(samples[f"{key} disk"]),
            value=ratio(samples[f"{key} disk"], samples[f"{key} memory"]),
        )
        for key, what in named.items()
    ]


def _squashes(samples: Samples, sizes: dict[str, float]) -> list[Row]:
    zstd, gzip = samples[f"squash {ZSTD}"], samples[f"squash {GZIP}"]
    return [
        Row(what="squash: gzip / zstd", ours=_s(zstd), theirs=_s(gzip), value=ratio(gzip, zstd)),
        Row(
            what="size: gzip / zstd",
            ours=f"{sizes[ZSTD]:.1f} MB",
            theirs=f"{sizes[GZIP]:.1f} MB",
            value=ratio([sizes[GZIP]], [sizes[ZSTD]]),
        ),
    ]


def _s(values: list[float]) -> str:
    return f"{median(values):.2f} s"


if __name__ == "__main__":
    main()
