"""`dlcontainer bench`: native against container, pair by pair; the file of raw samples."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from dlcontainer.bench.samples.vocabulary import Probe
from dlcontainer.cli import options, output
from dlcontainer.cli.bench import bench_context, count, defaults, rank_options, scale, slowfs, storm
from dlcontainer.cli.bench import session_options as own
from dlcontainer.cli.bench.session_options import Chosen

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import Subject
    from dlcontainer.bench.measure.declaration import Wanted
    from dlcontainer.bench.measure.launcher import Asked
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.cli.context import World

_Around = tuple["World", "output.Console"]


def bench(
    context: typer.Context,
    site: options.Site,
    image: own.Image,
    question: own.Asked = "overhead",
    arms: own.Arms = None,
    pairs: own.Pairs = None,
    looks: own.Looks = None,
    controls: own.Controls = None,
    seed: own.Seed = None,
    target: own.File = None,
    resume: own.Resumed = None,
    native: own.NativeFolder = None,
    native_as: own.ShownAs = None,
    module: own.Module = None,
    steps: own.Steps = None,
    device: own.Device = "auto",
    threads: own.Threads = None,
    timeout: own.Timeout = 600.0,
    ranks: rank_options.Ranks = None,
    per_node: rank_options.PerNode = None,
    nodes: rank_options.Nodes = None,
    start: rank_options.Started = None,
    launcher: rank_options.LauncherWords = None,
    form: rank_options.FormName = None,
    distributed: rank_options.Distributed = None,
    recipe: own.RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure what an image costs against the native stack; every sample goes into one file."""
    chosen = Chosen(
        # One function for both probes: the command's own name says which.
        probe=cast("Probe", context.info_name),
        question=question, arms=arms, site=site, image=image, pairs=pairs, looks=looks,
        controls=controls, seed=seed, target=target, resume=resume, native=native,
        native_as=native_as, module=module, steps=steps, device=device, threads=threads,
        timeout=timeout, recipe=recipe, settings=settings,
        ranked=rank_options.Ranked(
            ranks=ranks, per_node=per_node, nodes=nodes, start=start, launcher=launcher, form=form,
            distributed=distributed,
        ),
    )  # fmt: skip
    chosen.check()
    _run(chosen, output.Console(verbose=verbose, quiet=as_json), as_json=as_json)


def _run(chosen: Chosen, console: output.Console, *, as_json: bool) -> None:
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.cli.context import here

    asked, begun = defaults.asked(chosen)
    world = here()
    measured = bench_image.read(chosen.image.absolute(), world.host.arch)
    if chosen.probe == "train":
        measured.trained()  # before a twin is made for nothing
    wanted = _wanted(chosen, asked, begun, measured, world)
    team = chosen.ranked.asked(begun.session.declared if begun else None)
    if team:
        # The cores of a node are its ranks' together.
        each = max(1, world.host.cores // (team.per_node or -(-team.ranks // team.nodes)))
        framework = measured.trained() if chosen.probe == "train" else None
        way = chosen.ranked.way(
            framework, measured.modules, begun.session.declared if begun else None
        )
        wanted = replace(wanted, distributed=way, threads=asked.threads or each)
    most, triples = wanted.looks[-1], len(wanted.arms) == 3
    fewest = defaults.FEWEST_TRIPLES if triples else defaults.FEWEST
    if most < fewest:
        unit = "triples" if triples else "pairs"
        console.note(f"{most} {unit}: a verdict takes {fewest}, this will have none")
    path = _measure(wanted, measured, (chosen.recipe, chosen.settings, team), (world, console))
    if as_json:
        said = {
            "file": str(path), "probe": chosen.probe, "pairs": most, "looks": list(wanted.looks),
        }  # fmt: skip
        output.emit("bench", said)
        return
    console.step(f"done; now: dlcontainer report {path.name}")
    output.say(str(path))


def _wanted(
    chosen: Chosen,
    asked: defaults.Asking,
    begun: "Series | None",
    measured: "Subject",
    world: "World",
) -> "Wanted":
    from dlcontainer.bench.measure.declaration import Wanted
    from dlcontainer.config.resources import probe_files

    usual = defaults.DEFAULT_TRIPLES if len(asked.arms) == 3 else defaults.DEFAULT_LOOKS
    schedule = asked.looks or usual
    place = chosen.resume or chosen.target or _file_name(measured, chosen.probe)
    return Wanted(
        probe=chosen.probe,
        question=chosen.question,
        looks=schedule,
        controls=schedule[-1] if asked.controls is None else asked.controls,
        candidate_controls=asked.candidate_controls,
        native_as=asked.native_as or "tree",
        arms=asked.arms,
        # Who joins a mount matters where files are read: at import, and where there is one.
        joiners=schedule[-1] if chosen.probe == "import" and asked.has_container else 0,
        seed=_new_seed() if asked.seed is None else asked.seed,
        output=place.absolute(),
        site=chosen.site,
        module=asked.module or measured.modules[0],
        threads=asked.threads or world.host.cores,
        steps=asked.steps or 0,
        device=chosen.device,
        timeout_s=chosen.timeout,
        native=chosen.native.absolute() if chosen.native else None,
        probe_files=probe_files(),
        cut=begun,
    )


def _measure(
    wanted: "Wanted",
    measured: "Subject",
    chosen: tuple[str | None, list[str] | None, "Asked | None"],
    around: "_Around",
) -> Path:
    from dlcontainer.bench.measure import launcher, session

    world, console = around
    # Site and recipe are read even where --native makes the twin needless: names must be right.
    recipe, settings, asked = chosen
    name = recipe or measured.recipe
    plan = world.plan(name, wanted.site, settings, variant=measured.variant)
    beside = None
    if asked:
        team = launcher.team(asked, plan.site.scheduler, world.environ)
        wanted = replace(wanted, team=team)
        # Every node must see what its ranks read and write: the file's own file system is shared.
        beside = wanted.output.parent if team.nodes > 1 else None
    with bench_context.opened(world, console, plan, beside) as lab:
        return session.run(wanted, plan, measured, lab)


def _file_name(measured: "Subject", probe: Probe) -> Path:
    moment = time.strftime("%Y%m%dT%H%M%S")
    return Path(f"{measured.image.stem}-{probe}-{moment}.jsonl")


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)


app = typer.Typer(
    help="Measure what an image costs, and foresee what it does to a file system.",
    no_args_is_help=True,
)
app.command("import", help="Time to import the framework: native against container.")(bench)
app.command("train", help="Time of training steps: native against container.")(bench)
app.command("slowfs")(slowfs.slowfs)
app.command("count")(count.count)
app.command("probe-fs")(count.probe_fs)
app.command("scale")(scale.scale)
app.command("storm")(storm.storm)
