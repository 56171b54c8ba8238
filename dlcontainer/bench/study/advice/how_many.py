"""How many ranks: the largest number whose efficiency is at the goal, as an interval. Pure.

Each number of ranks that was measured or forecast has an efficiency with an interval of 90 %: both
its ends are tests at 5 %. "Surely" is the end of the ascending run of numbers whose interval lies
at the goal or above: a fixed sequence, so that many numbers make no more false claims than one
(Maurer, Hothorn and Lehmacher 1995). "At most" is the largest number whose interval reaches the
goal. Together they hold the true number in 95 of 100 studies and more (benchmarks/how_many.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats import mean_ratios
from dlcontainer.bench.study.advice.drawn_inputs import TAIL, Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedEfficiency:
    """The efficiency of so many ranks, as a share, and its interval of 90 %."""

    ranks: int
    efficiency: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RanksAdvice:
    """Use so many ranks; `surely` to `at_most` are not told apart. None where no number is.

    `use` is the largest number whose estimate is at the goal, and lies between the two.
    """

    goal: float
    use: int | None
    surely: int | None
    at_most: int | None
    tried: tuple[int, ...]

    @property
    def steps_apart(self) -> int:
        """Return how many of the numbers tried lie between the two ends; nothing is below all."""
        places = {ranks: place for place, ranks in enumerate(self.tried)}
        return places.get(self.at_most or 0, -1) - places.get(self.surely or 0, -1)

    @property
    def goes_on(self) -> bool:
        """Whether the largest number that was tried may be at the goal: more might be so too."""
        return self.at_most == self.tried[-1]

    @property
    def words(self) -> str:
        """Return the advice in a line."""
        if self.at_most is None:
            return f"no number of ranks is at {self.goal:.0%}"
        words = f"use {self.use}" if self.use else "use none of these"
        if self.steps_apart:
            words += f"; {self.surely or 'none'} to {self.at_most} not told apart"
        surely = f"largest number surely at {self.goal:.0%}: {self.surely or 'none'}"
        more = f"; {self.at_most} is the most that was asked about, and more may be at the goal too"
        return f"{words}; {surely}" + (more if self.goes_on else "")


def advise(points: Sequence[RankedEfficiency], goal: float) -> RanksAdvice:
    """Return the advice for points of any order; raises ValueError for none."""
    ordered = sorted(points, key=lambda point: point.ranks)
    if not ordered:
        raise ValueError("no number of ranks")
    surely = use = at_most = None
    is_sure = True
    for point in ordered:
        is_sure = is_sure and point.low >= goal
        surely = point.ranks if is_sure else surely
        use = point.ranks if point.efficiency >= goal else use
        at_most = point.ranks if point.high >= goal else at_most
    tried = tuple(point.ranks for point in ordered)
    return RanksAdvice(goal=goal, use=use, surely=surely, at_most=at_most, tried=tried)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointSteps:
    """A measured point: seconds a step of each launch, and the samples of one rank's step."""

    ranks: int
    samples: float
    step_s: Sequence[float]


def measured(
    base: PointSteps, points: Iterable[PointSteps], tail: float = TAIL
) -> tuple[RankedEfficiency, ...]:
    """Return the efficiencies of the base, which is 1, and of points against it.

    Efficiency is samples a second and rank. One launch has no interval: 0 to infinity.
    """
    first = RankedEfficiency(ranks=base.ranks, efficiency=1.0, low=1.0, high=1.0)
    return (first, *(efficiency(base, point, tail) for point in points))


def efficiency(base: PointSteps, point: PointSteps, tail: float = TAIL) -> RankedEfficiency:
    """Return the efficiency of one point against the base, as the report has it."""
    factor = point.samples / base.samples
    interval = mean_ratios.ratio(
        [factor * second for second in base.step_s], point.step_s, 1 - 2 * tail
    )
    return RankedEfficiency(
        ranks=point.ranks, efficiency=interval.ratio, low=interval.low, high=interval.high
    )


def seconds(step_s: Sequence[float], tail: float = TAIL) -> Spread:
    """Return the mean seconds of a step with its interval; of one launch the value alone."""
    mean = mean_ratios.mean(step_s)
    if len(step_s) < 2:
        return Spread(low=mean, middle=mean, high=mean)
    # Against what is known: a second has no scatter.
    interval = mean_ratios.ratio(step_s, [1.0, 1.0], 1 - 2 * tail)
    return Spread(low=interval.low, middle=interval.ratio, high=interval.high)
