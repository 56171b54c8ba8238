"""`dlcontainer bench trace`: what waits for whom in some steps of the user's own command."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import job_parts, job_words, rank_options
from dlcontainer.cli.bench import session_options as own
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import BenchDataError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.job.scripts import NativeSide, Placing
    from dlcontainer.bench.job.traced_job import SideJob, TraceContext
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.trace.trace_records import JobTrace, MpiWorld, SideTrace, SlowestStep
    from dlcontainer.bench.trace.watch.watch_records import JobWatch
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan

FILE = "trace.json"
# Of a side's costs and processes; all of them are in the file.
_MOST_COSTS = 6
_MOST_ROWS = 12

Command = Annotated[
    list[str],
    typer.Argument(
        metavar="-- COMMAND", help="Command that each rank runs, with PyTorch or calls of MPI."
    ),
]
Image = Annotated[
    Path | None,
    typer.Option("--image", metavar="IMAGE", help="Image file (.sif) to trace the command in."),
]
NativeFolder = Annotated[
    Path | None,
    typer.Option(
        "--native",
        metavar="FOLDER",
        help="Python prefix to trace the command with natively. Default without --image: the "
        "recipe's native twin.",
    ),
]
Ranks = Annotated[
    int, typer.Option("--ranks", metavar="R", min=1, help="Ranks, evenly over the nodes.")
]
Steps = Annotated[
    int,
    typer.Option(
        "--steps",
        metavar="N",
        min=2,
        max=1000,
        help="Steps to trace. As many before and behind them are timed without the profiler.",
    ),
]
WarmUp = Annotated[
    int, typer.Option("--warm-up-steps", metavar="N", min=1, help="First steps, left out.")
]
StepAt = Annotated[
    Literal["optimizer", "forward"],
    typer.Option(
        "--step-at",
        help="Where a step ends: after a step of an optimizer, or as the model returns "
        "(inference, updates of your own).",
    ),
]
Operations = Annotated[
    bool,
    typer.Option(
        "--operations/--no-operations",
        help="Record PyTorch's operations, or only collectives and a GPU's kernels: short steps "
        "cost less.",
    ),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FOLDER", help="New folder for the trace; all nodes must see it."
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _TraceOptions:
    """A trace as it was typed, beside the options of every session."""

    command: tuple[str, ...]
    image: Path | None
    placing: "Placing"
    ranks: int
    steps: int
    warm_up: int
    step_at: Literal["optimizer", "forward"]
    operations: bool
    limit: str | None
    folder: Path


def trace(
    command: Command,
    site: options.Site,
    ranks: Ranks,
    folder: Folder,
    image: Image = None,
    native: NativeFolder = None,
    nodes: options.Nodes = None,
    form: rank_options.FormName = None,
    steps: Steps = 30,
    warm_up_steps: WarmUp = 5,
    step_at: StepAt = "optimizer",
    operations: Operations = True,
    account: options.Account = None,
    partition: options.Partition = None,
    time: options.Time = None,
    recipe: own.RecipeOf = None,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Trace your own command, PyTorch or MPI: what costs its time, which rank is waited for.

    With --image in the image, with --native natively, with both once each.
    """
    from dlcontainer.bench.job.scripts import Placing
    from dlcontainer.cli.context import here

    resources = options.resources(account=account, partition=partition, nodes=nodes)
    chosen = SessionOptions(
        site=site, image=image or Path(), native=native, form=form, recipe=recipe,
        settings=[*(settings or []), *resources], as_json=as_json, verbose=verbose,
    )  # fmt: skip
    chosen.check()
    typed = _TraceOptions(
        command=tuple(command),
        image=options.image_file(image) if image else None,
        placing=Placing(nodes=nodes, tasks_per_node=_per_node(ranks, nodes), form=form),
        ranks=ranks,
        steps=steps,
        warm_up=warm_up_steps,
        step_at=step_at,
        operations=operations,
        limit=time,
        folder=folder.absolute(),
    )
    console = output.Console(verbose=verbose, quiet=as_json)
    sides, failures = _traced(chosen, typed, here(), console)
    if not sides:
        raise failures[0]
    traced = _joined(sides, chosen, typed)
    _show(traced, typed.folder / FILE, as_json=as_json)
    if failures:
        raise failures[0]
    _require_ended(traced, typed.folder)


