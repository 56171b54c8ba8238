"""The verdict on the steps of the user's program, by the rules of all sessions. Pure.

The unit is a job. One number a pair: d = log(mean step in the container / mean step natively), in
the regression of all sessions (arm, place, carry-over).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dlcontainer.bench.analysis import verdict
from dlcontainer.bench.analysis.verdict import Evidence, SessionVerdict, VerdictRules
from dlcontainer.bench.job import pair_order
from dlcontainer.bench.job.job_records import SIDES, JobLaunch, JobSession, Side, StepDeclaration
from dlcontainer.bench.stats import regression

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class StepReading:
    """A session's steps: the verdict and each side's seconds; or why they were not measured."""

    rule: StepDeclaration
    verdict: SessionVerdict | None
    reason: str
    steps: int
    seconds: Mapping[Side, float]


def read(job: JobSession, holds: tuple[str, ...]) -> StepReading | None:
    """Read a session's steps; None where it did not ask for them.

    `holds` stand against any verdict of this session.
    """
    rule, pairs = job.declared.steps, job.pairs()
    if rule is None:
        return None
    reason = next(_reasons(pairs), "")
    if reason:
        return StepReading(rule=rule, verdict=None, reason=reason, steps=0, seconds={})
    means = {
        number: {side: _mean_s(pair[side]) for side in SIDES} for number, pair in pairs.items()
    }
    values = {
        number: math.log(sides["container"] / sides["native"]) for number, sides in means.items()
    }
    fitted = regression.fit(pair_order.differences(job, values)) if values else None
    steps = {
        launch.steps.steps for pair in pairs.values() for launch in pair.values() if launch.steps
    }
    return StepReading(
        rule=rule,
        verdict=verdict.judge(
            VerdictRules(margin=rule.margin, alpha=ALPHA, equivalence=True),
            Evidence(pairs=fitted, holds=holds),
        ),
        reason="",
        steps=max(steps, default=0),
        seconds={
            side: math.fsum(sides[side] for sides in means.values()) / len(means)
            for side in SIDES
            if means
        },
    )


def _reasons(pairs: Mapping[int, Mapping[Side, JobLaunch]]) -> Iterator[str]:
    """Yield why steps of these pairs can't be judged."""
    first: int | None = None
    for number, pair in pairs.items():
        for side in SIDES:
            steps = pair[side].steps
            if steps is None or steps.mean_s is None:
                why = steps.reason if steps else "it has no steps"
                yield f"pair {number}, {side}: {why}"
                return
            first = steps.steps if first is None else first
            if steps.steps != first:
                yield (
                    f"the jobs did different numbers of steps: {first} at first, "
                    f"{steps.steps} in the {side} job of pair {number}"
                )


def _mean_s(launch: JobLaunch) -> float:
    if launch.steps is None or launch.steps.mean_s is None:
        raise ValueError("a job without steps")
    return launch.steps.mean_s
