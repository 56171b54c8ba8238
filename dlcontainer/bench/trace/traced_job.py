"""Run a command as a traced job, on each side that was asked for; all that it leaves is kept."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.bench.job import job_session, scripts, stamps, trace_hook
from dlcontainer.bench.job.job_records import Side
from dlcontainer.bench.job.scripts import JobFrame
from dlcontainer.bench.job.submit import Submitter
from dlcontainer.bench.trace import trace_analysis
from dlcontainer.bench.trace.trace_records import JobTrace, SideTrace
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files
from dlcontainer.system.progress import Progress

ENDED = "ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceContext:
    """With what is traced; `folder` lies on a file system that all nodes see, and is new.

    `arms` has the job script of each side that is traced.
    """

    folder: Path
    arms: Mapping[Side, str]
    framing: JobFrame
    ranks: int
    site: str
    submitter: Submitter
    progress: Progress


def run(context: TraceContext) -> JobTrace:
    """Trace each side, one after another.

    A job that failed has its trace too, and says how it ended. Raises BenchDataError where a side
    left none.
    """
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    atomic_files.write(context.folder / scripts.CLOCK.name, scripts.CLOCK.read_text())
    image = context.framing.image
    return JobTrace(
        created=created,
        dlcontainer=__version__,
        site=context.site,
        image=image.name if image else None,
        command=context.framing.command,
        sides=tuple(_side(side, context) for side in context.arms),
    )


def _side(side: Side, context: TraceContext) -> SideTrace:
    context.progress.step(f"{side}: the job runs")
    folder = context.folder / side
    folder.mkdir()
    frame = scripts.write(folder, side, context.arms[side], context.framing)
    log = folder / "job.log"
    done = context.submitter.run(frame, log)
    ended = ENDED
    read_stamps = job_session.seen(folder, done)
    try:
        stamps.timed(read_stamps, done.submitted, None)
    except BenchDataError as failure:
        ended = f"{failure.what}: {failure.why}" if failure.why else failure.what
    if not done.good and ended == ENDED:
        ended = f"the job ended as {done.state}"
    context.progress.step(f"{side}: the trace is read")
    try:
        return trace_analysis.read(folder / trace_hook.TRACE, side, context.ranks, ended)
    except BenchDataError as failure:
        if ended == ENDED:
            raise
        last = "\n".join(f"    {line}" for line in stamps.tail(log, 8))
        raise BenchDataError(
            f"the {side} job failed, and left no trace",
            where=str(log),
            why=f"{ended}; {failure.what}\n{last}",
            next_step="fix the cause; trace again into a new folder",
        ) from None
