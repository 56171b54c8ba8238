"""`dlcontainer site detect`: what this node is, and one in a job, and how each fact was read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlcontainer.cli import options, output
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dlcontainer.cli.context import CliContext
    from dlcontainer.detection.fact import NodeFact
    from dlcontainer.detection.node_report import Detection
    from dlcontainer.schedulers.scheduler import BatchSystem

# A log of another node's may take so long to be seen here.
_SEEN_WITHIN_S = 60.0
_SCRIPT = "site-detect.sh"

JobOutput = Annotated[
    Path | None,
    typer.Option(
        "--job-output",
        metavar="FILE",
        readable=False,
        help="Output of a job that you submitted yourself: its node is the second column.",
    ),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _JobRequest:
    """What was typed of the job that asks a compute node."""

    site: str | None
    directives: "Sequence[str]"
    settings: "Sequence[str]"
    resources: "dict[str, str | int]"


def detect(
    job: Annotated[
        bool,
        typer.Option("--job", help="Ask a compute node too, by a job of the scheduler here."),
    ] = False,
    job_output: JobOutput = None,
    site: options.OptionalSite = None,
    directive: Annotated[
        list[str] | None,
        typer.Option(
            "--directive",
            metavar="LINE",
            help="A line of the job's head, e.g. '#SBATCH --gres=gpu:4'. Repeatable.",
            rich_help_panel=options.JOB,
        ),
    ] = None,
    account: options.Account = None,
    partition: options.Partition = None,
    time: options.Time = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the JSON document to a file."),
    ] = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what this node is, from processor to scheduler, each fact with how it was read.

    Nothing is changed. A fact that can't be read is unknown, with the reason.
    """
    from dlcontainer.cli.context import here
    from dlcontainer.system import report_files

    if job and job_output is not None:
        raise UsageError("--job-output takes the place of --job", next_step="leave one of them out")
    report_files.require(target)
    world, console = here(), output.Console(verbose=verbose, quiet=as_json)
    detection = this_node(world, console)
    if job:
        resources: dict[str, str | int] = {
            name: words
            for name, words in (("account", account), ("partition", partition), ("time", time))
            if words is not None
        }
        request = _JobRequest(
            site=site,
            directives=directive or (),
            settings=options.resources(account=account, partition=partition, time=time),
            resources=resources,
        )
        detection = _with_job(detection, request, world, console)
    elif job_output is not None:
        detection = with_output(detection, job_output)
    if target is not None:
        from dlcontainer.detection.node_report import NAME

        report_files.write(output.document(NAME, detection.body()) + "\n", target)
    _tell(detection, target, as_json=as_json, verbose=verbose)


def this_node(world: "CliContext", console: output.Console) -> "Detection":
    """Ask this node; raises ChecksFailedError."""
    import time

    from dlcontainer import schedulers
    from dlcontainer.detection import asking, node_report

    collected = asking.here(console.runner(world.environ), world.of_user)
    return node_report.Detection(
        taken=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        allocation=schedulers.allocation(world.of_user),
        here=node_report.facts(collected),
    )


def with_output(detection: "Detection", path: Path) -> "Detection":
    """Add the node whose job wrote an output; raises ChecksFailedError."""
    from dlcontainer.detection import evidence, node_report
    from dlcontainer.errors import ChecksFailedError
    from dlcontainer.system import foreign_files

    try:
        text = foreign_files.read(path, evidence.MOST_BYTES).decode(errors="replace")
    except OSError as error:
        raise ChecksFailedError(
            f"can't read {path}: {error.strerror}", next_step="give the output of the job"
        ) from None
    return replace(detection, job=node_report.facts(evidence.read(text, str(path))))


def _with_job(
    detection: "Detection", request: _JobRequest, world: "CliContext", console: output.Console
) -> "Detection":
    from dlcontainer.detection import asking
    from dlcontainer.schedulers import SCHEDULERS

    kind, lines = _head(detection, request, world)
    script, batch = asking.script(lines), SCHEDULERS[kind]
    if batch.queue is None:
        _hand_out(script, batch.submit_argv(_SCRIPT))
    return _followed(detection, script, kind, world, console)


def _head(
    detection: "Detection", request: _JobRequest, world: "CliContext"
) -> "tuple[str, tuple[str, ...]]":
    """Return the scheduler and the lines of the job's head: the site's, or what was typed."""
    from dlcontainer import config
    from dlcontainer.formats import job_head
    from dlcontainer.schedulers import SCHEDULERS
    from dlcontainer.sites.launching import Resources

    if request.site is not None:
        changes = config.subtree(config.from_settings(list(request.settings)), ("site",))
        chosen = world.site(request.site, changes=changes).value
        kind, lines = chosen.scheduler.kind, job_head.lines(chosen)
    else:
        fact = detection.named().get("scheduler.kind")
        kind = str(fact.value) if fact and fact.value else "none"
        written = config.from_data(dict(request.resources), layer="options")
        checked = config.validate(written, Resources).model_dump(exclude_none=True)
        lines = _asked_for(SCHEDULERS[kind], checked)
    if kind == "none":
        raise UsageError(
            "--job: no scheduler is known here",
            why="none answers on PATH, and no site names one",
            next_step="load the scheduler's module, or name a site: --site SITE; or run "
            "`dlcontainer site detect` inside a job",
        )
    wrong = [line for line in request.directives if not line.startswith("#") or "\n" in line]
    if wrong:
        raise UsageError(
            f"--directive {wrong[0]!r} is not a line of a job's head",
            next_step=f"begin it with the scheduler's word: {SCHEDULERS[kind].directive or '#'}",
        )
    return kind, (*lines, *request.directives)


