"""Run a command as a traced job, on each side that was asked for; all that it leaves is kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.bench.job import job_session, scripts, stamps, trace_hook
from dlcontainer.bench.job.job_records import Side
from dlcontainer.bench.job.scripts import JobFrame
from dlcontainer.bench.job.submit import Submitter
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files
from dlcontainer.system.progress import Progress

GOOD = "ended"


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceContext:
    """With what is traced; `folder` lies on a file system that all nodes see, and is new.

    `arms` has the job script of each side that is traced, `images` the SHA-256 of those that run
    in an image.
    """

    folder: Path
    arms: Mapping[Side, str]
    images: Mapping[Side, str]
    framing: JobFrame
    submitter: Submitter
    progress: Progress


@dataclass(frozen=True, kw_only=True, slots=True)
class SideJob:
    """A side's job: where its processes left their traces, its log, and how it ended."""

    side: Side
    traces: Path
    log: Path
    ended: str
    image_sha256: str | None = None

    def without_trace(self, failure: BenchDataError) -> BenchDataError:
        """Return the error of a job that left no trace: its own failure, where it failed."""
        if self.ended == GOOD:
            return failure
        last = "\n".join(f"    {line}" for line in stamps.tail(self.log, 8))
        return BenchDataError(
            f"the {self.side} job failed, and left no trace",
            where=str(self.log),
            why=f"{self.ended}; {failure.what}\n{last}",
            next_step="fix the cause; trace again into a new folder",
        )


def run(context: TraceContext) -> Iterator[SideJob]:
    """Run each side's job to its end, one after another; one that fails is no error."""
    atomic_files.write(context.folder / scripts.CLOCK.name, scripts.CLOCK.read_text())
    for side, arm in context.arms.items():
        context.progress.step(f"{side}: the job runs")
        folder = context.folder / side
        folder.mkdir()
        frame, log = scripts.write(folder, side, arm, context.framing), folder / "job.log"
        ending = context.submitter.run(frame, log)
        job_stamps = job_session.seen(folder, ending)
        ended = GOOD if ending.good else f"the job ended as {ending.state}"
        try:
            stamps.timed(job_stamps, ending.submitted, None)
        except BenchDataError as failure:
            ended = f"{failure.what}: {failure.why}" if failure.why else failure.what
        yield SideJob(
            side=side,
            traces=folder / trace_hook.TRACE,
            log=log,
            ended=ended,
            image_sha256=context.images.get(side),
        )
