"""What the candidate adds to a launch in seconds: the same regression on times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.analysis.pairing import LaunchPairs
from dlcontainer.bench.stats import regression, student_t


@dataclass(frozen=True, kw_only=True, slots=True)
class Seconds:
    """Seconds that a launch takes longer, with the interval."""

    added: float
    low: float
    high: float


def of(
    metric: str, pairs: LaunchPairs, controls: Sequence[LaunchPairs], level: float
) -> Seconds | None:
    """Return the seconds that are added; None where the model cannot be fitted."""
    added, *control_seconds = (
        pairing.differences(metric, pairs_of, in_seconds=True) for pairs_of in (pairs, *controls)
    )
    if not added:
        return None
    fitted = regression.fit(added, *control_seconds)
    if fitted.df < 1:
        return None
    half = student_t.quantile((1 - level) / 2, fitted.df) * fitted.se
    return Seconds(added=fitted.mean, low=fitted.mean - half, high=fitted.mean + half)
