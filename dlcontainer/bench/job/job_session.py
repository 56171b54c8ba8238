"""Measure a session of jobs: pairs in a drawn order, a line for each job."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.bench.job import job_file, scripts, stamps, step_events, step_times
from dlcontainer.bench.job.job_records import (
    SIDES,
    JobDeclaration,
    JobHeader,
    JobLaunch,
    JobSession,
    JobSteps,
    Side,
)
from dlcontainer.bench.job.scripts import JobFrame
from dlcontainer.bench.job.submit import JobEnding, Submitter
from dlcontainer.bench.measure import declaration
from dlcontainer.bench.samples import comparable, hash_chain
from dlcontainer.bench.samples.declared_file import DeclaredFileWriter, digest
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.launch_order import ScheduledPair
from dlcontainer.bench.samples.line_kinds import ResumeRecord
from dlcontainer.errors import BenchDataError
from dlcontainer.system import atomic_files
from dlcontainer.system.machine import HostMachine
from dlcontainer.system.progress import Progress

# How long a node's last write may take to be seen on a shared file system, s.
_SEEN_S = 15.0
WARM_UP = 0

# Of the session's file.
Writer = DeclaredFileWriter[JobLaunch]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobContext:
    """With what jobs are measured; `work` lies on a file system that all nodes see."""

    declared: JobDeclaration
    framing: JobFrame
    submitter: Submitter
    work: Path
    output: Path
    host: HostMachine
    progress: Progress
    cut: JobSession | None = None


def run(context: JobContext) -> Path:
    """Measure all pairs; return the file.

    A job that the scheduler lost for an outside cause is replaced with its pair, as often as was
    declared. Raises BenchDataError for any other that fails: the file ends with the reason.
    """
    declared, cut = context.declared, context.cut
    header = _header(context)
    if cut is not None:
        _require_same(cut, header)
    done = cut.pairs() if cut else {}
    lost = sum(launch.lost for launch in cut.launches) if cut else 0
    atomic_files.write(context.work / scripts.CLOCK.name, scripts.CLOCK.read_text())
    with job_file.FORMAT.writer(context.output, header, after=cut) as writer:
        if cut is not None:
            writer.write(ResumeRecord(started=declaration.now(), dropped_bytes=cut.dropped))
        turns = [
            pair for pair in (None, *declared.order) if pair is None or pair.number not in done
        ]
        while turns:
            failed = _pair(turns[0], context, writer)
            if failed is None:
                turns.pop(0)
                continue
            lost += failed.lost
            if not failed.lost or lost > declared.replace:
                raise _ended(writer, context, failed, lost)
            context.progress.note(f"a job was lost, measuring its pair again: {failed.error}")
        writer.end(complete=True, reason="all pairs measured")
    return context.output


def _pair(pair: ScheduledPair | None, context: JobContext, writer: Writer) -> JobLaunch | None:
    """Launch both sides of a pair, or of the warm-up; return the job that failed."""
    for place, side in enumerate(_sides(pair), start=1):
        number = pair.number if pair else WARM_UP
        of = f"pair {number} of {context.declared.pairs}" if pair else "warm-up, not counted"
        # Progress, never a value: who sees a trend could stop when it pleases.
        context.progress.step(f"{of}, job {place} of 2")
        launched = _launched(number, side, context)
        writer.write(launched)
        if launched.error is not None:
            return launched
        if number == WARM_UP and launched.steps and launched.steps.reason:
            # Said while there is time to end it; the start-up does not depend on it.
            context.progress.note(f"{side}: steps are not measured: {launched.steps.reason}")
    return None


def _sides(pair: ScheduledPair | None) -> tuple[Side, ...]:
    return SIDES if pair is None or pair.native_first else SIDES[::-1]


def _launched(number: int, side: Side, context: JobContext) -> JobLaunch:
    folder = _folder(context, number, side)
    arm = context.declared.scripts[side]
    frame = scripts.write(folder, side, arm, context.framing)
    log, started, load = folder / "job.log", declaration.now(), os.getloadavg()[0]
    done = context.submitter.run(frame, log)
    stamps_read = seen(folder, done)
    error, timed = None, None
    try:
        if not done.good and not (stamps_read.ended and stamps_read.ended.code):
            raise BenchDataError(f"the job ended as {done.state}", why=_hint(done))
        timed = stamps.timed(stamps_read, done.submitted, context.declared.first_step)
    except BenchDataError as failure:
        error = f"{failure.what}: {failure.why}" if failure.why else failure.what
    steps = _steps(folder, context, len(timed.ranks)) if timed else None
    nodes = dict.fromkeys(rank.node for rank in stamps_read.ranks)
    return JobLaunch(
        pair=number,
        side=side,
        started=started,
        job=done.job,
        state=done.state,
        nodes=tuple(nodes),
        times=timed.times if timed else None,
        ranks=timed.ranks if timed else (),
        steps=steps,
        load_1min=round(load, 2),
        error=error,
        lost=error is not None and done.outside,
        output=() if timed else stamps.tail(log),
    )


def _steps(folder: Path, context: JobContext, ranks: int) -> JobSteps | None:
    rule = context.declared.steps
    if rule is None:
        return None
    try:
        return step_times.timed(step_events.read(folder / step_events.EVENTS), ranks, rule)
    except BenchDataError as failure:
        return step_times.unread(failure.what)


def _folder(context: JobContext, number: int, side: Side) -> Path:
    taken = sum(1 for _ in context.work.iterdir())
    folder = context.work / f"{taken}-{number}-{side}"
    folder.mkdir()
    return folder


def seen(folder: Path, done: JobEnding) -> stamps.JobStamps:
    """Read the stamps, and wait for those of a job that ended well."""
    deadline = time.monotonic() + _SEEN_S
    while True:
        stamps_read = stamps.read(folder)
        if stamps_read.ended is not None or not done.good or time.monotonic() > deadline:
            return stamps_read
        time.sleep(0.5)


def _hint(done: JobEnding) -> str:
    if done.cause == "limit":
        return "its time limit was reached; ask for more with --time"
    if done.outside:
        return "a cause outside of the job"
    return "see its last lines in the file"


def _header(context: JobContext) -> JobHeader:
    host, declared = context.host, context.declared
    return JobHeader(
        declared=declared,
        declared_sha256=digest(declared),
        machine={
            "node": platform.node(),
            "arch": host.arch,
            "kernel": host.kernel,
            "cores": host.cores,
            "load_1min": round(os.getloadavg()[0], 2),
        },
        started=declaration.now(),
        dlcontainer=__version__,
    )


def _require_same(cut: JobSession, header: JobHeader) -> None:
    """Refuse to go on with what was declared otherwise; raises BenchDataError."""
    if any(launch.error and not launch.lost for launch in cut.launches):
        raise BenchDataError(
            "this session cannot be resumed: one of its jobs failed",
            next_step="fix the cause and measure into a new file",
        )
    before, now = (_flat(head.declared) for head in (cut.header, header))
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            raise BenchDataError(
                "the settings differ from those of the session in the file",
                why=f"{name}: {comparable.shown(before.get(name))} in the file, now "
                f"{comparable.shown(now.get(name))}",
                next_step="repeat the options of the first run, or measure into a new file",
            )


def _flat(declared: JobDeclaration) -> Mapping[str, object]:
    return comparable.flat(hash_chain.plain_json(plain(declared)))


def _ended(writer: Writer, context: JobContext, failed: JobLaunch, lost: int) -> BenchDataError:
    """End the file with the reason, and return the error."""
    of = f"pair {failed.pair}" if failed.pair else "the warm-up"
    what = f"the {failed.side} job of {of} failed"
    if failed.lost:
        what = f"{lost} jobs were lost, more than the {context.declared.replace} declared"
    writer.end(complete=False, reason=f"{what}: {failed.error}")
    texts = _texts(failed)
    return BenchDataError(
        what,
        where=str(context.output),
        why="\n".join(texts),
        next_step="fix the cause and measure into a new file",
    )


def _texts(failed: JobLaunch) -> Iterator[str]:
    yield str(failed.error)
    yield from (f"    {line}" for line in failed.output[-8:])
