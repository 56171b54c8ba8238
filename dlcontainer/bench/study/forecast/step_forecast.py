"""A step's seconds as an interval, the term that rules it, the constant that rules its width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.calibration import DRAWS, CalibratedMachine
from dlcontainer.bench.study.forecast.estimates import LEVEL, ConstantName
from dlcontainer.bench.study.forecast.step_terms import StepTerms, StrategyChoice, TrainedNetwork
from dlcontainer.errors import BenchDataError


@dataclass(frozen=True, kw_only=True, slots=True)
class StepForecast:
    """A step under a strategy: seconds with their interval, terms, and what rules the width."""

    choice: StrategyChoice
    level: float
    # The step of the constants' own values, by term; low_s to high_s holds the true one at `level`.
    terms: StepTerms
    low_s: float
    median_s: float
    high_s: float
    # Each constant's share of the variance, the largest first; they sum to 1, or all are 0.
    shares: Mapping[ConstantName, float]

    @property
    def ruling_term(self) -> str:
        """Return the largest term beside compute; compute where nothing is lost."""
        losses = {
            name: s for name, s in self.terms.by_name().items() if name != "compute" and s > 0
        }
        return max(losses, key=losses.__getitem__, default="compute")

    @property
    def ruling_input(self) -> ConstantName | None:
        """Return the constant that rules the interval's width; None where nothing is uncertain."""
        first = next(iter(self.shares.items()), None)
        return first[0] if first and first[1] > 0 else None


def of(
    calibrated: CalibratedMachine,
    network: TrainedNetwork,
    choice: StrategyChoice,
    *,
    level: float = LEVEL,
    draws: int = DRAWS,
    seed: int = 0,
) -> StepForecast:
    """Forecast a step of the study's network.

    Raises BenchDataError where the strategy takes a link that nobody measured.
    """
    missing = calibrated.unmeasured(choice.strategy)
    if missing:
        ranks = choice.strategy.ranks
        raise BenchDataError(
            f"{choice.strategy.name} on {ranks} ranks: {missing[0]} was not measured",
            next_step="measure it: a study with two nodes in --ranks (bench scaling --ranks 1,2,4)",
        )
    model = replace(calibrated, estimates=calibrated.inputs(network))
    machines = model.draws(network, count=draws, seed=seed)
    steps = sorted(step_model.step(network, machine, choice).step_s for machine in machines)
    tail = (1 - level) / 2
    return StepForecast(
        choice=choice,
        level=level,
        terms=step_model.step(network, model.machine(network), choice),
        low_s=quantile(steps, tail),
        median_s=median(steps),
        high_s=quantile(steps, 1 - tail),
        shares=_shares(model, network, choice),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of ordered values, between neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _shares(
    model: CalibratedMachine, network: TrainedNetwork, choice: StrategyChoice
) -> Mapping[ConstantName, float]:
    """Return each constant's share of the variance.

    By the step at both ends of its 90 % interval, the others at their values.
    """
    squares: dict[ConstantName, float] = {}
    for name, constant in model.estimates.items():
        ends = [
            step_model.step(network, model.moved(network, name, end), choice).step_s
            for end in constant.interval()
        ]
        squares[name] = (ends[1] - ends[0]) ** 2
    whole = sum(squares.values())
    ordered = sorted(squares.items(), key=lambda pair: -pair[1])
    return {name: square / whole if whole > 0 else 0.0 for name, square in ordered}
