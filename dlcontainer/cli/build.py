"""`dlcontainer build`: the image, its record and its log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import fetch, options, output
from dlcontainer.engines.base import EngineKind
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlcontainer.build import Image
    from dlcontainer.errors import BuildError
    from dlcontainer.plan import Plan
    from dlcontainer.workbench import Workbench
    from dlcontainer.workshop import Workshop

Engine = Annotated[
    EngineKind | None,
    typer.Option("--engine", help="The engine to build with; without it the site's."),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="HOST[:PORT]/NAMESPACE",
        help="Push the OCI image there on its way to the SIF (--engine docker or podman).",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the commands that would run; build nothing.")
]
Locked = Annotated[
    Path | None,
    typer.Option("--locked", metavar="FILE", help="Take exactly what this lock names."),
]
Offline = Annotated[
    Path | None,
    typer.Option("--offline", metavar="DIR", help="Take all from a folder of `fetch`; no network."),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain", help="Say which steps the cache holds, and why another not; build nothing."
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Take no step and no image that is there already.")
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="STEP", help="End after this step and keep it; no image."),
]
Level = Annotated[
    int,
    typer.Option(
        min=1,
        max=22,
        metavar="N",
        help="zstd's level of the image: 3 is quick; 15 is smaller, for what is published.",
    ),
]
Order = Annotated[
    Path | None,
    typer.Option(
        "--order-from",
        metavar="TRACE",
        help="Files of this trace first, in its order (`bench count --trace`).",
    ),
]
Shell = Annotated[
    bool,
    typer.Option("--shell-on-failure", help="Open a shell in the tree of a step that failed."),
]


def build(
    site: options.Site,
    recipe: options.Recipe = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    engine: Engine = None,
    registry: Registry = None,
    target: options.Output = Path("images"),
    tmpdir: options.Tmpdir = None,
    locked: Locked = None,
    offline: Offline = None,
    dry_run: DryRun = False,
    explain: Explain = False,
    no_cache: NoCache = False,
    until: Until = None,
    shell: Shell = False,
    level: Level = 3,
    order_from: Order = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Build an image for a site."""
    from dlcontainer import build as building
    from dlcontainer import opened
    from dlcontainer.cli.world import here
    from dlcontainer.engines import apptainer, oci_connect, trial
    from dlcontainer.ociroutes import Route
    from dlcontainer.siteconfig import Target
    from dlcontainer.workshop import Workshop

    world = here()
    settled = world.plan(recipe, site, settings, Target(node_type=node_type, epoch=epoch), variant)
    console = output.Console(verbose=verbose, events=as_json)
    runner = console.runner(world.environ)
    bundle = fetch.bundle_of(world, settled, (locked, offline), console, dry_run=dry_run)
    program = apptainer.find(world.environ)
    kind = engine or settled.site.engine.kind
    _check_engine(kind, registry=registry, dry_run=dry_run, ordered=order_from is not None)
    workshop = Workshop(
        engine=program,
        trial=trial.require(world.cache, program, world.host, runner),
        host=world.host,
        runner=runner,
        cache=world.cache,
        templates=tuple(world.resources.template_folders()),
        progress=console,
        bundle=bundle,
        level=level,
        order=opened.read(order_from) if order_from else None,
        oci=None
        if kind == "apptainer"
        else oci_connect.connect(kind, world.environ, world.host.uid),
        delivery=Route(registry=registry, plain_http=_is_loopback(registry)),
    )
    target = target.absolute()
    tmpdir = tmpdir.absolute() if tmpdir else None
    if dry_run:
        _show_dry_run(settled, workshop, (target, tmpdir), as_json=as_json)
        return
    if explain:
        _show_reasons(settled, workshop, tmpdir, as_json=as_json)
        return
    console.note(f"plan sha256:{settled.digest[:12]}…, {workshop.trial.version}")
    wishes = building.Wishes(
        tmpdir=tmpdir,
        fresh=no_cache,
        until=until,
        on_failure=_shell(console) if shell else None,
    )
    image = building.build(settled, workshop, target, wishes)
    if image is not None:
        _show(image, settled, console, as_json=as_json)
    elif as_json:
        output.emit("build-until", {"step": until, "digest": settled.digest})
    else:
        console.step(f"done up to step '{until}': the next build goes on from there")


def _check_engine(kind: str, *, registry: str | None, dry_run: bool, ordered: bool) -> None:
    if kind == "apptainer" and registry:
        raise UsageError(
            "--registry is for images that Docker or Podman builds",
            next_step="--engine docker, or --engine podman",
        )
    if kind != "apptainer" and ordered:
        raise UsageError(
            "--order-from is for images that Apptainer packs from a tree",
            why=f"what {kind} builds has no tree that lies open",
            next_step="--engine apptainer",
        )
    if kind != "apptainer" and dry_run:
        raise UsageError(
            f"--dry-run shows commands, and {kind} is asked over its socket",
            next_step="--explain says what would be built",
        )


def _is_loopback(registry: str | None) -> bool:
    host = (registry or "").partition("/")[0].rpartition(":")[0]
    return host in {"127.0.0.1", "localhost", "[::1]"}


def _show(image: "Image", settled: "Plan", console: output.Console, *, as_json: bool) -> None:
    if as_json:
        output.emit(
            "build",
            {
                "image": str(image.path),
                "record": str(image.record),
                "log": str(image.log),
                "sbom": str(image.sbom),
                "sha256": image.sha256,
                "size": image.size,
                "seconds": round(image.seconds, 1),
                "digest": settled.digest,
                "found": image.found,
            },
        )
        return
    if image.found:
        console.step("nothing changed: the image is there already (--no-cache makes it anew)")
    else:
        console.step(f"done: {image.size / 1e6:.0f} MB in {image.seconds:.0f} s")
    output.say(str(image.path))


def _shell(console: output.Console) -> "Callable[[Workbench, BuildError], None]":
    from dlcontainer.shell import interact

    def look_round(bench: "Workbench", error: "BuildError") -> None:
        console.step(f"{error.what}\n{error.why or ''}")
        console.step("a shell in the tree as the step left it; `exit` ends it and the build")
        argv, env, cwd = bench.shell_command()
        interact(argv, env=env, cwd=cwd)

    return look_round


def _show_reasons(
    settled: "Plan", workshop: "Workshop", tmpdir: Path | None, *, as_json: bool
) -> None:
    from dlcontainer import build as building
    from dlcontainer import preflight

    scratch = preflight.choose_tmpdir(settled, workshop.host, tmpdir)
    reasons = building.explain(settled, workshop, scratch)
    if as_json:
        body = [
            {"step": one.step.name, "key": one.step.key, "cached": one.cached, "why": one.why}
            for one in reasons
        ]
        output.emit("explain", {"digest": settled.digest, "steps": body})
        return
    rows = [(one.step.name, "cache" if one.cached else "run", one.why) for one in reasons]
    output.say(output.table(rows, head=("step", "from", "why")))


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
