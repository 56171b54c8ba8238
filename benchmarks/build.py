#!/usr/bin/env python3
"""What building step by step saves: cold, one step changed, nothing changed; and the size.

Two anchors, in the same rounds with the same downloads: Apptainer as it comes (debootstrap, gzip),
and Apptainer with our base maker and our squash settings. A benchmark, not a test.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from benchmarks.sampling import (
    Row,
    Samples,
    command,
    describe,
    machine_facts,
    ratio,
    row_as_json,
    spread,
    table,
)
from dlcontainer import routing
from dlcontainer.basemaker import BaseMaker
from dlcontainer.cli.world import World
from dlcontainer.engines import apptainer, trial
from dlcontainer.engines.apptainer import SQUASH
from dlcontainer.engines.base import BuildSpec
from dlcontainer.formats import context, texts
from dlcontainer.machine import find_program
from dlcontainer.plan import Plan
from dlcontainer.preflight import choose_tmpdir
from dlcontainer.rootfs import prepare
from dlcontainer.routing import Routed
from dlcontainer.shell import ProcessRunner

RECIPE = "pytorch"
PLAIN, FAIR, COLD, STEP, NOTHING = "plain", "fair", "cold", "last step changed", "nothing changed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """A user with an empty home below `folder`, and what the engine needs there."""

    folder: Path
    environ: Mapping[str, str]
    world: World
    runner: ProcessRunner

    def fresh(self, name: str) -> Path:
        """Give an empty folder."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path


def main() -> None:
    """Measure, print the table or JSON."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folders are removed then too
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=options.folder) as name:
        bench = _prepare(Path(name))
        samples = _sample(bench, options.n)
        sizes = _sizes(bench)
    rows = _rows(samples, sizes)
    facts = machine_facts()
    if options.json:
        body = {
            "schema": "dlcontainer/benchmark-build/1",
            "rounds": options.n,
            "machine": facts,
            "rows": [row_as_json(row) for row in rows],
            "samples_s": samples,
            "sizes_mb": sizes,
        }
        print(json.dumps(body, indent=1))
        return
    print(describe(facts))
    print(f"{RECIPE} for this machine, {options.n} rounds; times in s\n")
    print(table(rows, sides=("ours", "anchor")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
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


def _prepare(folder: Path) -> Bench:
    """Make a home with the shipped recipe and one small step at its end."""
    home = folder / "home"
    for name in (".config/pip/pip.conf", ".pip/pip.conf"):
        there = Path(os.environ.get("HOME", "/")) / name
        if there.is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(there, home / name)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(folder / "cache")}
    environ = {k: v for k, v in os.environ.items() if not k.startswith("XDG_")} | own
    world = World(environ=environ)
    source = world.resources.find("recipes", RECIPE)
    recipe: dict[str, Any] = yaml.safe_load(source.read_text())
    for variant in recipe["variants"].values():
        changes = variant.get("changes")
        if changes is None:
            continue  # in a file of its own: none that this machine can build
        changes["versions"] = {**changes.get("versions", {}), "note": "1"}
        note = 'echo {{ versions.note }} > "$prefix/note"'
        changes["steps"] = [*changes["steps"], {"name": "note", "native": True, "shell": note}]
    target = world.user_folder / "recipes" / RECIPE
    shutil.copytree(source.parent, target)
    (target / "recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    runner = ProcessRunner(environ=environ)
    return Bench(folder=folder, environ=environ, world=World(environ=environ), runner=runner)


def _sample(bench: Bench, rounds: int) -> Samples:
    """Run all once a round; ours go in their order, the anchors before or after them in turn."""
    samples: Samples = {name: [] for name in (PLAIN, FAIR, COLD, STEP, NOTHING)}
    for number in range(rounds + 1):
        anchors: list[tuple[str, Callable[[Bench], float]]] = [(PLAIN, _plain), (FAIR, _fair)]
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
    argv = [program, "build", RECIPE, "--site", "local", "-o", output, "--json", *more]
    return command(argv, bench.environ)()


def _cold(bench: Bench) -> float:
    bench.fresh("cache")
    bench.fresh("ours")
    return _build(bench)


def _step(bench: Bench) -> float:
    return _build(bench, "--set", f"versions.note={time.time_ns()}")


def _nothing(bench: Bench) -> float:
    _build(bench, "--set", "versions.note=2")
    return _build(bench, "--set", "versions.note=2")


def _plan(bench: Bench) -> Plan:
    return bench.world.plan(RECIPE, "local")


def _plain(bench: Bench) -> float:
    """Build as Apptainer's users do by hand: debootstrap, its own settings."""
    plan = _plan(bench)
    work = bench.fresh("plain")
    routed = _routed(bench, plan, work)
    text = texts.text(plan, "apptainer", bench.world.resources.template_folders())
    base = plan.recipe.base
    head = f"Bootstrap: debootstrap\nOSVersion: {base.release}\nMirrorURL: {_mirror(routed)}\n"
    definition = head + text[text.index("%files") :]
    return _engine(
        bench,
        plan,
        (work, routed),
        definition,
        BuildSpec(definition="a.def", image=work / "a.sif", mode=_mode(bench), binds=routed.binds),
    )


