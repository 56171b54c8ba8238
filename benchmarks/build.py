#!/usr/bin/env python3
"""What building step by step saves: cold, one step changed, nothing changed; and the size.

Two anchors, in the same rounds with the same downloads: Apptainer as it comes (debootstrap, gzip),
and Apptainer with our base maker and our squash settings. A benchmark, not a test.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.build_anchors import Bench, fair, mode, plain, sizes
from benchmarks.sampling import (
    Row,
    Samples,
    as_json,
    command,
    describe,
    machine_facts,
    ratio,
    spread,
    table,
)
from dlcontainer.cli.context import CliContext
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner

PLAIN, FAIR, COLD, STEP, NOTHING = "plain", "fair", "cold", "last step changed", "nothing changed"


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folders are removed then too
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name:
        bench = _prepare(Path(name), options.recipe)
        samples = _sample(bench, options.n)
        packed = sizes(bench)
    rows = _rows(samples, packed)
    facts = machine_facts()
    if options.json:
        more = {"rounds": options.n, "samples_s": samples, "sizes_mb": packed}
        print(as_json("build", facts, rows, **more))
        return
    print(describe(facts))
    print(f"{bench.recipe} for this machine, {options.n} rounds; times in s\n")
    print(table(rows, sides=("ours", "anchor")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="pytorch", help="(default pytorch)")
    parser.add_argument("-n", type=int, default=3, help="rounds (default 3; one takes minutes)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where images go (default /var/tmp)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    for program in ("debootstrap", "mmdebstrap", "mksquashfs"):
        if find_program(program, os.environ) is None:
            parser.error(f"no {program} on PATH: sudo apt-get install {program}, or make setup")
    return options


def _prepare(folder: Path, named: str) -> Bench:
    """Make a home with the recipe and one small step at its end."""
    home = folder / "home"
    for name in (".config/pip/pip.conf", ".pip/pip.conf"):
        there = Path(os.environ.get("HOME", "/")) / name
        if there.is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there, home / name)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(folder / "cache")}
    environ = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | own
    world = CliContext(environ=environ)
    source = world.locate("recipes", named)
    recipe: dict[str, Any] = yaml.safe_load(source.read_text())
    # A variant in a file of its own has no changes here: this machine can build none of those.
    variants = [variant.get("changes") for variant in recipe.get("variants", {}).values()]
    for layer in filter(None, variants or [recipe]):
        layer["versions"] = {**layer.get("versions", {}), "note": "1"}
        note = 'echo {{ versions.note }} > "$prefix/note"'
        layer["steps"] = [*layer["steps"], {"name": "note", "native": True, "shell": note}]
    target = world.user_folder / "recipes" / recipe["name"]
    shutil.copytree(source.parent, target)
    (target / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    runner = ProcessRunner(environ=environ)
    return Bench(
        recipe=recipe["name"],
        folder=folder,
        environ=environ,
        world=CliContext(environ=environ),
        runner=runner,
    )


def _sample(bench: Bench, rounds: int) -> Samples:
    """Run all once a round; ours go in their order, the anchors before or after them in turn."""
    samples: Samples = {name: [] for name in (PLAIN, FAIR, COLD, STEP, NOTHING)}
    for number in range(rounds + 1):
        anchors: list[tuple[str, Callable[[Bench], float]]] = [(PLAIN, plain), (FAIR, fair)]
        ours = [(COLD, _cold), (STEP, _step), (NOTHING, _nothing)]
        for name, action in [*anchors, *ours] if number % 2 else [*ours, *anchors]:
            seconds = action(bench)
            print(f"round {number}: {name} {seconds:.1f} s", file=sys.stderr, flush=True)
            if number:  # the first is thrown away
                samples[name].append(seconds)
    return samples


def _build(bench: Bench, *more: str) -> float:
    program = str(Path(sys.executable).with_name("dlcontainer"))
    output = str(bench.folder / "ours")
    argv = [program, "build", bench.recipe, "--site", "local", "-o", output, "--json", *more]
    return command(argv, bench.environ)()


def _cold(bench: Bench) -> float:
    cache = bench.fresh("cache")
    bench.fresh("ours")
    mode(bench)
    # The anchors are told how the engine works here; so are we.
    shutil.copytree(bench.folder / "trial", cache / "dlcontainer")
    return _build(bench)


def _step(bench: Bench) -> float:
    return _build(bench, "--set", f"versions.note={time.time_ns()}")


def _nothing(bench: Bench) -> float:
    _build(bench, "--set", "versions.note=2")
    return _build(bench, "--set", "versions.note=2")


def _rows(samples: Samples, sizes: Mapping[str, float]) -> list[Row]:
    def row(ours: str, anchor: str, target: float) -> Row:
        return Row(
            what=f"{ours} / {anchor}",
            ours=f"{median(samples[ours]):.1f}",
            theirs=f"{median(samples[anchor]):.1f}",
            value=ratio(samples[ours], samples[anchor]),
            target=target,
        )

    share = sizes["ours"] / sizes["default"]
    return [
        row(COLD, PLAIN, 0.5),
        row(COLD, FAIR, 0.8),
        row(STEP, FAIR, 0.15),
        Row(
            what=NOTHING,
            ours=f"{median(samples[NOTHING]):.1f}",
            theirs="-",
            value=spread(samples[NOTHING]),
            target=2.0,
            unit=" s",
        ),
        Row(
            what="size / default (gzip), same content",
            ours=f"{sizes['ours']:.0f} MB",
            theirs=f"{sizes['default']:.0f} MB",
            value=spread([share]),
            target=0.92,
        ),
    ]


if __name__ == "__main__":
    main()
