"""What the candidate adds to a launch in seconds: the same regression on times. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from dlcontainer.bench.analysis import pairing
from dlcontainer.bench.analysis.pairing import Pairs
from dlcontainer.bench.stats import regression, student_t


@dataclass(frozen=True, kw_only=True, slots=True)
class Seconds:
    """Seconds that a launch takes longer, with the interval."""

    added: float
    low: float
    high: float


def of(metric: str, pairs: Pairs, controls: Sequence[Pairs], level: float) -> Seconds | None:
    """Give the seconds that are added; None where the model cannot be fitted."""
    known, *beside = (
        pairing.differences(metric, one, in_seconds=True) for one in (pairs, *controls)
    )
    if not known:
        return None
    fitted = regression.fit(known, *beside)
    if fitted.df < 1:
        return None
    half = student_t.quantile((1 - level) / 2, fitted.df) * fitted.se
    return Seconds(added=fitted.mean, low=fitted.mean - half, high=fitted.mean + half)
