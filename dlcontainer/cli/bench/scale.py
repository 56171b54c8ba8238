"""`dlcontainer bench import-matrix`: an import's factors, measured cell by cell."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import bench_context, defaults, rank_options
from dlcontainer.cli.bench import session_options as own
from dlcontainer.cli.bench.session_options import SessionOptions

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.scale.matrix import Matrix
    from dlcontainer.bench.scale.matrix_context import ScaleSettings
    from dlcontainer.bench.scale.matrix_records import MatrixSession
    from dlcontainer.bench.scale.prepare import MatrixInputs
    from dlcontainer.cli.context import CliContext

MatrixFile = Annotated[
    Path,
    typer.Argument(metavar="MATRIX.yaml", help="File with the factors: docs/measure/scale.md."),
]
Shared = Annotated[
    Path | None,
    typer.Option(
        "--shared",
        metavar="FOLDER",
        help="Folder on the file system that the nodes share; files of `where: shared` are copied "
        "there first. Default: nothing is copied.",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", min=1, help="Number of rounds. Default: the matrix's."),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _MatrixOptions:
    """A matrix: its file, its factors, and what was typed in place of them."""

    file: Path
    matrix: "Matrix"
    module: str | None
    rounds: int | None
    shared: Path | None


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
    """Measure how long many ranks take to import, for each cell of a matrix, in rounds."""
    from dlcontainer.bench.scale import matrix as matrices
    from dlcontainer.cli.context import here

    chosen = SessionOptions(
        site=site, image=image, target=target, resume=resume, native=native, seed=seed,
        launcher=launcher, form=form, timeout=timeout, recipe=recipe, settings=settings,
        as_json=as_json, verbose=verbose,
    )  # fmt: skip
    console = output.Console(verbose=verbose, quiet=as_json)
    measured = _MatrixOptions(
        file=matrix, matrix=matrices.read(matrix), module=module, rounds=rounds, shared=shared
    )
    path = _measure(chosen, measured, here(), console)
    if as_json:
        output.emit("scale", {"file": str(path)})
        return
    console.end(f"done; now: dlcontainer report {path.name}")
    output.copied(str(path))


def _measure(
    options: SessionOptions, measured: _MatrixOptions, world: "CliContext", console: output.Console
) -> Path:
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.bench.scale import matrix_session, prepare

    owners = world.site(options.site).value.owners
    image = bench_image.read(options.image.absolute(), world.host.arch, owners)
    settings = _settings(options, measured, image)
    inputs = _given(options, measured, image, world)
    # Ranks of other nodes write beside the session's file: its file system is shared.
    several = max(measured.matrix.factors.nodes) > 1
    parent = settings.output.parent if several else None
    with bench_context.opened(world, console, inputs.plan, parent, image) as context:
        settled = prepare.settle(settings, inputs, context, console.runner(world.environ))
        for gone in settled.expansion.left_out:
            console.note(f"left out: {gone.cell.name}: {gone.why}")
        return matrix_session.run(settled.context, settled.expansion)


def _settings(
    options: SessionOptions, measured: _MatrixOptions, image: "BenchImage"
) -> "ScaleSettings":
    from dlcontainer.bench.scale.matrix_context import ScaleSettings

    matrix, cut = measured.matrix, _cut(options)
    before = cut.header.declared if cut else None
    return ScaleSettings(
        matrix=matrix,
        output=defaults.output(options, image, "scale"),
        site=options.site,
        module=measured.module or matrix.module or image.first_module,
        rounds=measured.rounds or (before.rounds if before else matrix.rounds),
        seed=defaults.seed(options, before.seed if before else None),
        timeout_s=options.timeout,
        shared=measured.shared.absolute() if measured.shared else None,
        cut=cut,
    )


def _cut(options: SessionOptions) -> "MatrixSession | None":
    from dlcontainer.bench.scale import matrix_file
    from dlcontainer.errors import BenchDataError, UsageError

    if options.resume is None:
        place = options.target
        if place is not None and place.exists():
            raise BenchDataError(
                "the file exists already",
                where=str(place),
                next_step="choose another name with -o, or resume the session with --resume",
            )
        return None
    if options.target is not None:
        raise UsageError("--resume takes no -o: a resumed session continues in its own file")
    begun = matrix_file.read(options.resume)
    if begun.end is not None and begun.end.complete:
        raise BenchDataError(
            "the matrix is complete",
            where=str(options.resume),
            next_step="report it, or measure again into a new file",
        )
    return begun


def _given(
    options: SessionOptions, measured: _MatrixOptions, image: "BenchImage", world: "CliContext"
) -> "MatrixInputs":
    from dlcontainer.bench.measure.launcher import RankOptions
    from dlcontainer.bench.scale.prepare import MatrixInputs
    from dlcontainer.config.resources import probe_files

    return MatrixInputs(
        plan=defaults.plan(options, image, world),
        image=image,
        native=options.native.absolute() if options.native else None,
        ranks=RankOptions(ranks=1, words=defaults.launcher_words(options), form=options.form),
        folder=measured.file.absolute().parent,
        probe_files=probe_files(),
    )
