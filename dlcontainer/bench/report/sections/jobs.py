"""A session of jobs as a section of a report: its words and tables, seconds first."""

import math
import shlex
from collections.abc import Iterator

from dlcontainer.bench.job.job_analysis import FIGURES, JUDGED, ContainerCost, JobAnalysis
from dlcontainer.bench.job.job_records import SIDES, JobPhases, JobSession
from dlcontainer.bench.report.sections import job_steps
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats import linear

_HOUR_S = 3600
_MOST_COMMAND = 120


def headline(job: JobSession, reading: JobAnalysis) -> str:
    """Return the words for the verdict and the seconds in a line."""
    judged = reading.judged
    if judged is None:
        return f"{reading.word}: no pair of jobs was measured"
    cost = _signed(judged.added)
    # A cost that may be none, or a gain, never stands without its interval.
    if judged.low <= 0:
        cost = f"{cost} ({interval(judged)})"
    return f"{reading.word}: {cost} start-up on {_size(job)}"


def whole_headline(job: JobSession, reading: JobAnalysis) -> str:
    """Return the headline, and that of the steps behind it."""
    start = headline(job, reading)
    return f"{start}; {job_steps.headline(reading.steps)}" if reading.steps else start


def _size(job: JobSession) -> str:
    jobs = [launch for launch in job.launches if launch.times]
    nodes = max((len(launch.nodes) for launch in jobs), default=0)
    ranks = max((len(launch.ranks) for launch in jobs), default=0)
    return f"{counted(nodes, 'node')}, {counted(ranks, 'rank')}"


def words(job: JobSession, reading: JobAnalysis) -> str:
    """Return what was compared, what came out, and what it is not about."""
    steps = job_steps.words(reading.steps) if reading.steps else ()
    return " ".join([*_compared(job), *_result(job, reading), *steps, *_limits(job, reading)])


def _compared(job: JobSession) -> Iterator[str]:
    declared = job.declared
    command = " ".join(shlex.join(declared.command).split())
    if len(command) > _MOST_COMMAND:
        command = f"{command[:_MOST_COMMAND]} …"
    how = "on this node, without a scheduler"
    if declared.scheduler != "none":
        how = f"as jobs of {declared.scheduler}"
    end = "the command's own process began on the last rank"
    if declared.first_step is not None:
        end = f"the last rank printed a line that matches {declared.first_step!r}"
    yield (
        f'Compared: the command "{command}", {how} at site {declared.site}. Start-up is the '
        f"time from the job's first instruction until {end}."
    )
    image, native = declared.image, declared.native
    yield (
        f"The container is {image.get('image')}; the native side is {native.get('prefix')} "
        f"({native.get('why')}). What differs is all that differs between these two."
    )


def _result(job: JobSession, reading: JobAnalysis) -> Iterator[str]:
    declared, judged = job.declared, reading.judged
    if judged is not None:
        between = interval(judged)
        yield (
            f"Start-up takes {judged.container:.2f} s in the container and {judged.native:.2f} s "
            f"natively: {_signed(judged.added)} ({between}), "
            f"{100 * abs(judged.added) / _HOUR_S:.2g} % of a one-hour job."
        )
    yield (
        f"Measured: {counted(reading.pairs, 'pair')} of {declared.pairs}, in an order drawn by "
        f"seed {declared.seed}; {declared.margin_s:g} s of start-up were declared not to matter."
    )
    if reading.reasons:
        yield f"No verdict: {'; '.join(reading.reasons)}."


def _limits(job: JobSession, reading: JobAnalysis) -> Iterator[str]:
    queue = [f"{side} {reading.queue_s[side]:.1f} s" for side in SIDES if reading.pairs]
    if queue and job.declared.scheduler != "none":
        yield f"The wait in the queue (mean: {', '.join(queue)}) is in no figure."
    lost = [f"{reading.lost[side]} {side}" for side in SIDES if reading.lost[side]]
    if lost:
        yield f"Lost to the scheduler and replaced, as declared: {', '.join(lost)}."
    bounds = [launch.times for launch in job.launches if launch.times]
    worst = max((times.clock_bound_s for times in bounds), default=0.0)
    moved = max((times.clock_moved_s for times in bounds), default=0.0)
    if worst:
        yield (
            f"The clocks of the nodes agree within {worst:.2f} s in every job, as ranks begin "
            "after their job and end before it"
            + (f"; clocks were moved by up to {moved:.2f} s." if moved else ".")
        )
    loads = sorted(launch.load_1min for launch in job.launches)
    if loads:
        yield (
            f"The load of the node that this was started on ({job.header.machine.get('cores')} "
            f"cores) was {loads[0]:.1f} to {loads[-1]:.1f}, in the median "
            f"{linear.median(loads):.1f}."
        )
    yield (
        "Caches were as the jobs found them. It speaks for this command, these nodes and this "
        "number of them."
    )


