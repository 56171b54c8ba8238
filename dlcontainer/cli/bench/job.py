"""`dlcontainer bench job`: the user's own command as a job, native and container, in pairs."""

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import defaults, job_parts, job_words, rank_options
from dlcontainer.cli.bench import session_options as own
from dlcontainer.cli.bench.session_options import SessionOptions

if TYPE_CHECKING:
    from dlcontainer.bench.job.job_records import JobSession
    from dlcontainer.bench.job.job_session import JobContext
    from dlcontainer.bench.job.scripts import Placing, RankSearch
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.cli.context import CliContext

PAIRS = 8
# Of jobs that the scheduler loses (a node that fails, preemption) a session replaces so many.
REPLACE = 2

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND", help="Command that each rank runs, the same on both sides."
    ),
]
PerNode = Annotated[
    int | None,
    typer.Option(
        "--tasks-per-node",
        metavar="K",
        min=1,
        help="Ranks per node. Default: as in the site's jobs.",
        rich_help_panel=options.JOB,
    ),
]
Pairs = Annotated[
    int,
    typer.Option(
        "--pairs", metavar="P", min=1, help="Number of pairs of jobs; a verdict needs 8.",
        rich_help_panel=own.SESSION,
    ),
]  # fmt: skip
FirstStep = Annotated[
    str | None,
    typer.Option(
        "--first-step",
        metavar="REGEX",
        help="Regular expression for the lines that steps print; the first match ends a "
        "rank's start-up. Default: the start-up ends when the command's process "
        "begins.",
        rich_help_panel=own.SESSION,
    ),
]
Margin = Annotated[
    str,
    typer.Option(
        "--margin",
        metavar="SECONDS",
        help="Largest start-up difference that does not matter, in seconds, e.g. 0.5s.",
        rich_help_panel=own.SESSION,
    ),
]
StepMark = Annotated[
    str | None,
    typer.Option(
        "--step-mark",
        metavar="REGEX",
        help="Regular expression for the lines that end a step. Default: a step of a PyTorch "
        "optimizer, seen by a hook; the program is not changed.",
        rich_help_panel=own.SESSION,
    ),
]
WarmUpSteps = Annotated[
    int,
    typer.Option(
        "--warm-up-steps", metavar="N", min=1, help="First steps of a job that are left out.",
        rich_help_panel=own.SESSION,
    ),
]  # fmt: skip
StepMargin = Annotated[
    str,
    typer.Option(
        "--step-margin", metavar="SHARE", help="Largest difference of a step's time that does not "
        "matter.", rich_help_panel=own.SESSION,
    ),
]  # fmt: skip
NoSteps = Annotated[
    bool,
    typer.Option(
        "--no-steps", help="Judge the start-up alone.", rich_help_panel=own.SESSION,
    ),
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class _JobOptions:
    """A session of jobs as it was typed, beside the options of every session."""

    command: tuple[str, ...]
    search: "RankSearch"
    pairs: int
    margin_s: float
    placing: "Placing"
    limit: str | None


def job(
    command: Command,
    site: options.Site,
    image: own.Image,
    native: own.NativeFolder = None,
    nodes: options.Nodes = None,
    per_node: PerNode = None,
    form: rank_options.FormName = None,
    pairs: Pairs = PAIRS,
    first_step: FirstStep = None,
    margin: Margin = "1s",
    step_mark: StepMark = None,
    warm_up_steps: WarmUpSteps = 10,
    step_margin: StepMargin = "2%",
    no_steps: NoSteps = False,
    account: options.Account = None,
    partition: options.Partition = None,
    time: options.Time = None,
    seed: own.Seed = None,
    target: own.File = None,
    resume: own.Resumed = None,
    recipe: own.RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure your own command as native and container jobs, from submission to the last exit."""
    from dlcontainer.bench.job import job_session
    from dlcontainer.bench.job.scripts import Placing, RankSearch
    from dlcontainer.cli.context import here

    job_options = _JobOptions(
        command=tuple(command),
        search=RankSearch(
            first_step=job_words.pattern(first_step),
            steps=job_words.steps(
                without=no_steps, mark=step_mark, warm_up=warm_up_steps, margin=step_margin
            ),
        ),
        pairs=pairs,
        margin_s=job_words.seconds(margin),
        placing=Placing(nodes=nodes, tasks_per_node=per_node, form=form),
        limit=time,
    )
    resources = options.resources(account=account, partition=partition, nodes=nodes)
    chosen = SessionOptions(
        site=site, image=image, target=target, resume=resume, native=native, seed=seed, form=form,
        recipe=recipe, settings=[*(settings or []), *resources], as_json=as_json, verbose=verbose,
    )  # fmt: skip
    chosen.check()
    console = output.Console(verbose=verbose, quiet=as_json)
    if pairs < PAIRS:
        console.note(f"{pairs} pairs: a verdict needs {PAIRS}, so this session will have none")
    with ExitStack() as stack:
        path = job_session.run(_context(chosen, job_options, here(), console, stack))
    if as_json:
        output.emit("bench", {"file": str(path), "probe": "job", "pairs": pairs, "looks": [pairs]})
        return
    console.end(f"done; now: dlcontainer report {path.name}")
    output.copied(str(path))


def _context(
    options_: SessionOptions,
    job_options: _JobOptions,
    world: "CliContext",
    console: output.Console,
    stack: ExitStack,
) -> "JobContext":
    from dlcontainer.bench.job import scripts
    from dlcontainer.bench.job.job_records import JobDeclaration
    from dlcontainer.bench.job.job_session import JobContext
    from dlcontainer.bench.job.scripts import JobFrame
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.system.workspace import workspace

    cut = _cut(options_)
    owners = world.site(options_.site).value.owners
    image = bench_image.read(options.image_file(options_.image), world.host.arch, owners)
    bench_image.require_trust(image, options_.site)
    target = defaults.output(options_, image, "job")
    if job_options.search.hooked:
        fix = ", give --step-mark, or leave the steps out with --no-steps"
        job_words.require_plain(target.parent.absolute(), fix)
    plan = job_parts.plan(options_, job_options.limit, image, world)
    # Where jobs are submitted is the user's own environment.
    runner = console.runner(world.of_user, of_user=True)
    submitter = job_parts.submitter(plan, job_options.limit, world, console)
    native, why = job_parts.native(options_.native, plan, world, console)
    subject = bench_image.declared(image, {} if image.is_adopted else plan.environment)
    seed = defaults.seed(options_, cut.declared.seed if cut else None)
    side = scripts.NativeSide(prefix=native, environment=subject.environment)
    folders = world.resources.template_folders()
    declared = JobDeclaration(
        command=job_options.command,
        first_step=job_options.search.first_step,
        pairs=job_options.pairs,
        seed=seed,
        margin_s=job_options.margin_s,
        nodes=job_options.placing.nodes,
        tasks_per_node=job_options.placing.tasks_per_node,
        replace=REPLACE,
        site=options_.site,
        scheduler=plan.site.scheduler.kind,
        image=_described(image),
        native={"prefix": str(native), "why": why},
        scripts=scripts.arms(plan, side, job_options.search, job_options.placing, folders),
        steps=job_options.search.steps,
    )
    return JobContext(
        declared=declared,
        framing=JobFrame(
            command=job_options.command,
            search=job_options.search,
            cwd=Path.cwd(),
            image=image.image,
            head=scripts.head(plan, job_options.placing),
        ),
        submitter=submitter,
        # Beside the file: that file system is shared by the nodes of a job.
        work=stack.enter_context(workspace(target.parent, runner, console.note)),
        output=target,
        host=world.host,
        progress=console,
        cut=cut,
    )


def _described(image: "BenchImage") -> "dict[str, str | None]":
    return {
        "image": image.image.name,
        "sha256": image.sha256,
        "recipe": image.recipe,
        "plan": image.digest,
    }


def _cut(options_: SessionOptions) -> "JobSession | None":
    from dlcontainer.bench.job import job_file
    from dlcontainer.errors import BenchDataError

    if options_.resume is None:
        if options_.target is not None and options_.target.exists():
            raise BenchDataError(
                "the file exists already",
                where=str(options_.target),
                next_step="choose another name with -o, or resume the session with --resume",
            )
        return None
    begun = job_file.read(options_.resume)
    if begun.end is not None and begun.end.complete:
        raise BenchDataError(
            "the session is complete",
            where=str(options_.resume),
            next_step="report it, or measure again into a new file",
        )
    return begun
