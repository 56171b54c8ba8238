"""`dlcontainer build`: the image, its record and its log."""

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import build_refresh, completion, options, output, own_recipes
from dlcontainer.engines.engine import EngineKind, Outcome, RefreshKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from dlcontainer.build.backends.backend import BuildBackend
    from dlcontainer.build.build import BuildOptions
    from dlcontainer.build.context import BuildContext
    from dlcontainer.cli.build_context import BuildRequest
    from dlcontainer.cli.context import CliContext
    from dlcontainer.errors import BuildError
    from dlcontainer.planning.plan import Plan

RecipeOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="RECIPE|FILE",
        help="A recipe's name or its file; or your own file of Python packages: "
        "requirements*.txt, pyproject.toml, pylock.toml, uv.lock, environment.yml; or a Dockerfile "
        "or definition file (*.def). Default: the site's own recipe.",
        autocompletion=completion.recipes,
    ),
]
# The groups of the help page.
HOW, FROM = "Engine", "Packages"
SHOW, STEPS = "Instead of building", "Steps"

Engine = Annotated[
    EngineKind | None,
    typer.Option(
        "--engine", help="Engine to build with. Default: the site's.", rich_help_panel=HOW
    ),
]
Registry = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="HOST[:PORT]/NAMESPACE",
        help="Push the OCI image to this registry on its way to --to (--engine docker or podman).",
        rich_help_panel=HOW,
    ),
]
To = Annotated[
    Outcome,
    typer.Option(
        "--to",
        help="Output: a SIF; with Docker or Podman also an image in the engine's store, "
        "or a docker-archive.",
        rich_help_panel=HOW,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Show the commands that would run; with --refresh, what is newer (exit code 1) or "
        "that nothing is (0). Build nothing.",
        rich_help_panel=SHOW,
    ),
]
Locked = Annotated[
    Path | None,
    typer.Option(
        "--locked",
        metavar="FILE",
        help="Use exactly the packages of this lock.",
        rich_help_panel=FROM,
    ),
]
Offline = Annotated[
    Path | None,
    typer.Option(
        "--offline",
        metavar="DIR",
        help="Build offline from a folder made by `fetch`.",
        rich_help_panel=FROM,
    ),
]
Base = Annotated[
    Path | None,
    typer.Option("--base", metavar="FILE", help="Start from this base file, made by `base make`."),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Show which steps are cached, and why others are not; build nothing.",
        rich_help_panel=SHOW,
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Rebuild every step and the image, even if they exist already.",
        rich_help_panel=STEPS,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="STEP",
        help="Stop after this step and keep it in the cache; make no image.",
        rich_help_panel=STEPS,
    ),
]
Level = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=22,
        metavar="N",
        help="zstd compression level: 5 is fast; 15 makes a smaller image, for publishing. "
        "Default: 5; with --refresh, that of the image there.",
    ),
]
Order = Annotated[
    Path | None,
    typer.Option(
        "--order-from",
        metavar="TRACE",
        help="Pack the files of this trace (from `lab count --trace`) first, in its order.",
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="NAME[/VERSION]",
        help="Name of the image of a FILE of packages. Default: the file's, or its folder's, and "
        "the framework's version.",
        rich_help_panel=own_recipes.FILE,
    ),
]
Shell = Annotated[
    bool,
    typer.Option(
        "--shell-on-failure",
        help="If a step fails, open a shell in its tree.",
        rich_help_panel=STEPS,
    ),
]