def _show(traced: "JobTrace", file: Path, *, as_json: bool) -> None:
    """Print a trace, then write it: a disk may be full."""
    from dlcontainer.system import report_files

    if as_json:
        output.emit("trace", asdict(traced))
    else:
        _say(traced)
    report_files.write(f"{output.document('trace', asdict(traced))}\n", file)
    if not as_json:
        output.copied(str(file))


def _per_node(ranks: int, nodes: int | None) -> int:
    if ranks % (nodes or 1):
        raise UsageError(
            f"--ranks {ranks} on --nodes {nodes}: nodes have equal numbers of ranks",
            next_step=f"use a multiple of {nodes}",
        )
    return ranks // (nodes or 1)


def _traced(
    chosen: SessionOptions,
    typed: _TraceOptions,
    world: "CliContext",
    console: output.Console,
) -> "tuple[tuple[SideTrace, ...], tuple[BenchDataError, ...]]":
    """Return the traces of the sides that left one, and the errors of the others."""
    from dlcontainer.bench.job import traced_job

    context = _context(chosen, typed, world, console)
    _make(typed.folder)
    sides, failures = list["SideTrace"](), list[BenchDataError]()
    for job in traced_job.run(context):
        try:
            sides.append(_read(job, typed, console))
        except BenchDataError as failure:
            # A trace that was waited for is kept, whatever the other side did.
            failures.append(failure)
    return tuple(sides), tuple(failures)


def _joined(
    sides: "tuple[SideTrace, ...]", chosen: SessionOptions, typed: _TraceOptions
) -> "JobTrace":
    from datetime import UTC, datetime

    from dlcontainer import __version__
    from dlcontainer.bench.trace.trace_records import JobTrace

    return JobTrace(
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        dlcontainer=__version__,
        site=chosen.site,
        image=typed.image.name if typed.image else None,
        command=typed.command,
        sides=sides,
    )


def _read(job: "SideJob", typed: _TraceOptions, console: output.Console) -> "SideTrace":
    from dlcontainer.bench.trace import trace_analysis

    console.step(f"{job.side}: the trace is read")
    try:
        side = trace_analysis.read(job.traces, job.side, typed.ranks, job.ended, typed.step_at)
    except BenchDataError as failure:
        raise job.without_trace(failure) from None
    return replace(side, image_sha256=job.image_sha256)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise BenchDataError(
            "the folder exists already", where=str(folder), next_step="choose another one with -o"
        ) from None
    except OSError as error:
        raise BenchDataError(
            "the folder can't be made", where=str(folder), why=str(error.strerror)
        ) from None


def _context(
    chosen: SessionOptions,
    typed: _TraceOptions,
    world: "CliContext",
    console: output.Console,
) -> "TraceContext":
    from dlcontainer.bench.job import scripts
    from dlcontainer.bench.job.scripts import JobFrame, RankSearch
    from dlcontainer.bench.job.trace_hook import TraceSchedule
    from dlcontainer.bench.job.traced_job import TraceContext
    from dlcontainer.bench.measure import bench_image

    if typed.folder.exists():
        raise BenchDataError(
            "the folder exists already",
            where=str(typed.folder),
            next_step="choose another one with -o",
        )
    job_words.require_plain(typed.folder, "")
    image = None
    if typed.image is not None:
        owners = world.site(chosen.site).value.owners
        image = bench_image.read(typed.image, world.host.arch, owners)
        bench_image.require_trust(image, chosen.site)
    plan = job_parts.plan(chosen, typed.limit, image, world)
    submitter = job_parts.submitter(plan, typed.limit, world, console)
    native = _native(chosen, plan, image, world, console)
    schedule = TraceSchedule(
        warm_up=typed.warm_up,
        steps=typed.steps,
        step_at=typed.step_at,
        operations=typed.operations,
    )
    search = RankSearch(trace=schedule)
    arms = scripts.arms(plan, native, search, typed.placing, world.resources.template_folders())
    if image is None:
        del arms["container"]
    return TraceContext(
        folder=typed.folder,
        arms=arms,
        images={"container": image.sha256} if image else {},
        framing=JobFrame(
            command=typed.command,
            search=search,
            cwd=Path.cwd(),
            image=image.image if image else None,
            head=scripts.head(plan, typed.placing),
        ),
        submitter=submitter,
        progress=console,
    )


