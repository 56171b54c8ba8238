"""`dlcontainer bench`: native against container, pair by pair; the file of raw samples."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from dlcontainer.bench.words import Probe, Question
from dlcontainer.cli import asking, count, options, output, slowfs, storm
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.declare import Wanted
    from dlcontainer.bench.subject import Subject
    from dlcontainer.cli.world import World

_FEWEST = asking.FEWEST
_DEFAULT_LOOKS = (8, 16, 32)

_Around = tuple["World", "output.Console"]

Image = Annotated[Path, typer.Option("--image", metavar="IMAGE", help="An image file (.sif).")]
Asked = Annotated[
    Question,
    typer.Option(
        "--question",
        help="overhead: the same bits without and with a container; deployment: the site's own "
        "stack (--native) against the image, each as it is.",
    ),
]
Looks = Annotated[
    str | None,
    typer.Option(
        "--looks",
        metavar="N,N,...",
        help="Numbers of pairs at which the session may end; without it and --pairs 8,16,32.",
    ),
]
Pairs = Annotated[
    int | None,
    typer.Option(
        "--pairs", metavar="N", help="A quick session: one look, at N pairs; a verdict takes 8."
    ),
]
Resumed = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE.jsonl",
        help="Go on with a session that was interrupted, as it was declared.",
    ),
]
Controls = Annotated[
    int | None,
    typer.Option(
        "--controls",
        metavar="N",
        help="Pairs native against native; without it as many as pairs.",
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
    context: typer.Context,
    site: options.Site,
    image: Image,
    question: Asked = "overhead",
    pairs: Pairs = None,
    looks: Looks = None,
    controls: Controls = None,
    seed: Seed = None,
    target: File = None,
    resume: Resumed = None,
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
    from dlcontainer.bench import cut, subject
    from dlcontainer.bench.declare import Wanted
    from dlcontainer.cli.world import here
    from dlcontainer.resources import probe_files

    # One function for both probes: the command's own name says which.
    probe = cast("Probe", context.info_name)
    _check(probe, question, (pairs, controls), steps, native)
    if resume is not None and target is not None:
        raise UsageError("--resume and -o: a resumed session goes on in its own file")
    asked = asking.Asking(
        looks=asking.looks(pairs, looks),
        controls=controls,
        seed=seed,
        module=module,
        steps=steps,
        threads=threads,
    )
    begun = cut.read(resume.absolute()) if resume else None
    if begun:
        asked = asked.filled(begun.session.declared)
    world = here()
    measured = subject.read(image.absolute(), world.host.arch)
    if probe == "train":
        measured.trained()  # before a twin is made for nothing
    console = output.Console(verbose=verbose, quiet=as_json)
    schedule = asked.looks or _DEFAULT_LOOKS
    if schedule[-1] < _FEWEST:
        console.note(f"{schedule[-1]} pairs: a verdict takes {_FEWEST}, this will have none")
    wanted = Wanted(
        probe=probe,
        question=question,
        looks=schedule,
        controls=schedule[-1] if asked.controls is None else asked.controls,
        # Who joins a mount matters where files are read: at import.
        joiners=schedule[-1] if probe == "import" else 0,
        seed=_new_seed() if asked.seed is None else asked.seed,
        output=(resume or target or _file_name(measured, probe)).absolute(),
        site=site,
        module=asked.module or measured.modules[0],
        threads=asked.threads or world.host.cores,
        steps=asked.steps or 0,
        device=device,
        timeout_s=timeout,
        native=native.absolute() if native else None,
        probe_files=probe_files(),
        cut=begun,
    )
    path = _measure(wanted, measured, (recipe, settings), (world, console))
    if as_json:
        said = {"file": str(path), "probe": probe, "pairs": schedule[-1], "looks": list(schedule)}
        output.emit("bench", said)
        return
    console.step(f"done; now: dlcontainer report {path.name}")
    output.say(str(path))


def _check(
    probe: Probe,
    question: Question,
    counts: tuple[int | None, int | None],
    steps: int | None,
    native: Path | None,
) -> None:
    pairs, controls = counts
    if pairs is not None and pairs < 1:
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


app = typer.Typer(
    help="Measure what an image costs, and foresee what it does to a file system.",
    no_args_is_help=True,
)
app.command("import", help="Time to import the framework: native against container.")(bench)
app.command("train", help="Time of training steps: native against container.")(bench)
app.command("slowfs")(slowfs.slowfs)
app.command("count")(count.count)
app.command("probe-fs")(count.probe_fs)
app.command("storm")(storm.storm)