def build(
    site: options.Site,
    recipe: RecipeOrFile = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    engine: Engine = None,
    to: To = "sif",
    registry: Registry = None,
    target: options.Output = Path("images"),
    tmpdir: options.Tmpdir = None,
    locked: Locked = None,
    offline: Offline = None,
    base: Base = None,
    dry_run: DryRun = False,
    explain: Explain = False,
    no_cache: NoCache = False,
    refresh: build_refresh.Kind = None,
    until: Until = None,
    shell: Shell = False,
    level: Level = None,
    order_from: Order = None,
    name: Name = None,
    extends: own_recipes.Extends = None,
    group: own_recipes.Group = None,
    extra: own_recipes.Extra = None,
    allow_change: own_recipes.AllowChange = None,
    keep_shell: own_recipes.KeepShell = False,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Build an image for a site."""
    from dlcontainer.cli import build_context, own_builds
    from dlcontainer.cli.context import PlanWords, here
    from dlcontainer.engines.apptainer import LEVEL
    from dlcontainer.sites.site import SiteTarget

    world = here()
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    console = output.Console(verbose=verbose, events=as_json)
    words = PlanWords(target=meant, variant=variant, cpu=cpu, settings=settings or ())
    file_words = own_builds.FileWords(
        name=name,
        packages=own_recipes.PackageOptions(
            extends=extends,
            groups=group or (),
            extras=extra or (),
            may_change=allow_change or (),
            keeps_shell=keep_shell,
        ),
        keep=None if dry_run or explain else target.absolute(),
    )
    with own_builds.recipe_of(world, recipe, site, words, file_words, console) as named:
        settled = world.plan(named, site, settings, meant, variant, cpu=cpu)
        request = build_context.BuildRequest(
            engine=engine or settled.site.engine.kind,
            outcome=to,
            registry=registry,
            locked=locked,
            offline=offline,
            base=base.absolute() if base else None,
            level=LEVEL if level is None else level,
            order_from=order_from,
            dry_run=dry_run,
        )
        build_words = _BuildWords(
            target=target.absolute(),
            tmpdir=tmpdir.absolute() if tmpdir else None,
            explain=explain,
            no_cache=no_cache,
            refresh=refresh,
            keeps_level=refresh is not None and level is None,
            until=until,
            shell=shell,
        )
        _run(world, settled, request, build_words, console, as_json=as_json)


@dataclass(frozen=True, kw_only=True, slots=True)
class _BuildWords:
    """What to do with a plan that is ready to be built."""

    target: Path
    tmpdir: Path | None
    explain: bool
    no_cache: bool
    refresh: RefreshKind | None
    # An image that is there keeps its compression level.
    keeps_level: bool
    until: str | None
    shell: bool

    @property
    def besides_refresh(self) -> list[str]:
        """Name the options that were typed and that a refresh excludes."""
        typed = (
            ("--explain", self.explain),
            ("--no-cache", self.no_cache),
            ("--until", self.until),
        )
        return [option for option, is_typed in typed if is_typed]


def _run(
    world: "CliContext",
    settled: "Plan",
    request: "BuildRequest",
    build_words: _BuildWords,
    console: output.Console,
    *,
    as_json: bool,
) -> None:
    from dlcontainer.build.cache import previous, refreshes
    from dlcontainer.cli import build_context, build_output
    from dlcontainer.system import file_locks

    target, kind = build_words.target, build_words.refresh
    build_refresh.require_alone(kind, request, build_words.besides_refresh)
    if kind and request.dry_run:
        build_context.check(request)
        build_refresh.tell(world, settled, request, target, kind, console, as_json=as_json)
        return
    with file_locks.building(world.cache, console.note):
        context = build_context.ready(world, settled, request, console)
        outputs = previous.places(settled, context, target)
        context = refreshes.recalled(settled, context, outputs.record)
        if build_words.keeps_level:
            context = build_refresh.at_its_level(context, outputs, console)
        if request.dry_run:
            build_output.show_dry_run(settled, context, target, build_words.tmpdir, as_json=as_json)
        elif build_words.explain:
            build_output.show_reasons(settled, context, build_words.tmpdir, as_json=as_json)
        else:
            run = (
                build_refresh.begin(world, settled, context, target, kind, console)
                if kind
                else None
            )
            _build(
                settled,
                run.answer.into(context) if run else context,
                target,
                _options(build_words, run, console),
                console,
                run,
                as_json=as_json,
            )


def _options(
    build_words: _BuildWords, run: "build_refresh.RefreshRun | None", console: output.Console
) -> "BuildOptions":
    from dlcontainer.build import package_moves
    from dlcontainer.build.build import BuildOptions

    is_newest = run is not None and not run.answer.is_newer
    return BuildOptions(
        tmpdir=build_words.tmpdir,
        fresh=build_words.no_cache,
        is_newest=is_newest,
        older=package_moves.named(run.answer.older) if run and is_newest else "",
        until=build_words.until,
        on_failure=_shell(console) if build_words.shell else None,
    )


def _build(
    settled: "Plan",
    context: "BuildContext",
    target: Path,
    build_options: "BuildOptions",
    console: output.Console,
    run: "build_refresh.RefreshRun | None",
    *,
    as_json: bool,
) -> None:
    from dlcontainer.build import build as building
    from dlcontainer.cli import build_output

    console.note(f"plan sha256:{settled.digest[:12]}…, {context.version}")
    # A shell on failure has the terminal for itself.
    with contextlib.nullcontext() if build_options.on_failure else console.beating():
        image = building.build(settled, context, target, build_options)
    if image is not None:
        build_output.show(image, settled, console, run, as_json=as_json)
    elif as_json:
        output.emit("build-until", {"step": build_options.until, "digest": settled.digest})
    else:
        console.end(f"done up to step '{build_options.until}': the next build goes on from there")


def _shell(console: output.Console) -> "Callable[[BuildBackend, BuildError], None]":
    from dlcontainer.system.process import interact

    def look_round(backend: "BuildBackend", error: "BuildError") -> None:
        console.end(f"{error.what}\n{error.why or ''}")
        console.end("a shell in the tree as the step left it; `exit` ends it and the build")
        argv, env, cwd = backend.shell_command()
        interact(argv, env=env, cwd=cwd)

    return look_round
