"""`dlcontainer build`: the image, its record and its log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import fetch, options, output
from dlcontainer.engines.base import EngineKind

if TYPE_CHECKING:
    from dlcontainer.build import Workshop
    from dlcontainer.plan import Plan


def build(
    site: options.Site,
    recipe: options.Recipe = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    engine: Annotated[
        EngineKind | None,
        typer.Option("--engine", help="The engine to build with; without it the site's."),
    ] = None,
    target: options.Output = Path("images"),
    tmpdir: options.Tmpdir = None,
    locked: Annotated[
        Path | None,
        typer.Option("--locked", metavar="FILE", help="Take exactly what this lock names."),
    ] = None,
    offline: Annotated[
        Path | None,
        typer.Option(
            "--offline", metavar="DIR", help="Take all from a folder of `fetch`; no network."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done; build nothing.")
    ] = False,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Build an image for a site."""
    from dlcontainer import build as building
    from dlcontainer.cli.world import here
    from dlcontainer.engines import trial
    from dlcontainer.engines.known import FINDERS
    from dlcontainer.siteconfig import Target

    world = here()
    settled = world.plan(recipe, site, settings, Target(node_type=node_type, epoch=epoch), variant)
    console = output.Console(verbose=verbose, quiet=as_json)
    runner = console.runner(world.environ)
    bundle = fetch.bundle_of(world, settled, (locked, offline), console, dry_run=dry_run)
    program = FINDERS[engine or settled.site.engine.kind](world.environ)
    workshop = building.Workshop(
        engine=program,
        trial=trial.require(world.cache, program, world.host, runner),
        host=world.host,
        runner=runner,
        cache=world.cache,
        templates=tuple(world.resources.template_folders()),
        progress=console,
        bundle=bundle,
    )
    target = target.absolute()
    tmpdir = tmpdir.absolute() if tmpdir else None
    if dry_run:
        _show_dry_run(settled, workshop, (target, tmpdir), as_json=as_json)
        return
    console.note(f"plan sha256:{settled.digest[:12]}…, {workshop.trial.version}")
    image = building.build(settled, workshop, target, tmpdir)
    if as_json:
        output.emit(
            "build",
            {
                "image": str(image.path),
                "record": str(image.record),
                "log": str(image.log),
                "sha256": image.sha256,
                "size": image.size,
                "seconds": round(image.seconds, 1),
                "digest": settled.digest,
            },
        )
        return
    size = f"{image.size / 1e6:.0f} MB in {image.seconds:.0f} s"
    console.step(f"done: {size}")
    output.say(str(image.path))


def _show_dry_run(
    settled: "Plan", workshop: "Workshop", places: tuple[Path, Path | None], *, as_json: bool
) -> None:
    from dlcontainer import build as building
    from dlcontainer import preflight
    from dlcontainer.shell import quote

    target, tmpdir = places
    scratch = preflight.choose_tmpdir(settled, workshop.host, tmpdir)
    commands = building.planned_commands(settled, workshop, target, scratch)
    if as_json:
        output.emit(
            "dry-run",
            {
                "image": str(target / f"{settled.name}.sif"),
                "tmpdir": str(scratch),
                "digest": settled.digest,
                "commands": commands,
            },
        )
        return
    output.say(f"image   {target / f'{settled.name}.sif'}\ntmpdir  {scratch}")
    for command in commands:
        output.say(f"$ {quote(command)}")
