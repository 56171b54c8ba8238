#!/usr/bin/env python3
"""How an image is best packed: one tree under several of mksquashfs's settings, in one run.

Size, the processor time of packing, what a cold import asks of the file system, and imports from
this machine's disk: mount, first rank, a later one. A benchmark, not a test.
"""

import argparse
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import describe, interleave, machine_facts, ratio
from benchmarks.squash_runs import Launch, Launcher, timed
from dlcontainer.engines import apptainer
from dlcontainer.image import sif
from dlcontainer.lab.filesystem.counting import Count
from dlcontainer.lab.storm.measure import metadata
from dlcontainer.system.machine import find_program, mount_of
from dlcontainer.system.process import ProcessRunner

GZIP, TREE, BEFORE = "gzip", "tree", "zstd-3-128K"
USUAL = (GZIP, "zstd-3-512K", "zstd-5-256K", "zstd-5-512K", "zstd-5-1M")
QUIET = ("-noappend", "-quiet", "-no-progress")
_NAME = re.compile(r"zstd-(?P<level>\d+)-(?P<block>\d+[KM])(?P<more>(\+[a-z-]+)*)")


@dataclass(kw_only=True, slots=True)
class Found:
    """What was seen of one setting, a value a round."""

    mb: float = 0.0
    packing_s: list[float] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)
    launches: dict[str, list[Launch]] = field(default_factory=dict)

    def values(self) -> dict[str, list[float]]:
        """Return each figure's values, in the order of rounds."""
        found = {
            "size, MB": [self.mb] if self.mb else [],
            "packing, processor s": self.packing_s,
            "calls": [float(metadata(one) + one.operations["read"]) for one in self.counts],
            "metadata": [float(metadata(one)) for one in self.counts],
            "read, MB": [(one.bytes or 0) / 1e6 for one in self.counts],
        }
        for way, launches in self.launches.items():
            for name in ("mount_s", "first_s", "first_processor_s", "later_s", "later_processor_s"):
                found[f"{way} {name}"] = [getattr(one, name) for one in launches]
        return {name: values for name, values in found.items() if values}


def words(setting: str) -> tuple[str, ...]:
    """Return mksquashfs's options of a setting's name; ValueError for another name."""
    if setting == GZIP:
        return ("-comp", "gzip")  # Apptainer's default, in blocks of 128 kB
    parts = _NAME.fullmatch(setting)
    if parts is None:
        raise ValueError(f"{setting!r} is no setting: zstd-LEVEL-BLOCK[+OPTION…], or {GZIP}")
    more = [f"-{word}" for word in parts["more"].split("+")[1:]]
    return ("-comp", "zstd", "-Xcompression-level", parts["level"], "-b", parts["block"], *more)


