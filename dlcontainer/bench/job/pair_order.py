"""Pairs of jobs as differences for the regression: how each ran, and what ran before. Pure."""

from collections.abc import Mapping

from dlcontainer.bench.job.job_records import JobLaunch, JobSession, Side
from dlcontainer.bench.stats.differences import PairDifference


def differences(job: JobSession, values: Mapping[int, float]) -> list[PairDifference]:
    """Return the differences of whole pairs, by number, with their order and carry-over."""
    pairs, carries = job.pairs(), _carries(job)
    return [_difference(number, d, pairs[number], carries) for number, d in values.items()]


def _difference(
    number: int, d: float, pair: Mapping[Side, JobLaunch], carries: Mapping[int, int]
) -> PairDifference:
    return PairDifference(
        number=number,
        d=d,
        candidate_first=next(iter(pair)) == "container",
        carry=(carries[pair["container"].line] - carries[pair["native"].line],),
    )


def _carries(job: JobSession) -> dict[int, int]:
    """Return for each line whether a container's job came just before it."""
    # The last job comes before none: `befores` is one longer.
    befores = (None, *job.launches)
    return {
        launch.line: int(before is not None and before.side == "container")
        for launch, before in zip(job.launches, befores, strict=False)
    }
