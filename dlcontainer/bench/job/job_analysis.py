"""What a job session says: seconds that the container adds to each phase, and one verdict. Pure.

The unit is a job. One number a pair: d = seconds of the container's job less those of the native
one, by the regression of all sessions (arm, place, carry-over). Judged is the start-up; steps
of the program have a verdict of their own (`step_analysis`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dlcontainer.bench.job import pair_order, step_analysis
from dlcontainer.bench.job.job_records import SIDES, JobLaunch, JobPhases, JobSession, Side
from dlcontainer.bench.job.step_analysis import StepReading
from dlcontainer.bench.samples.schedule import FEWEST
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats import regression, student_t
from dlcontainer.bench.stats.regression import RegressionFit

ALPHA = 0.05
JUDGED = "start_s"
# The figures of a job in their order, with their words.
FIGURES: Mapping[str, str] = {
    "start_s": "start-up",
    "launcher_s": "of it: launcher, until the last rank was reached",
    "process_s": "of it: until the last rank's own process began",
    "steady_s": "steady, until the first rank's exit",
    "teardown_s": "teardown, until the job's last exit",
    "total_s": "the whole job",
    "step_s": "one step",
}
Word = Literal["EQUIVALENT", "SLOWER", "FASTER", "INCONCLUSIVE"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContainerCost:
    """Seconds that the container adds to a figure: 95 % interval, and the one of equivalence."""

    name: str
    native: float
    container: float
    added: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    fitted: RegressionFit

    @property
    def is_bounded(self) -> bool:
        """Whether there is an interval at all."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobAnalysis:
    """A session's figures and verdict, with the reasons for no verdict."""

    word: Word
    reasons: tuple[str, ...]
    figures: Mapping[str, ContainerCost]
    pairs: int
    queue_s: Mapping[Side, float]
    lost: Mapping[Side, int]
    steps: StepReading | None = None

    @property
    def judged(self) -> ContainerCost | None:
        """The figure that the verdict is about; None without a pair."""
        return self.figures.get(JUDGED)


def read(job: JobSession) -> JobAnalysis:
    """Read a session."""
    pairs = job.pairs()
    figures = {}
    for name in FIGURES:
        added = _added(name, job)
        if added is not None:
            figures[name] = added
    reasons = tuple(_holds(job, len(pairs)))
    word, more = _word(figures.get(JUDGED), job.declared.margin_s)
    launches = [launch for launch in job.launches if launch.pair]
    return JobAnalysis(
        word="INCONCLUSIVE" if reasons else word,
        reasons=reasons or more,
        figures=figures,
        pairs=len(pairs),
        queue_s={
            side: _mean(
                [
                    launch.times.queue_s
                    for launch in launches
                    if launch.side == side and launch.times
                ]
            )
            for side in SIDES
        },
        lost={
            side: sum(launch.lost for launch in job.launches if launch.side == side)
            for side in SIDES
        },
        steps=step_analysis.read(job, tuple(_incomplete(job))),
    )


def _incomplete(job: JobSession) -> list[str]:
    if job.end is not None and job.end.complete:
        return []
    return [f"the session is incomplete: {job.end.reason if job.end else 'it was cut'}"]


def _holds(job: JobSession, pairs: int) -> list[str]:
    reasons = _incomplete(job)
    if pairs < FEWEST:
        reasons.append(f"{counted(pairs, 'pair')}: a verdict takes {FEWEST}")
    return reasons


def _value(launch: JobLaunch, name: str) -> float | None:
    assert isinstance(launch.times, JobPhases)  # noqa: S101 - whole pairs alone
    value = getattr(launch.times, name)
    return value if isinstance(value, float | int) else None


def _added(name: str, job: JobSession) -> ContainerCost | None:
    values = {
        number: [_value(pair[side], name) for side in SIDES] for number, pair in job.pairs().items()
    }
    numbers = {n: (a, b) for n, (a, b) in values.items() if a is not None and b is not None}
    if not numbers or len(numbers) < len(values):
        return None
    differences = pair_order.differences(
        job, {number: theirs - ours for number, (ours, theirs) in numbers.items()}
    )
    fitted = regression.fit(differences)
    outer, inner = (_half(fitted, level) for level in (ALPHA, 2 * ALPHA))
    return ContainerCost(
        name=name,
        native=_mean([ours for ours, _ in numbers.values()]),
        container=_mean([theirs for _, theirs in numbers.values()]),
        added=fitted.mean,
        low=fitted.mean - outer,
        high=fitted.mean + outer,
        inner_low=fitted.mean - inner,
        inner_high=fitted.mean + inner,
        fitted=fitted,
    )


def _half(fitted: RegressionFit, alpha: float) -> float:
    if fitted.df < 1:
        return math.inf
    return student_t.quantile(alpha / 2, fitted.df) * fitted.se


def _word(added: ContainerCost | None, margin: float) -> tuple[Word, tuple[str, ...]]:
    """Return the word by the rules of all sessions, in seconds in place of factors."""
    if added is None or not added.is_bounded:
        return "INCONCLUSIVE", ("too few pairs for an interval",)
    if added.fitted.se == 0:
        return "INCONCLUSIVE", ("pairs are equal to the last digit: these are no times",)
    if -margin <= added.inner_low and added.inner_high <= margin:
        return "EQUIVALENT", ()
    beyond = added.low > margin or added.high < -margin
    narrow = added.high - added.low <= margin and (added.low > 0 or added.high < 0)
    if beyond or narrow:
        return ("SLOWER" if added.added > 0 else "FASTER"), ()
    return "INCONCLUSIVE", ("the interval holds both sides of the margin",)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
