"""Which ranks are slower than the others, by a declared rule. Pure.

In each launch a rank's median counts beside the median of all ranks: what slows all of them at once
names nobody. A rank's place is the median of that over the launches. It is a straggler where this
lies above the others' by more than BOUND scaled median deviations of the other ranks' launches, and
by more than LEAST. How often it names one of ranks that are all alike is simulated in its test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

# Of two ranks one is always the slower one, and a single launch is a single process.
FEWEST_RANKS, FEWEST_LAUNCHES = 3, 8
# Scaled median deviations, and a share of the time.
BOUND, LEAST = 4.0, 0.05
# Of a normal distribution the median deviation times this is its standard deviation.
SCALE = 1.4826


@dataclass(frozen=True, kw_only=True, slots=True)
class Straggler:
    """A rank, its time over that of the others, and the ratio from which it is named."""

    rank: int
    ratio: float
    bound: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The stragglers, the slowest first; or why nobody could be named."""

    found: tuple[Straggler, ...] = ()
    refused: str = ""


def named(medians: Mapping[int, Sequence[float]]) -> Verdict:
    """Name the stragglers; `medians` has each rank's median step, s, of the same launches."""
    launches = min((len(own) for own in medians.values()), default=0)
    if len(medians) < FEWEST_RANKS:
        return Verdict(refused=f"fewer than {FEWEST_RANKS} ranks: one of two is always slower")
    if launches < FEWEST_LAUNCHES:
        return Verdict(refused=f"fewer than {FEWEST_LAUNCHES} launches")
    logs = {rank: [math.log(value) for value in own] for rank, own in medians.items()}
    middles = [median(column) for column in zip(*logs.values(), strict=True)]
    beside = {
        rank: [value - middle for value, middle in zip(own, middles, strict=True)]
        for rank, own in logs.items()
    }
    judged = [_judged(rank, beside) for rank in beside]
    found = [one for one in judged if one.ratio > one.bound]
    return Verdict(found=tuple(sorted(found, key=lambda one: -one.ratio)))


def _judged(rank: int, beside: Mapping[int, Sequence[float]]) -> Straggler:
    others = {other: own for other, own in beside.items() if other != rank}
    centre = median(median(own) for own in others.values())
    scale = SCALE * median(abs(value - centre) for own in others.values() for value in own)
    return Straggler(
        rank=rank,
        ratio=math.exp(median(beside[rank]) - centre),
        bound=math.exp(max(BOUND * scale, math.log1p(LEAST))),
    )
