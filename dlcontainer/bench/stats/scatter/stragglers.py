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
class StragglerSearch:
    """The stragglers, the slowest first; or why nobody could be named."""

    stragglers: tuple[Straggler, ...] = ()
    refused: str = ""


def named(medians: Mapping[int, Sequence[float]]) -> StragglerSearch:
    """Name the stragglers; `medians` has each rank's median step, s, of the same launches."""
    launches = min((len(steps) for steps in medians.values()), default=0)
    if len(medians) < FEWEST_RANKS:
        return StragglerSearch(
            refused=f"fewer than {FEWEST_RANKS} ranks: one of two is always slower"
        )
    if launches < FEWEST_LAUNCHES:
        return StragglerSearch(refused=f"fewer than {FEWEST_LAUNCHES} launches")
    logs = {rank: [math.log(value) for value in steps] for rank, steps in medians.items()}
    middles = [median(column) for column in zip(*logs.values(), strict=True)]
    ratios = {
        rank: [value - middle for value, middle in zip(steps, middles, strict=True)]
        for rank, steps in logs.items()
    }
    judged = [_judged(rank, ratios) for rank in ratios]
    stragglers = [rank for rank in judged if rank.ratio > rank.bound]
    return StragglerSearch(stragglers=tuple(sorted(stragglers, key=lambda rank: -rank.ratio)))


def _judged(rank: int, ratios: Mapping[int, Sequence[float]]) -> Straggler:
    peers = {peer: steps for peer, steps in ratios.items() if peer != rank}
    centre = median(median(steps) for steps in peers.values())
    scale = SCALE * median(abs(value - centre) for steps in peers.values() for value in steps)
    return Straggler(
        rank=rank,
        ratio=math.exp(median(ratios[rank]) - centre),
        bound=math.exp(max(BOUND * scale, math.log1p(LEAST))),
    )
