"""What commands that measure jobs are made of: the plan, who submits, the native side."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output
from dlcontainer.cli.bench import bench_context, defaults, job_words
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.job.submit import Submitter
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.cli.context import CliContext
    from dlcontainer.planning.plan import Plan


def plan(
    options_: SessionOptions, limit: str | None, image: "BenchImage | None", world: "CliContext"
) -> "Plan":
    """Plan the image's recipe, or without an image the one that was named, with a job's limit."""
    planned = _plan(options_, image, world)
    if limit is None or planned.site.scheduler.kind == "none":
        return planned
    # Without a scheduler nobody is asked for a time: there the limit is ours.
    settings = [*(options_.settings or []), *options.resources(time=limit)]
    return _plan(replace(options_, settings=settings), image, world)


def _plan(options_: SessionOptions, image: "BenchImage | None", world: "CliContext") -> "Plan":
    if image is None:
        return world.plan(options_.recipe, options_.site, options_.settings)
    return defaults.plan(options_, image, world)


def submitter(
    plan: "Plan", limit: str | None, world: "CliContext", console: output.Console
) -> "Submitter":
    """Return who runs a site's jobs to their end; raises UsageError where nobody can."""
    from dlcontainer.bench.job.queued import QueueSubmitter
    from dlcontainer.bench.job.submit import LocalSubmitter
    from dlcontainer.schedulers import SCHEDULERS

    kind = plan.site.scheduler.kind
    runner = console.runner(world.of_user, of_user=True)
    if kind == "none":
        limit_s = None if limit is None else job_words.limit(limit)
        return LocalSubmitter(runner=runner, limit_s=limit_s)
    queue = SCHEDULERS[kind].queue
    if queue is None:
        names = ", ".join(name for name, batch in SCHEDULERS.items() if batch.queue)
        raise UsageError(
            f"site {plan.site.name}: a job of {kind} can't be tracked",
            why=f"it can submit to {names}, or run on this node at a site without a scheduler",
            next_step="run the command inside a job of your own, with a site file that has "
            "`scheduler: {kind: none}` and the launcher of that job",
        )
    return QueueSubmitter(runner=runner, queue=queue)


def native(
    folder: Path | None, plan: "Plan", world: "CliContext", console: output.Console
) -> "tuple[Path, str]":
    """Return the folder of the native side, and why it is that one; raises UsageError."""
    from dlcontainer.bench.measure import native_twin
    from dlcontainer.planning.plan import native_twin_reason

    if folder is not None:
        return folder.absolute(), "given by --native"
    why = native_twin_reason(plan.recipe, plan.site, world.host)
    if why:
        raise UsageError(
            f"no native side: {why}",
            next_step="name the native installation with --native FOLDER; its bin/ comes "
            "first on PATH",
        )
    with bench_context.opened(world, console, plan, None) as context:
        return native_twin.prepare(plan, context), "same recipe, same wheels"