def tables(reading: JobAnalysis, anchor: str) -> tuple[Table, ...]:
    """Return the figures in seconds."""
    figures = Table(
        name="Seconds of a job",
        head=("figure", "native, s", "container, s", "added, s", "95 % interval"),
        rows=tuple(_row(name, added) for name, added in reading.figures.items()),
        note="Means over pairs; added: by a regression on arm, place in the pair and what ran "
        "before. Judged is the start-up; steps have a table of their own. Start-up, steady and "
        "teardown add up to the whole job, from its first instruction to its end on the first "
        "node.",
        numeric=True,
        anchor=anchor,
    )
    steps = job_steps.table(reading.steps, f"{anchor}-steps")
    return (*steps, figures) if figures.rows else ()


def lines(reading: JobAnalysis) -> tuple[str, ...]:
    """Return a line a figure, for a terminal."""
    steps = (job_steps.headline(reading.steps),) if reading.steps else ()
    figures_ = tuple(
        f"{FIGURES[name]}: {_signed(added.added)} ({interval(added)}); "
        f"native {added.native:.3f} s, container {added.container:.3f} s"
        for name, added in reading.figures.items()
    )
    return steps + figures_


def _row(name: str, added: ContainerCost) -> tuple[str, ...]:
    word = FIGURES[name] + (" (judged)" if name == JUDGED else "")
    return (
        word,
        f"{added.native:.3f}",
        f"{added.container:.3f}",
        f"{added.added:+.3f}",
        f"{added.low:+.3f} to {added.high:+.3f}" if added.is_bounded else "none",
    )


def interval(added: ContainerCost) -> str:
    """Write the interval of an addition."""
    if not added.is_bounded:
        return "no interval: too few pairs"
    return f"95 % interval {added.low:+.2f} to {added.high:+.2f} s"


def _signed(seconds: float) -> str:
    digits = 1 if abs(seconds) >= 1 or math.isclose(seconds, 0) else 2
    return f"{seconds:+.{digits}f} s"


def bars(job: JobSession) -> dict[str, dict[str, float]]:
    """Return the mean seconds of each side's phases, in their order."""
    phases: dict[str, dict[str, float]] = {}
    pairs = job.pairs()
    for side in SIDES:
        times = [pair[side].times for pair in pairs.values()]
        parts = [_parts(times) for times in times if times is not None]
        if parts:
            names = parts[0]
            phases[side] = {
                name: math.fsum(part[name] for part in parts) / len(parts) for name in names
            }
    return phases


def _parts(times: JobPhases) -> dict[str, float]:
    return {
        "launcher": times.launcher_s,
        "engine": max(0.0, times.process_s - times.launcher_s),
        "first step": max(0.0, times.start_s - max(times.process_s, times.launcher_s)),
        "steady": times.steady_s,
        "teardown": times.teardown_s,
    }


def figures(job: JobSession, reading: JobAnalysis) -> dict[str, object]:
    """Return a session for programs."""
    return {
        "verdict": reading.word,
        "headline": headline(job, reading),
        "reasons": list(reading.reasons),
        "pairs": reading.pairs,
        "steps": job_steps.figures(reading.steps),
        "lost": dict(reading.lost),
        "queue_s": {side: _known(value) for side, value in reading.queue_s.items()},
        "figures": {
            name: {
                "native": added.native,
                "container": added.container,
                "added": added.added,
                "low": _known(added.low),
                "high": _known(added.high),
            }
            for name, added in reading.figures.items()
        },
    }


def _known(value: float) -> float | None:
    # JSON has no infinity, and no value that is none.
    return value if math.isfinite(value) else None