def main() -> None:
    """Measure, print the tables or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folders are removed then too
    with (
        tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name,
        tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.trees) as trees,
    ):
        tree = Path(trees) / TREE
        offset = sif.tree(options.image).offset
        unpack = ["unsquashfs", "-quiet", "-no-progress", "-offset", str(offset), "-d", str(tree)]
        timed([*unpack, str(options.image)], os.environ)
        found = {setting: Found() for setting in (*options.settings, TREE)}
        actions = _actions(Path(name), tree, found, options)
        interleave(actions, rounds=options.n, seed=options.seed)
    for one in found.values():  # the first round is thrown away; processor time waits for nobody
        one.counts = one.counts[1:]
        one.launches = {way: launches[1:] for way, launches in one.launches.items()}
    facts = machine_facts() | {"disk": mount_of(options.folder).kind}
    values = {setting: one.values() for setting, one in found.items()}
    if options.json:
        body = {
            "schema": "dlcontainer/benchmark-squash/1",
            "rounds": options.n,
            "seed": options.seed,
            "machine": facts,
            "values": values,
            "launches": {
                setting: {way: [asdict(one) for one in many] for way, many in one.launches.items()}
                for setting, one in found.items()
            },
        }
        print(json.dumps(body, indent=1))
        return
    print(f"{describe(facts)}; disk: {facts['disk']}; {options.n} rounds\n")
    print(_table(values))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, help="an image of dlcontainer's (.sif)")
    parser.add_argument("--module", default="torch", help="what is imported (default torch)")
    parser.add_argument("--python", default="/opt/pytorch/bin/python", help="the image's Python")
    parser.add_argument(
        "--settings",
        nargs="+",
        default=USUAL,
        help=f"names like zstd-3-128K+no-fragments; what it all is compared with is {BEFORE}",
    )
    parser.add_argument("-n", type=int, default=6, help="rounds (default 6; one takes minutes)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="of the images (default /var/tmp)"
    )
    parser.add_argument(
        "--trees", type=Path, default=Path("/dev/shm"), help="of the tree (default /dev/shm)"
    )
    parser.add_argument("--packings", type=int, default=1, help="of each (default 1)")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if min(options.n, options.packings) < 1:
        parser.error("at least one round and one packing")
    options.settings = list(dict.fromkeys((BEFORE, *options.settings)))
    try:
        for setting in options.settings:
            words(setting)
    except ValueError as error:
        parser.error(str(error))
    for program in ("mksquashfs", "unsquashfs", "squashfuse_ll"):
        if find_program(program, os.environ) is None:
            parser.error(f"no {program} on PATH")
    return options


def _actions(
    folder: Path, tree: Path, found: Mapping[str, Found], options: argparse.Namespace
) -> dict[str, Callable[[], float]]:
    launcher = Launcher(
        engine=apptainer.find(os.environ),
        runner=ProcessRunner(environ=dict(os.environ)),
        folder=folder,
        argv=(options.python, "-c", f"import {options.module}"),
    )
    actions: dict[str, Callable[[], float]] = {}
    for setting in options.settings:
        image = folder / "images" / f"{setting}.sqfs"
        image.parent.mkdir(exist_ok=True)
        for _ in range(options.packings):
            _pack(tree, image, setting, found[setting])
        if setting == GZIP:
            continue  # there for its size
        for way in ("cold", "warm"):
            actions[f"{way} {setting}"] = _launching(launcher, image, way, found[setting])
        actions[f"count {setting}"] = _counting(launcher, image, found[setting])
    actions[f"warm {TREE}"] = _launching(launcher, tree, "warm", found[TREE])
    actions[f"count {TREE}"] = _counting(launcher, tree, found[TREE])
    return actions


def _pack(tree: Path, image: Path, setting: str, found: Found) -> None:
    image.unlink(missing_ok=True)
    argv = ["mksquashfs", str(tree), str(image), *QUIET, *words(setting)]
    found.packing_s.append(timed(argv, os.environ)[1])
    found.mb = image.stat().st_size / 1e6


def _launching(launcher: Launcher, image: Path, way: str, found: Found) -> Callable[[], float]:
    def action() -> float:
        launch = launcher.launch(image, cold=way == "cold")
        found.launches.setdefault(way, []).append(launch)
        return launch.first_s

    return action


def _counting(launcher: Launcher, image: Path, found: Found) -> Callable[[], float]:
    def action() -> float:
        count = launcher.counted(image)
        found.counts.append(count)
        return float(metadata(count))

    return action


def _table(values: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Set each figure in a block: a setting a line, its median, its ratios."""
    lines = []
    for name in values[BEFORE]:
        lines.append(name)
        for setting, figures in values.items():
            if name not in figures:
                continue
            against = [
                f"/ {other} {ratio(figures[name], values[other][name])}"
                for other in (GZIP, BEFORE, TREE)
                if other != setting
                and len(values.get(other, {}).get(name, ())) == len(figures[name])
            ]
            lines.append(f"  {setting:<24} {median(figures[name]):10.3f}  {'; '.join(against)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
