"""The ground of a forecast: its inputs, how a draw becomes a machine, and what is asked. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice import candidates as candidates_
from dlcontainer.bench.study.advice import drawn_inputs
from dlcontainer.bench.study.advice.candidates import DividedWork, StrategyCandidates
from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, Spread
from dlcontainer.bench.study.advice.forecast_records import ForecastSubject, LeftOutStrategy
from dlcontainer.bench.study.forecast.step_terms import Machine, StrategyChoice, TrainedNetwork

Draw = Mapping[str, float]
# Without --nodes: so many nodes of a machine, so many doublings beyond a study's last point.
NODES = 16
DOUBLINGS = 4


def _not_known(draw: Draw) -> NoReturn:
    raise ValueError(f"a ground that tells memory only gives nothing for {draw}")


MetPair = tuple[TrainedNetwork, Machine]


def _unchanged(
    _draw: Draw, _strategy: ParallelStrategy, network: TrainedNetwork, machine: Machine
) -> MetPair:
    return network, machine


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredSpeed:
    """A measured point: its step, and its efficiency with intervals of 90 %."""

    strategy: str
    ranks: int
    step_s: Spread
    efficiency: Spread
    # Seconds by term as they were measured; empty where they were not.
    terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastGround:
    """What a forecast stands on: inputs to draw, and how a draw becomes a network and a machine."""

    subject: ForecastSubject
    work: DividedWork
    strategies: tuple[str, ...]
    ranks_per_node: int
    # What efficiency is relative to.
    base: StrategyChoice
    measured: tuple[MeasuredSpeed, ...] = ()
    # The command that would tell an input, by the input's key or the start of it.
    commands: Mapping[str, str]
    # Of a ground that tells memory only, nothing is drawn.
    inputs: tuple[DrawnInput, ...] = ()
    network: Callable[[Draw], TrainedNetwork] = _not_known
    machine: Callable[[Draw], Machine] = _not_known
    optimizer: str = "sgd"
    # Why nothing but memory can be said.
    memory_only: str = ""
    # What a strategy takes that nobody measured.
    unmeasured: Callable[[ParallelStrategy], tuple[str, ...]] = lambda _: ()
    # The network and the machine of a draw as a strategy meets them; a trace changes its own's.
    met: Callable[[Draw, ParallelStrategy, TrainedNetwork, Machine], MetPair] = _unchanged
    remarks: tuple[str, ...] = ()
    # The command that would make more known.
    more: str = ""

    @property
    def last(self) -> int:
        """Return the ranks of the last measured point; 0 without one."""
        return max((point.ranks for point in self.measured), default=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastQuestion:
    """What was asked; ranks None: a study's and four doublings more, a machine's first 16 nodes."""

    nodes: int | None
    goal: float
    budget_hours: float | None = None
    seed: int = drawn_inputs.SEED


NODES = 16
DOUBLINGS = 4
# What a step costs beside a pipeline's passes; all steps together are kept to some seconds.
_ONCE, _MOST_PASSES, _FEWEST_DRAWS = 8, 200_000, 100


def command(ground: ForecastGround, key: str) -> str:
    """Return the command that would tell an input; empty for none."""
    if not key:
        return ""
    starts = [start for start in ground.commands if key.startswith(start)]
    return ground.commands[max(starts, key=len)] if starts else ground.more


def ranks_asked(ground: ForecastGround, nodes: int | None) -> tuple[int, ...]:
    """Return the numbers of ranks: those measured, and doublings up to what was asked."""
    least = ground.base.strategy.ranks
    if nodes is not None:
        most = max(nodes * ground.ranks_per_node, least)
    elif ground.last:
        most = ground.last * 2**DOUBLINGS
    else:
        most = NODES * ground.ranks_per_node
    measured = {point.ranks for point in ground.measured}
    start = ground.last or least
    further = candidates_.counts(start, ground.ranks_per_node, max(most, start))
    return tuple(sorted({*measured, *further}))


def listed(ground: ForecastGround, nodes: int | None) -> StrategyCandidates:
    """Return the candidates of a question."""
    counts = ranks_asked(ground, nodes)
    every = candidates_.listed(ground.strategies, counts, ground.ranks_per_node, ground.work)
    measured = {(point.strategy, point.ranks) for point in ground.measured}
    kept, unknown = [], []
    for candidate in every.candidates:
        name = candidate.choice.strategy.name
        missing = (
            ()
            if (name, candidate.ranks) in measured
            else ground.unmeasured(candidate.choice.strategy)
        )
        if missing:
            unknown.append(
                LeftOutStrategy(
                    strategy=candidate.typed,
                    ranks=candidate.ranks,
                    why=f"{missing[0]} was not measured",
                    command=command(ground, missing[0]),
                )
            )
        else:
            kept.append(candidate)
    return StrategyCandidates(candidates=tuple(kept), left_out=(*every.left_out, *unknown))
