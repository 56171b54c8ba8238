"""`dlcontainer bench`: native against container, pair by pair; the file of raw samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import typer

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import Probe
from dlcontainer.cli import command_list, output
from dlcontainer.cli import options as common
from dlcontainer.cli.app import App, Entry
from dlcontainer.cli.bench import bench_context, defaults, probe_command
from dlcontainer.cli.bench.session_options import SessionOptions

if TYPE_CHECKING:
    from pathlib import Path

    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.measure.declaration import SessionSettings
    from dlcontainer.bench.measure.launcher import RankOptions
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan


def _run(probe: Probe, options: SessionOptions) -> None:
    """Measure a session with a probe; say where its file is."""
    from dlcontainer.cli.context import here

    console = output.Console(verbose=options.verbose, quiet=options.as_json)
    options.check()
    world = here()
    ready = settled(probe, options, world, console)
    path = run(ready, world, console)
    if options.as_json:
        schedule = ready.settings.schedule
        looks = {"pairs": schedule.longest, "looks": list(schedule.looks)}
        output.emit("bench", {"file": str(path), "probe": probe.name, **looks})
        return
    console.end(f"done; now: dlcontainer report {path.name}")
    output.copied(str(path))


def run(ready: "PreparedSession", world: "CliContext", console: output.Console) -> "Path":
    """Measure a session that is settled; return its file of samples. Raises BenchDataError."""
    from dlcontainer.bench.measure import session

    settings, group = ready.settings, ready.settings.rank_group
    # Every node must see what its ranks read and write: the file's own file system is shared.
    parent = settings.output.parent if group and group.nodes > 1 else None
    with bench_context.opened(world, console, ready.plan, parent, ready.image) as context:
        return session.run(settings, ready.plan, ready.image, context)


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedSession:
    """A session that is settled, with the image and the plan of its native twin."""

    settings: "SessionSettings"
    plan: "Plan"
    image: "BenchImage"


def settled(
    probe: Probe, options: SessionOptions, world: "CliContext", console: output.Console
) -> PreparedSession:
    """Settle the options, once; nothing is made or started before they are all known.

    Raises UsageError, and ChecksFailedError where the image holds nothing to measure.
    """
    from dlcontainer.bench.measure import bench_image, launcher
    from dlcontainer.bench.measure.declaration import SessionSettings
    from dlcontainer.bench.probes.probe import ParameterContext
    from dlcontainer.bench.samples import continuation
    from dlcontainer.config.resources import probe_files

    begun = continuation.read(options.resume.absolute()) if options.resume else None
    before = begun.session.declared if begun else None
    schedule = defaults.schedule(options, before, joins=probe.joins)
    schedule, too_busy = defaults.for_load(options, schedule, before, world.host.cores)
    owners = world.site(options.site).value.owners
    image = bench_image.read(common.image_file(options.image), world.host.arch, owners)
    ranks = defaults.ranks_of(options, before)
    setting = ParameterContext(
        contents=image.contents, begun=before, ranks=ranks.ranks if ranks else 0
    )
    # Before a twin is made for nothing: what the image can't be measured with is refused here.
    values = probe.values(options.values, setting)
    if schedule.longest < schedule.fewest:
        most = f"{schedule.longest} {schedule.unit}"
        console.note(f"{most}: a verdict needs {schedule.fewest}, so this session will have none")
    # Site and recipe are read even where --native makes the twin needless: names must be right.
    plan = defaults.plan(options, image, world)
    image = _declared(image, plan, console)
    scheduler, threads = plan.site.scheduler, defaults.threads(options, before)
    settings = SessionSettings(
        probe=probe,
        question=options.question,
        schedule=schedule,
        margin=defaults.margin(options, before),
        output=defaults.output(options, image, probe.name),
        site=options.site,
        values=values,
        threads=threads or probe.threads or _cores(world, ranks),
        group_threads=threads or defaults.rank_share(plan.site),
        timeout_s=options.timeout,
        native=options.native.absolute() if options.native else None,
        probe_files=probe_files(),
        rank_group=launcher.rank_group(ranks, scheduler, world.environ) if ranks else None,
        cut=begun,
        has_controls=options.controls is not None,
        too_busy=too_busy,
    )
    return PreparedSession(settings=settings, plan=plan, image=image)


def _declared(image: "BenchImage", plan: "Plan", console: output.Console) -> "BenchImage":
    from dlcontainer.bench.measure import bench_image

    subject = bench_image.declared(image, {} if image.is_adopted else plan.environment)
    if subject.own_environment:
        undeclared = ", ".join(subject.own_environment)
        console.note(
            "the image sets these variables and the recipe here does not, so the "
            f"native side does not have them: {undeclared}"
        )
    return subject


def _cores(world: "CliContext", ranks: "RankOptions | None") -> int:
    if ranks is None:
        return world.host.cores
    # The cores of a node are its ranks' together.
    return max(1, world.host.cores // (ranks.per_node or -(-ranks.ranks // ranks.nodes)))


def commands(probes: Mapping[str, Probe]) -> typer.Typer:
    """Make `dlcontainer bench`: a command for each probe, and those that need none."""
    app = App(help="Measure what an image costs: native against container, and many ranks.")
    for probe in probes.values():
        # Its options are made when it is meant: they are those of all probes.
        make = partial(probe_command.make, probe, probes, _run)
        options = {"help": probe.summary}
        app.add(Entry(name=probe.name, summary=probe.summary, read=make, options=options))
    app.add(*command_list.BENCH)
    return app


app = commands(PROBES)