def _asked_for(batch: "BatchSystem", resources: "Mapping[str, str | int]") -> "tuple[str, ...]":
    """Write the lines of what was typed; raises UsageError for what this scheduler has not."""
    from dlcontainer.schedulers import directives

    try:
        return directives.settled(batch, (), resources, 1)
    except KeyError as error:
        problem, why = f"--{error.args[0]}", "this scheduler has no such line"
    except ValueError as error:
        problem, why = "--time", str(error)
    raise UsageError(f"{problem} can't be asked for", why=why, next_step="--directive LINE")


def _hand_out(script: str, argv: "Sequence[str]") -> None:
    """Write the script for a person to submit; raises UsageError, which says how it goes on."""
    from dlcontainer.system import report_files
    from dlcontainer.system.process import quote

    report_files.write(script, Path(_SCRIPT), "the current folder")
    raise UsageError(
        f"dlcontainer can't follow a job here: it wrote {_SCRIPT}",
        why="how a program follows this scheduler's jobs is not described",
        next_step=f"{quote(argv)}; then: dlcontainer site detect --job-output FILE, with the "
        "job's output",
    )


def _followed(
    detection: "Detection",
    script: str,
    kind: str,
    world: "CliContext",
    console: output.Console,
) -> "Detection":
    """Submit the script, wait for its end, and read its output in a folder that nodes share."""
    from dlcontainer.bench.job.queued import QueueSubmitter
    from dlcontainer.errors import BenchDataError, ChecksFailedError
    from dlcontainer.schedulers import SCHEDULERS
    from dlcontainer.system.workspace import workspace

    queue = SCHEDULERS[kind].queue
    assert queue is not None  # noqa: S101 - the caller looked
    runner = console.runner(world.of_user, of_user=True)
    with workspace(Path.cwd(), runner, console.note) as folder:
        frame, log = folder / _SCRIPT, folder / "job.log"
        frame.write_text(script)
        console.step(f"ask a compute node by a job of {kind}")
        try:
            ending = QueueSubmitter(runner=runner, queue=queue).run(frame, log)
        except BenchDataError as error:
            raise ChecksFailedError(
                error.what,
                where=error.where,
                why=error.why,
                next_step="check --partition, --account, --time and --directive",
            ) from None
        _wait_for(log)
        if not log.exists():
            raise ChecksFailedError(
                f"job {ending.job} left no output here ({ending.state})",
                where=str(log),
                next_step="run it in a folder that the compute nodes share with this node",
            )
        return with_output(detection, log)


def _wait_for(log: Path) -> None:
    """Wait until a log of another node's is seen to its end."""
    import time

    from dlcontainer.detection.evidence import MARK

    deadline = time.monotonic() + _SEEN_WITHIN_S
    while time.monotonic() < deadline:
        if log.exists():
            text = log.read_text(errors="replace")
            if text.endswith("\n") and (MARK in text or "python" in text):
                return
        time.sleep(0.5)


def _tell(detection: "Detection", target: Path | None, *, as_json: bool, verbose: bool) -> None:
    from dlcontainer.detection.node_report import NAME, differences

    if as_json:
        output.emit(NAME, detection.body())
        return
    if detection.job is None:
        rows = [(fact.name, fact.text, fact.how) for fact in detection.here]
        output.say(output.table(rows, head=("fact", "value", "how it was read")))
    else:
        job = {fact.name: fact for fact in detection.job}
        pairs = [(fact, job.get(fact.name, fact)) for fact in detection.here]
        hidden = 3 if verbose else 2
        table = [(fact.name, fact.text, in_job.text, in_job.how) for fact, in_job in pairs]
        head = ("fact", "here", "in the job", "how it was read")
        output.say(output.table([row[: hidden + 1] for row in table], head=head[: hidden + 1]))
        rows = [(row.name, row.here, row.job) for row in differences(detection)]
        output.title(f"\n{len(rows)} facts differ")
        if rows:
            output.say(output.table(rows, head=("fact", "here", "in the job")))
    output.say(f"\n{_counted(detection.here)}")
    if detection.job is not None:
        output.say(f"in the job: {_counted(detection.job)}")
    if target is not None:
        output.copied(str(target), before="wrote ")


def _counted(facts: "Sequence[NodeFact]") -> str:
    unknown = sum(fact.value is None for fact in facts)
    return f"{len(facts) - unknown} facts, {unknown} unknown"
