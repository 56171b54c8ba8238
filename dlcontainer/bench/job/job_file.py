"""A job session's file: its format, and what must agree in it."""

from pathlib import Path

from dlcontainer.bench.job.job_records import SCHEMA, SIDES, JobHeader, JobLaunch, JobSession
from dlcontainer.bench.samples.declared_file import DeclaredFormat

# Rounding of sums, s.
_ROUNDING = 1e-6
FORMAT: DeclaredFormat[JobHeader, JobLaunch, JobSession] = DeclaredFormat(
    schema=SCHEMA,
    content=JobSession,
    header=JobHeader,
    launch=JobLaunch,
    header_kind="jobs",
    launch_kind="job",
    subject="a job session's file",
    command="bench job",
)


_unfit = FORMAT.unfit


def read(path: Path) -> JobSession:
    """Read a file, every line verified; raises BenchDataError for one that contradicts itself."""
    job = FORMAT.read(path)
    _hold(path, job)
    return job


def _hold(path: Path, job: JobSession) -> None:
    """Refuse times that are no sum of their phases, and an order that the seed does not draw."""
    for launch in job.launches:
        times = launch.times
        if (times is None) == (launch.error is None):
            raise _unfit(f"{path}:{launch.line}", "a job has either its times or a reason")
        steps = launch.steps
        if steps is not None and (steps.mean_s is None) == (steps.reason is None):
            raise _unfit(f"{path}:{launch.line}", "steps have either a mean or a reason")
        if steps is not None and (times is None or job.declared.steps is None):
            raise _unfit(f"{path}:{launch.line}", "steps that nobody asked for, or of no job")
        if times is None:
            continue
        phases = times.start_s + times.steady_s + times.teardown_s
        if abs(phases - times.total_s) > _ROUNDING:
            raise _unfit(f"{path}:{launch.line}", "the whole is not the sum of its phases")
        if max(times.launcher_s, times.process_s) > times.start_s + _ROUNDING:
            raise _unfit(f"{path}:{launch.line}", "a part of the start-up is longer than all of it")
    order = {pair.number: pair for pair in job.declared.order}
    before = 0
    for number, sides in job.pairs().items():
        drawn = order.get(number)
        first = SIDES[0] if drawn and drawn.native_first else SIDES[1]
        if drawn is None or number != before + 1 or next(iter(sides)) != first:
            line = sides[SIDES[0]].line
            raise _unfit(f"{path}:{line}", f"pair {number} is not the one that the seed draws")
        before = number