def _native(
    chosen: SessionOptions,
    plan: "Plan",
    image: "BenchImage | None",
    world: "CliContext",
    console: output.Console,
) -> "NativeSide | None":
    """Return the native side; None where the command is traced in an image alone."""
    from dlcontainer.bench.job import scripts
    from dlcontainer.bench.measure import bench_image

    if image is not None and chosen.native is None:
        return None
    prefix, _ = job_parts.native(chosen.native, plan, world, console)
    environment = plan.environment
    if image is not None:
        subject = bench_image.declared(image, {} if image.is_adopted else plan.environment)
        environment = subject.environment
    return scripts.NativeSide(prefix=prefix, environment=environment)


def _say(traced: "JobTrace") -> None:
    for number, side in enumerate(traced.sides):
        if number:
            output.say("")
        _say_side(side)


def _say_side(side: "SideTrace") -> None:
    from dlcontainer.bench.trace import trace_text

    output.say(trace_text.headline(side))
    if side.ranks:
        output.say(f"{trace_text.shares(side)}; {trace_text.longest_wait(side)}")
    for cost in trace_text.cost_lines(side)[:_MOST_COSTS]:
        output.say(f"  {cost}")
    for line in trace_text.notes(side):
        output.say(f"- {line}")
    if side.slowest is not None:
        _say_steps(side, side.slowest)
    for world in trace_text.worlds(side):
        _say_world(world)
    if side.watch is not None:
        _say_watched(side.watch)


def _say_steps(side: "SideTrace", slowest: "SlowestStep") -> None:
    from dlcontainer.bench.trace import trace_text, wait_words

    if side.collectives:
        calls = trace_text.collectives(side)
        output.say("\n" + output.table(calls.rows, head=calls.head))
    ranks = trace_text.ranks(side)
    output.say("\n" + output.table(ranks.rows, head=ranks.head))
    path = wait_words.step_path(slowest, is_computing_known=side.is_computing_known)
    output.say(f"\ncritical path, {path}")


def _say_world(world: "MpiWorld") -> None:
    from dlcontainer.bench.trace import trace_text, wait_words
    from dlcontainer.bench.trace.mpi_calls import mpi_text

    output.say("\n" + mpi_text.headline(world))
    for cost in trace_text.world_cost_lines(world)[:_MOST_COSTS]:
        output.say(f"  {cost}")
    for line in mpi_text.notes(world):
        output.say(f"- {line}")
    rows = mpi_text.rank_rows(world.ranks)
    output.say("\n" + output.table(rows, head=mpi_text.RANKS_HEAD))
    output.say("\n" + output.table(mpi_text.call_rows(world.calls), head=mpi_text.CALLS_HEAD))
    if world.path is not None:
        output.say(f"\ncritical path, {wait_words.program_path(world.program, world.path)}")


def _say_watched(watch: "JobWatch") -> None:
    from dlcontainer.bench.trace.watch import watch_text

    for head, rows in watch_text.tables(watch, _MOST_ROWS):
        output.say("\n" + output.table(rows, head=head))


def _require_ended(traced: "JobTrace", folder: Path) -> None:
    """Raise BenchDataError where a job failed, or left no steps; what is there is kept."""
    from dlcontainer.bench.job.traced_job import GOOD

    for side in traced.sides:
        if side.no_trace is not None:
            raise side.no_trace.error(folder)
    failed = [side for side in traced.sides if side.ended != GOOD]
    if failed:
        raise BenchDataError(
            "; ".join(f"the {side.side} job failed" for side in failed),
            where=str(folder),
            why="; ".join(side.ended for side in failed),
            next_step="the trace of what ran until then is kept, and stands above",
        )
