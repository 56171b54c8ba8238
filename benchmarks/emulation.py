#!/usr/bin/env python3
"""What native programs save an emulated build: each round builds one image with and without.

The root trees are made before, for both. Takes many minutes; both images are compared file by file.
A benchmark, not a test.
"""

import argparse
import filecmp
import os
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import Row, Samples, as_json, describe, machine_facts, ratio, table
from dlcontainer.build.base import native_helpers, root_tree
from dlcontainer.build.base.bootstrap import BaseMaker
from dlcontainer.build.build import BuildOptions, build
from dlcontainer.build.context import BuildContext
from dlcontainer.cli.context import CliContext
from dlcontainer.engines import apptainer, execution
from dlcontainer.errors import DlcontainerError
from dlcontainer.packages import routing
from dlcontainer.planning.plan import Plan
from dlcontainer.system.process import ProcessRunner

WITH, WITHOUT = "with", "without"


@dataclass(frozen=True, kw_only=True, slots=True)
class Quiet:
    """A progress that says steps only, on the standard error."""

    def step(self, title: str) -> None:
        """Say it."""
        print(f"  {title}", file=sys.stderr)

    def expect(self, count: int) -> None:
        """Say nothing."""

    def phase(self, title: str) -> None:
        """Say nothing."""

    def line(self, text: str) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    world = CliContext(environ=dict(os.environ))
    try:
        plan = world.plan(options.recipe, options.site, [])
        context = _context(world)
        if not native_helpers.possible(plan, context.execution.host):
            raise SystemExit("this build is not emulated, or no native program can help with it")
        with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.tmpdir) as name:
            _make_trees(plan, context, Path(name))
            samples = _measure(plan, context, Path(name), (options.n, options.seed))
            differing = _differing(plan, context, Path(name))
    except DlcontainerError as error:
        raise SystemExit(str(error)) from None
    rows = [_row(samples, "wall"), _row(samples, "processor")]
    facts = machine_facts()
    if options.json:
        more = {"samples_s": samples, "differing": differing, "plan": plan.digest}
        print(as_json("emulation", facts, rows, **more))
        return
    print(describe(facts))
    print(f"{plan.name}, {options.n} rounds; files that differ between both images: {differing}\n")
    print(table(rows, sides=(WITH, WITHOUT)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", help="a recipe with OS packages")
    parser.add_argument("site", help="a site of another architecture")
    parser.add_argument("-n", type=int, default=1, help="rounds (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order (default 1)")
    parser.add_argument("--tmpdir", type=Path, default=Path("/var/tmp"), help="where to build")
    parser.add_argument("--json", action="store_true", help="print JSON with the raw samples")
    return parser.parse_args()


def _context(world: CliContext) -> BuildContext:
    engine = apptainer.find(world.environ)
    runner = ProcessRunner(environ=world.environ)
    return BuildContext(
        execution=execution.prepare(engine, world.host, runner, world.cache, Quiet()),
        templates=tuple(world.resources.template_folders()),
    )


def _make_trees(plan: Plan, context: BuildContext, folder: Path) -> None:
    routes, work = folder / "routing", folder / "work"
    for place in (routes, work):
        place.mkdir()
    here = context.execution
    routed = routing.prepare(plan, here.host, here.runner, routes)
    maker = BaseMaker(
        host=here.host,
        runner=here.runner,
        cache=here.cache,
        on_line=here.progress.line,
        on_wait=here.progress.note,
    )
    for prepare in (root_tree.prepare, root_tree.prepare_companion):
        prepare(plan, routed, maker, work, folder / "trees.log")


def _measure(plan: Plan, context: BuildContext, folder: Path, how: tuple[int, int]) -> Samples:
    rounds, seed = how
    order = random.Random(seed)
    samples: Samples = {f"{what} {side}": [] for what in _WHAT for side in (WITH, WITHOUT)}
    for _ in range(rounds):
        for side in order.sample((WITH, WITHOUT), 2):
            print(f"{side} native programs", file=sys.stderr)
            start, used = time.perf_counter(), _processor()
            asked = BuildOptions(tmpdir=folder, fresh=True)
            build(plan, replace(context, shortcuts=side == WITH), folder / side, asked)
            samples[f"wall {side}"].append(time.perf_counter() - start)
            samples[f"processor {side}"].append(_processor() - used)
    return samples


_WHAT = {"wall": "whole build", "processor": "its processor time"}


def _processor() -> float:
    # On shared cores this waits for nobody.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _row(samples: Samples, what: str) -> Row:
    quick, slow = samples[f"{what} {WITH}"], samples[f"{what} {WITHOUT}"]
    return Row(
        what=f"{_WHAT[what]}: without / with",
        ours=f"{median(quick):.0f} s",
        theirs=f"{median(slow):.0f} s",
        value=ratio(slow, quick),
    )


def _differing(plan: Plan, context: BuildContext, folder: Path) -> list[str]:
    """Unpack both images and name the files that are not the same, byte for byte."""
    trees = []
    for side in (WITH, WITHOUT):
        image, tree = folder / side / f"{plan.name}.sif", folder / f"{side} tree"
        here = context.execution
        env = apptainer.environment(here.host.environ, tmpdir=folder)
        here.runner(here.engine.unpack_argv(image, tree, here.build_mode), env=env)
        trees.append(tree)
    names = [{str(path.relative_to(tree)) for path in tree.rglob("*")} for tree in trees]
    found = names[0] ^ names[1]
    for name in names[0] & names[1]:
        left, right = (tree / name for tree in trees)
        if left.is_symlink() or right.is_symlink():
            same = left.readlink() == right.readlink()
        else:
            same = not left.is_file() or filecmp.cmp(left, right, shallow=False)
        if not same:
            found.add(name)
    return sorted(found)


if __name__ == "__main__":
    main()
