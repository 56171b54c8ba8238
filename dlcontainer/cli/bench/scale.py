"""`dlcontainer bench scale`: the factors of an import at scale as a matrix, measured in rounds."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import bench_context, rank_options
from dlcontainer.cli.bench import session_options as own

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.scale.context import Wanted
    from dlcontainer.bench.scale.matrix import Matrix
    from dlcontainer.bench.scale.prepare import Given
    from dlcontainer.bench.scale.records import Scale
    from dlcontainer.cli.context import World

MatrixFile = Annotated[
    Path, typer.Argument(metavar="MATRIX.yaml", help="The factors; see docs/scale.md.")
]
Shared = Annotated[
    Path | None,
    typer.Option(
        "--shared",
        metavar="FOLDER",
        help="On the file system that nodes share: what is `shared` is copied there first. "
        "Without it all lies where it is.",
    ),
]
Rounds = Annotated[
    int | None, typer.Option("--rounds", metavar="N", min=1, help="In place of the matrix's.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What was typed."""

    site: str
    image: Path
    target: Path | None
    resume: Path | None
    native: Path | None
    shared: Path | None
    rounds: int | None
    seed: int | None
    module: str | None
    launcher: str | None
    form: str | None
    timeout: float
    recipe: str | None
    settings: list[str] | None


def scale(
    matrix: MatrixFile,
    site: options.Site,
    image: own.Image,
    target: own.File = None,
    resume: own.Resumed = None,
    native: own.NativeFolder = None,
    shared: Shared = None,
    rounds: Rounds = None,
    seed: own.Seed = None,
    module: own.Module = None,
    launcher: rank_options.LauncherWords = None,
    form: rank_options.FormName = None,
    timeout: own.Timeout = 600.0,
    recipe: own.RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure how long many ranks take to import, cell by cell of a matrix, in rounds."""
    from dlcontainer.bench.scale import matrix as matrices
    from dlcontainer.cli.context import here

    chosen = Chosen(
        site=site, image=image, target=target, resume=resume, native=native, shared=shared,
        rounds=rounds, seed=seed, module=module, launcher=launcher, form=form, timeout=timeout,
        recipe=recipe, settings=settings,
    )  # fmt: skip
    console = output.Console(verbose=verbose, quiet=as_json)
    read = matrices.read(matrix)
    path = _measure(chosen, matrix, read, here(), console)
    if as_json:
        output.emit("scale", {"file": str(path)})
        return
    console.step(f"done; now: dlcontainer report {path.name}")
    output.say(str(path))


def _measure(
    chosen: Chosen, file: Path, matrix: "Matrix", world: "World", console: output.Console
) -> Path:
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.bench.scale import prepare, session

    measured = bench_image.read(chosen.image.absolute(), world.host.arch)
    wanted = _wanted(chosen, matrix, measured)
    given = _given(chosen, file, measured, world)
    # Ranks of other nodes write beside the session's file: its file system is shared.
    several = max(matrix.factors.nodes) > 1
    beside = wanted.output.parent if several else None
    with bench_context.opened(world, console, given.plan, beside) as context:
        settled = prepare.settle(wanted, given, context, console.runner(world.environ))
        for gone in settled.expansion.left_out:
            console.note(f"left out: {gone.cell.name}: {gone.why}")
        return session.run(settled.context, settled.expansion)


def _wanted(chosen: Chosen, matrix: "Matrix", measured: "BenchImage") -> "Wanted":
    import secrets
    import time

    from dlcontainer.bench.scale.context import Wanted

    cut = _cut(chosen)
    before = cut.header.declared if cut else None
    moment = time.strftime("%Y%m%dT%H%M%S")
    named = Path(f"{measured.image.stem}-scale-{moment}.jsonl")
    return Wanted(
        matrix=matrix,
        output=(chosen.resume or chosen.target or named).absolute(),
        site=chosen.site,
        module=chosen.module or matrix.module or measured.modules[0],
        rounds=chosen.rounds or (before.rounds if before else matrix.rounds),
        seed=_first(chosen.seed, before.seed if before else None, secrets.randbelow(2**31)),
        timeout_s=chosen.timeout,
        shared=chosen.shared.absolute() if chosen.shared else None,
        cut=cut,
    )


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _cut(chosen: Chosen) -> "Scale | None":
    from dlcontainer.bench.scale import file
    from dlcontainer.errors import BenchDataError, UsageError

    if chosen.resume is None:
        place = chosen.target
        if place is not None and place.exists():
            raise BenchDataError(
                "there is a file of this name",
                where=str(place),
                next_step="give another name with -o, or let it go on with --resume",
            )
        return None
    if chosen.target is not None:
        raise UsageError("-o and --resume: a session goes on in its own file")
    begun = file.read(chosen.resume)
    if begun.end is not None and begun.end.complete:
        raise BenchDataError(
            "the matrix is measured whole",
            where=str(chosen.resume),
            next_step="report it, or measure again into a new file",
        )
    return begun


def _given(chosen: Chosen, file: Path, measured: "BenchImage", world: "World") -> "Given":
    from dlcontainer.bench.scale.prepare import Given
    from dlcontainer.config.resources import probe_files

    name = chosen.recipe or measured.recipe
    plan = world.plan(name, chosen.site, chosen.settings, variant=measured.variant)
    return Given(
        plan=plan,
        image=measured,
        native=chosen.native.absolute() if chosen.native else None,
        words=tuple(shlex.split(chosen.launcher)) if chosen.launcher else (),
        form=chosen.form,
        folder=file.absolute().parent,
        probe_files=probe_files(),
    )
