"""`dlcontainer bench`: native against container, pair by pair; the file of raw samples."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.base import Probe, Values
from dlcontainer.cli import output
from dlcontainer.cli.bench import (
    bench_context,
    count,
    defaults,
    probe_command,
    scale,
    slowfs,
    storm,
)
from dlcontainer.cli.bench.session_options import SessionOptions

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.measure.declaration import Wanted
    from dlcontainer.bench.measure.launcher import Asked
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.cli.bench.defaults import Schedule
    from dlcontainer.cli.context import World


def _run(probe: Probe, options: SessionOptions) -> None:
    """Measure a session with a probe; say where its file is."""
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.bench.probes.base import Setting
    from dlcontainer.bench.samples import continuation
    from dlcontainer.cli.context import here

    console = output.Console(verbose=options.verbose, quiet=options.as_json)
    options.check()
    begun = continuation.read(options.resume.absolute()) if options.resume else None
    before = begun.session.declared if begun else None
    schedule = defaults.schedule(options, before)
    world = here()
    measured = bench_image.read(options.image.absolute(), world.host.arch)
    asked = defaults.ranks_of(options, before)
    setting = Setting(contents=measured.contents, begun=before, is_ranked=asked is not None)
    # Before a twin is made for nothing: what the image can't be measured with is refused here.
    values = probe.values(options.values, setting)
    threads = defaults.threads(options, before) or _cores(world, asked)
    wanted = _wanted(probe, options, schedule, values, threads, measured, begun)
    most = wanted.looks[-1]
    if most < schedule.fewest:
        unit = "triples" if len(schedule.arms) == 3 else "pairs"
        console.note(f"{most} {unit}: a verdict takes {schedule.fewest}, this will have none")
    path = _measure(wanted, options, measured, asked, world, console)
    if options.as_json:
        looks = list(wanted.looks)
        output.emit(
            "bench", {"file": str(path), "probe": probe.name, "pairs": most, "looks": looks}
        )
        return
    console.step(f"done; now: dlcontainer report {path.name}")
    output.say(str(path))


def _cores(world: "World", asked: "Asked | None") -> int:
    if asked is None:
        return world.host.cores
    # The cores of a node are its ranks' together.
    return max(1, world.host.cores // (asked.per_node or -(-asked.ranks // asked.nodes)))


def _wanted(
    probe: Probe,
    options: SessionOptions,
    schedule: "Schedule",
    values: Values,
    threads: int,
    measured: "BenchImage",
    begun: "Series | None",
) -> "Wanted":
    from dlcontainer.bench.measure.declaration import Wanted
    from dlcontainer.config.resources import probe_files

    seed = options.seed
    if seed is None:
        seed = begun.session.declared.seed if begun else _new_seed()
    place = options.resume or options.target or _file_name(measured, probe)
    return Wanted(
        probe=probe,
        question=options.question,
        arms=schedule.arms,
        looks=schedule.looks,
        controls=schedule.controls,
        candidate_controls=schedule.candidate_controls,
        joiners=schedule.looks[-1] if probe.joins and schedule.has_container else 0,
        seed=seed,
        output=place.absolute(),
        site=options.site,
        values=values,
        threads=threads,
        timeout_s=options.timeout,
        native=options.native.absolute() if options.native else None,
        probe_files=probe_files(),
        cut=begun,
    )


def _measure(
    wanted: "Wanted",
    options: SessionOptions,
    measured: "BenchImage",
    asked: "Asked | None",
    world: "World",
    console: output.Console,
) -> Path:
    from dlcontainer.bench.measure import launcher, session

    # Site and recipe are read even where --native makes the twin needless: names must be right.
    name = options.recipe or measured.recipe
    plan = world.plan(name, wanted.site, options.settings, variant=measured.variant)
    beside = None
    if asked:
        team = launcher.team(asked, plan.site.scheduler, world.environ)
        wanted = replace(wanted, team=team)
        # Every node must see what its ranks read and write: the file's own file system is shared.
        beside = wanted.output.parent if team.nodes > 1 else None
    with bench_context.opened(world, console, plan, beside) as context:
        return session.run(wanted, plan, measured, context)


def _file_name(measured: "BenchImage", probe: Probe) -> Path:
    moment = time.strftime("%Y%m%dT%H%M%S")
    return Path(f"{measured.image.stem}-{probe.name}-{moment}.jsonl")


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)


def commands(probes: Mapping[str, Probe]) -> typer.Typer:
    """Make `dlcontainer bench`: a command for each probe, and those that need none."""
    app = typer.Typer(
        help="Measure what an image costs, and foresee what it does to a file system.",
        no_args_is_help=True,
    )
    for probe in probes.values():
        app.command(probe.name, help=probe.summary)(probe_command.make(probe, probes, _run))
    app.command("slowfs")(slowfs.slowfs)
    app.command("count")(count.count)
    app.command("probe-fs")(count.probe_fs)
    app.command("scale")(scale.scale)
    app.command("storm")(storm.storm)
    return app


app = commands(PROBES)
