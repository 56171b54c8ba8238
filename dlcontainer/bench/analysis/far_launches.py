"""Launches far slower than the others of their arm: counted, never left out. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dlcontainer.bench.analysis.pairing import LaunchPairs
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.stats import counts, linear, margins

# In robust standard deviations above the arm's median.
_FAR = 3.0
_SD_OF_MAD = 1.4826


@dataclass(frozen=True, kw_only=True, slots=True)
class FarLaunches:
    """How many launches of an arm were far slower than its others, and on which lines."""

    arm: ArmName
    launches: int
    lines: tuple[int, ...]

    @property
    def not_excluded(self) -> float:
        """The largest share of slow launches that this count leaves open, at 95 %."""
        return counts.rate_not_excluded(len(self.lines), self.launches)


def of(series: Series, margin: float, pairs: Iterable[LaunchPairs]) -> tuple[FarLaunches, ...]:
    """Count them by arm over pairs and controls.

    Far is more than 3 robust standard deviations and the margin above the median of its arm.
    """
    declared, launches = series.session.declared, series.launches
    used = sorted({i for pairs in pairs for i in (*pairs.reference, *pairs.candidate)})
    far = []
    for arm in declared.arms:
        indices = [i for i in used if launches.kinds[launches.kind_of[i]].arm == arm]
        column = launches.column(declared.metric, indices)
        times = {i: math.log(t) for i, t in zip(indices, column, strict=True) if t > 0}
        if not times:
            continue
        middle = linear.median(sorted(times.values()))
        spread = _SD_OF_MAD * linear.median(sorted(abs(t - middle) for t in times.values()))
        bound = middle + max(_FAR * spread, margins.band(margin).half_width)
        lines = tuple(launches.lines[i] for i, t in times.items() if t > bound)
        far.append(FarLaunches(arm=arm, launches=len(times), lines=lines))
    return tuple(far)
