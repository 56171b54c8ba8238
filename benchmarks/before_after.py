#!/usr/bin/env python3
"""Two checkouts in one interleaved run: a cold build, and a published wrapper's start.

By processor time of the command and of all that it waited for: on shared cores the clock says
little. A benchmark, not a test: a missed target is said plainly, and the exit code stays 0.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
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

BUILD, WRAPPER = "cold build", "wrapper start"
TARGET = 1.05
# Each sample of the wrapper: one start is too short for the processor's accounts.
STARTS = 5
_START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from dlcontainer.cli.main import run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One checkout, and the folder that its builds and its published tree lie in."""

    name: str
    checkout: Path
    folder: Path
    recipe: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a user with an empty home and an empty cache."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
        own = {"HOME": str(self.folder / "home"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        return {**kept, **own}

    def argv(self, *words: str | Path) -> list[str]:
        """Return a command of this checkout's own package."""
        program = [sys.executable, "-c", f"{_START}; run()", str(self.checkout)]
        return [*program, *map(str, words)]

    def cold(self) -> float:
        """Build with nothing in the cache; return the processor seconds."""
        shutil.rmtree(self.folder / "cache", ignore_errors=True)
        shutil.rmtree(self.folder / "built", ignore_errors=True)
        argv = self.argv("build", self.recipe, "--site", "local", "-o", self.folder / "built")
        return processor_s(argv, self.environ)

    def publish(self) -> Path:
        """Build and publish; return the wrapper of python."""
        self.cold()
        (image,) = (self.folder / "built").glob("*.sif")
        root = self.folder / "root"
        processor_s(self.argv("publish", image, "-s", "local", "--root", root), self.environ)
        return min(root.rglob("bin/python"))


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name:
        sides = [
            _side(side, getattr(options, side), Path(name), options.recipe)
            for side in ("old", "new")
        ]
        facts = machine_facts()
        samples = _sample(sides, rounds=options.n, seed=options.seed)
    rows = [_row(what, samples) for what in (BUILD, WRAPPER)]
    if options.json:
        more = {"rounds": options.n, "seed": options.seed, "samples_s": samples}
        print(as_json("before-after", facts, rows, **more))
        return
    print(describe(facts))
    print(f"{options.n} rounds, seed {options.seed}; processor time; medians within a round\n")
    print(table(rows, sides=("new", "old")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout of before")
    parser.add_argument("new", type=Path, help="a checkout of now")
    parser.add_argument("recipe", type=Path, help="the folder of a recipe that exposes python")
    parser.add_argument("-n", type=int, default=8, help="rounds (default 8; one takes minutes)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where images go (default /var/tmp)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    options = parser.parse_args()
    if options.n < 1:
        parser.error("-n: at least one round")
    for side in (options.old, options.new):
        if not (side / "dlcontainer/cli/main.py").is_file():
            parser.error(f"{side}: no checkout of dlcontainer")
    return options


def _side(name: str, checkout: Path, folder: Path, recipe: Path) -> Side:
    own = folder / name
    for part in (".config/pip/pip.conf", ".pip/pip.conf"):
        there = Path(os.environ.get("HOME", "/")) / part
        if there.is_file():
            (own / "home" / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there, own / "home" / part)
    (own / "home").mkdir(parents=True, exist_ok=True)
    return Side(name=name, checkout=checkout.resolve(), folder=own, recipe=recipe.resolve())


def _sample(sides: Sequence[Side], *, rounds: int, seed: int) -> Samples:
    actions: dict[str, Callable[[], float]] = {}
    for side in sides:
        actions[f"{WRAPPER}, {side.name}"] = _starts(side.publish(), side.environ)
        actions[f"{BUILD}, {side.name}"] = side.cold
    return interleave(actions, rounds=rounds, seed=seed)


def _starts(wrapper: Path, environ: Mapping[str, str]) -> Callable[[], float]:
    argv = [str(wrapper), "-c", "pass"]
    return lambda: sum(processor_s(argv, environ) for _ in range(STARTS)) / STARTS


def processor_s(argv: Sequence[str], environ: Mapping[str, str]) -> float:
    """Run a command to its end; return its processor seconds, with those of all it waited for."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            said.seek(0)
            told = said.read().decode(errors="replace")
            raise SystemExit(f"`{' '.join(argv)}` ended with {child.returncode}:\n{told}")
    return usage.ru_utime + usage.ru_stime


def _row(what: str, samples: Samples) -> Row:
    old, new = samples[f"{what}, old"], samples[f"{what}, new"]
    return Row(
        what=f"{what}, new / old",
        ours=f"{median(new):.2f} s",
        theirs=f"{median(old):.2f} s",
        value=ratio(new, old),
        target=TARGET,
    )


if __name__ == "__main__":
    main()