def _fair(bench: Bench) -> float:
    """Build with the same base maker, squash settings and folder as ours, in one go."""
    plan = _plan(bench)
    work = bench.fresh("fair")
    routed = _routed(bench, plan, work)
    start = time.perf_counter()
    maker = BaseMaker(
        host=bench.world.host,
        runner=bench.runner,
        cache=bench.fresh("fair-cache"),
        on_line=lambda _: None,
        on_wait=lambda _: None,
    )
    base = prepare(plan, routed, maker, bench.fresh("fair-work"), work / "log")
    (work / base.path.name).symlink_to(base.path)
    made = time.perf_counter() - start
    definition = texts.text(plan, "apptainer", bench.world.resources.template_folders())
    spec = BuildSpec(
        definition="a.def",
        image=work / "a.sif",
        mode=_mode(bench),
        binds=routed.binds,
        squash=SQUASH,
    )
    return made + _engine(bench, plan, (work, routed), definition, spec)


def _engine(
    bench: Bench, plan: Plan, places: tuple[Path, Routed], definition: str, spec: BuildSpec
) -> float:
    work, _ = places
    (work / spec.definition).write_text(definition)
    context.stage(plan, work)
    folder = choose_tmpdir(plan, bench.world.host, None) if spec.squash else Path("/tmp")
    with tempfile.TemporaryDirectory(prefix="dlcontainer-bench-", dir=folder) as scratch:
        inner = Path(scratch) / "inner-tmp"
        inner.mkdir(mode=0o1777)
        binds = (*spec.binds, (inner, "/tmp"))
        env = apptainer.environment(bench.environ, tmpdir=Path(scratch))
        argv = apptainer.find(bench.environ).build_argv(replace(spec, binds=binds))
        done = bench.runner(argv, env=env, cwd=work, log=work / "log")
    return done.elapsed


def _routed(bench: Bench, plan: Plan, work: Path) -> Routed:
    folder = work / "routing"
    folder.mkdir()
    return routing.prepare(plan, bench.world.host, bench.runner, folder)


def _mirror(routed: Routed) -> str:
    if not routed.apt_sources:
        raise SystemExit("this machine has no apt sources of its release")
    return routed.apt_sources[0].uri


def _mode(bench: Bench) -> str:
    engine = apptainer.find(bench.environ)
    tried = trial.require(bench.folder / "trial", engine, bench.world.host, bench.runner)
    return tried.build_mode or "plain"


def _sizes(bench: Bench) -> dict[str, float]:
    """Pack our image's content as the engine would by itself; tell both sizes in MB."""
    (ours,) = (bench.folder / "ours").glob("*.sif")
    target = bench.folder / "gzip.sif"
    engine = apptainer.find(bench.environ)
    argv = [str(engine.program), "build", "--disable-cache"]
    argv += apptainer.BUILD_MODES[_mode(bench)]
    env = apptainer.environment(bench.environ, tmpdir=bench.fresh("gzip"))
    bench.runner([*argv, str(target), str(ours)], env=env)
    return {"ours": ours.stat().st_size / 1e6, "default": target.stat().st_size / 1e6}


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
