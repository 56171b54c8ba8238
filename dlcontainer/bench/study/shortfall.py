"""A study against what was foreseen for it: which point is surely below, and by which term. Pure.

A forecast that was made at the first two points (or by a plain model) says an interval of the
efficiency for each later point, and the terms of its loss. Below means surely below: no efficiency
that the measurement allows is one that was foreseen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import loss_terms
from dlcontainer.bench.study.efficiency import ArmEfficiency
from dlcontainer.bench.study.loss_terms import PointLoss
from dlcontainer.bench.study.study_records import PointPlan

# How one says a term in a sentence.
COMMUNICATION = "communication"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeseenPoint:
    """What was foreseen at a point: its efficiency's interval, and each term's share of the step.

    The names of `shares` are those of the step's terms; one that is not there was foreseen as 0.
    """

    ranks: int
    strategy: str
    efficiency: Interval
    shares: Mapping[str, float]

    def is_of(self, plan: PointPlan) -> bool:
        """Return whether it was foreseen for this point."""
        return (self.ranks, self.strategy) == (plan.ranks, plan.strategy.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class PointReading:
    """A measured point of one arm: efficiency and terms."""

    plan: PointPlan
    efficiency: ArmEfficiency
    loss: PointLoss | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeseenComparison:
    """A point beside what was foreseen for it; `term` is what was lost beyond it, where it is."""

    ranks: int
    strategy: str
    measured: Interval
    foreseen: Interval
    is_below: bool
    term: str = ""


def below(foreseen: Interval, measured: Interval) -> bool:
    """Whether a measured efficiency is surely below the one that was foreseen."""
    return measured.high < foreseen.low


def compare(
    foreseen: Sequence[ForeseenPoint], readings: Sequence[PointReading]
) -> tuple[ForeseenComparison, ...]:
    """Hold each measured point against what was foreseen for it; the base is in none."""
    pairs = [
        (point, reading)
        for reading in readings
        for point in foreseen
        if not reading.efficiency.is_base and point.is_of(reading.plan)
    ]
    return tuple(_comparison(point, reading) for point, reading in pairs)


def _comparison(point: ForeseenPoint, reading: PointReading) -> ForeseenComparison:
    measured = reading.efficiency.efficiency
    is_below = below(point.efficiency, measured)
    return ForeseenComparison(
        ranks=point.ranks,
        strategy=point.strategy,
        measured=measured,
        foreseen=point.efficiency,
        is_below=is_below,
        term=_term(point, reading.loss) if is_below and reading.loss else "",
    )


def _term(point: ForeseenPoint, loss: PointLoss) -> str:
    """Name the term that takes the most more than was foreseen."""
    beyond = {
        term.name: term.share.share - sum(_foreseen(point, name) for name in _parts(term.name))
        for term in loss.terms
    }
    name = max(beyond, key=lambda name: beyond[name], default="")
    return COMMUNICATION if name == loss_terms.COMMUNICATION else name


def _foreseen(point: ForeseenPoint, name: str) -> float:
    return point.shares.get(name, 0.0)


def _parts(name: str) -> tuple[str, ...]:
    """Return the terms of a forecast that a measured one holds."""
    if name == loss_terms.BUBBLE:
        return ("bubble",)
    names = (loss_terms.NEIGHBOURS, loss_terms.COMMUNICATION, loss_terms.WAITING)
    # A joined term says its parts.
    parts = tuple(part for part in names if part in name)
    return parts or (name,)


def sentence(comparisons: Sequence[ForeseenComparison]) -> str:
    """Say how a study did against what was foreseen; empty where nothing was."""
    if not comparisons:
        return ""
    last = comparisons[-1]
    begin = (
        f"At {last.ranks} ranks the efficiency is {last.measured.ratio:.2f} "
        f"({last.measured.low:.2f} to {last.measured.high:.2f}), foreseen {last.foreseen.low:.2f} "
        f"to {last.foreseen.high:.2f}"
    )
    lacking = [comparison for comparison in comparisons if comparison.is_below]
    if not lacking:
        return f"{begin}: not surely below."
    first = lacking[0]
    if not last.is_below:
        return f"{begin}: not surely below, though it is at {first.ranks} ranks ({first.term})."
    term = f", term: {last.term}" if last.term else ""
    return f"{begin}: BELOW, first at {first.ranks} ranks{term}."
