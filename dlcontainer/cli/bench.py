"""`dlcontainer bench`: native against container, pair by pair; the file of raw samples."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.bench.words import Probe, Question
from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.bench.declare import Wanted
    from dlcontainer.bench.subject import Subject
    from dlcontainer.cli.world import World

_FEWEST = 8

_Around = tuple["World", "output.Console"]

What = Annotated[
    Probe,
    typer.Argument(metavar="import|train", help="Time to import the framework, or of training."),
]
Image = Annotated[Path, typer.Option("--image", metavar="IMAGE", help="An image file (.sif).")]
Asked = Annotated[
    Question,
    typer.Option(
        "--question",
        help="overhead: the same bits without and with a container; deployment: the site's own "
        "stack (--native) against the image, each as it is.",
    ),
]
Pairs = Annotated[
    int, typer.Option("--pairs", metavar="N", help="Pairs of launches; a verdict takes 8.")
]
Controls = Annotated[
    int | None,
    typer.Option(
        "--controls",
        metavar="N",
        help="Pairs native against native; without it as many as --pairs.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", metavar="K", help="Of the order; without it a new one.")
]
File = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.jsonl", help="Where the samples go."),
]
NativeFolder = Annotated[
    Path | None,
    typer.Option(
        "--native",
        metavar="FOLDER",
        help="The native side, a Python prefix; without it the recipe's native twin.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="T", min=1, help="Threads on both sides; without it all cores."
    ),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="S", min=1.0, help="A launch that takes longer is ended."),
]


Module = Annotated[
    str | None,
    typer.Option("--module", metavar="NAME", help="import: what; without it the recipe's first."),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="K",
        min=1,
        help="train: steps of a launch; without it as many as fill 10 s.",
    ),
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option("--device", help="train: where; auto: a GPU if seen."),
]

RecipeOf = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="RECIPE", help="The recipe's name or file; without it the image's own."
    ),
]


def bench(
    probe: What,
    site: options.Site,
    image: Image,
    question: Asked = "overhead",
    pairs: Pairs = _FEWEST,
    controls: Controls = None,
    seed: Seed = None,
    target: File = None,
    native: NativeFolder = None,
    module: Module = None,
    steps: Steps = None,
    device: Device = "auto",
    threads: Threads = None,
    timeout: Timeout = 600.0,
    recipe: RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure what an image costs against the native stack; every sample goes into one file."""
    from dlcontainer.bench import subject
    from dlcontainer.bench.declare import Wanted
    from dlcontainer.cli.world import here
    from dlcontainer.resources import probe_files

    _check(probe, question, (pairs, controls), steps, native)
    world = here()
    measured = subject.read(image.absolute(), world.host.arch)
    if probe == "train":
        measured.trained()  # before a twin is made for nothing
    console = output.Console(verbose=verbose, quiet=as_json)
    if pairs < _FEWEST:
        console.note(f"{pairs} pairs: a verdict takes at least {_FEWEST}, this will have none")
    wanted = Wanted(
        probe=probe,
        question=question,
        pairs=pairs,
        controls=pairs if controls is None else controls,
        # Who joins a mount matters where files are read: at import.
        joiners=pairs if probe == "import" else 0,
        seed=_new_seed() if seed is None else seed,
        output=(target or _file_name(measured, probe)).absolute(),
        site=site,
        module=module or measured.modules[0],
        threads=threads or world.host.cores,
        steps=steps or 0,
        device=device,
        timeout_s=timeout,
        native=native.absolute() if native else None,
        probe_files=probe_files(),
    )
    path = _measure(wanted, measured, (recipe, settings), (world, console))
    if as_json:
        output.emit("bench", {"file": str(path), "probe": probe, "pairs": pairs})
        return
    console.step(f"done; now: dlcontainer report {path.name}")
    output.say(str(path))


def _check(
    probe: Probe,
    question: Question,
    counts: tuple[int, int | None],
    steps: int | None,
    native: Path | None,
) -> None:
    from dlcontainer.errors import UsageError

    pairs, controls = counts
    if pairs < 1:
        raise UsageError(f"--pairs {pairs}: at least 1", next_step="a verdict takes 8: --pairs 8")
    if controls is not None and controls < 0:
        raise UsageError(f"--controls {controls}: 0 or more")
    if steps is not None and probe == "import":
        raise UsageError("--steps: an import has none", next_step="leave it out, or: bench train")
    if native is None:
        if question == "deployment":
            raise UsageError(
                "--question deployment: the site's own stack is not given",
                next_step="name the folder that holds its bin/python: --native FOLDER",
            )
    elif not (native / "bin/python").is_file():
        raise UsageError(
            f"--native {native}: there is no bin/python in it",
            next_step="give the folder of a virtual environment or a Python installation",
        )


def _measure(
    wanted: "Wanted",
    measured: "Subject",
    chosen: tuple[str | None, list[str] | None],
    around: "_Around",
) -> Path:
    import tempfile

    from dlcontainer.bench import session
    from dlcontainer.bench.lab import Lab
    from dlcontainer.engines import apptainer, trial
    from dlcontainer.workspace import workspace

    world, console = around
    # Site and recipe are read even where --native makes the twin needless: names must be right.
    recipe, settings = chosen
    name = recipe or measured.recipe
    plan = world.plan(name, wanted.site, settings, variant=measured.variant)
    runner = console.runner(world.environ)
    engine = apptainer.find(world.environ)
    tried = trial.require(world.cache, engine, world.host, runner)
    with workspace(Path(tempfile.gettempdir()), runner) as work:
        lab = Lab(
            engine=engine,
            trial=tried,
            host=world.host,
            runner=runner,
            cache=world.cache,
            templates=tuple(world.resources.template_folders()),
            progress=console,
            work=work,
        )
        return session.run(wanted, plan, measured, lab)


def _file_name(measured: "Subject", probe: Probe) -> Path:
    moment = time.strftime("%Y%m%dT%H%M%S")
    return Path(f"{measured.image.stem}-{probe}-{moment}.jsonl")


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(2**31)
