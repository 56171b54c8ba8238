"""How fast: a candidate's step in all draws, its intervals, and the input that rules. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice import drawn_inputs
from dlcontainer.bench.study.advice import ground as ground_
from dlcontainer.bench.study.advice.candidates import StrategyCandidate
from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, Spread
from dlcontainer.bench.study.advice.forecast_records import SpeedAnswer, SpeedRow
from dlcontainer.bench.study.advice.ground import (
    Draw,
    ForecastGround,
    ForecastQuestion,
    MeasuredSpeed,
)
from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    StepTerms,
    StrategyChoice,
    TrainedNetwork,
)

# The model itself, of all terms but compute: declared, from held-out steps of gloo (emulated
# compute, docs/measurements/scaling.md): mean 4.2 % of a step, worst 19.4 %.
MODEL = DrawnInput(
    key="model.terms", unit="factor", source="declared, from held-out steps of this model",
    independent="yes", low=1 / 1.25, high=1.25, law="normal",
)  # fmt: skip
# Beyond 16 times the last measured point each doubling widens all terms but compute by this.
FAR = 16
BEYOND = DrawnInput(
    key="model.beyond", unit="factor a doubling", source=f"declared: beyond {FAR} times the last "
    "measured point", independent="assumed", low=1 / 1.25, high=1.25, law="normal",
)  # fmt: skip
# What a step costs beside a pipeline's passes; all steps together are kept to some seconds.
_ONCE, _MOST_PASSES, _FEWEST_DRAWS = 8, 200_000, 100


def inputs(ground: ForecastGround) -> tuple[DrawnInput, ...]:
    """Return all that is drawn: the ground's inputs, and the model's own errors."""
    return (*ground.inputs, MODEL, *([BEYOND] if ground.last else []))


def draws_of(ground: ForecastGround, question: ForecastQuestion) -> int:
    """Return how many draws there are: fewer where a pipeline's graph takes its time."""
    passes = sum(
        _ONCE + candidate.choice.strategy.pp * candidate.choice.micro_batches
        for candidate in ground_.listed(ground, question.nodes).candidates
    )
    return max(min(_MOST_PASSES // max(passes, 1), drawn_inputs.DRAWS), _FEWEST_DRAWS)


def answer(
    ground: ForecastGround, question: ForecastQuestion, fitting: Sequence[StrategyCandidate]
) -> SpeedAnswer:
    """Return a row for each candidate, and which are not told apart."""
    drawn = _DrawnGround.of(ground, question)
    steps = {candidate: _steps(ground, drawn.worlds, candidate.choice) for candidate in fitting}
    return SpeedAnswer(
        rows=tuple(_row(drawn, candidate, steps[candidate]) for candidate in fitting),
        equals=_equals(steps),
        misses=tuple(_misses(ground, steps)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _DrawnWorld:
    """One draw with its network and machine."""

    ground: ForecastGround
    draw: Draw
    network: TrainedNetwork
    machine: Machine

    @classmethod
    def of(cls, ground: ForecastGround, draw: Draw) -> "_DrawnWorld":
        network, machine = ground.network(draw), ground.machine(draw)
        return cls(ground=ground, draw=draw, network=network, machine=machine)

    def step(self, choice: StrategyChoice) -> StepTerms:
        """Return a choice's step by the model."""
        met = self.ground.met(self.draw, choice.strategy, self.network, self.machine)
        return step_model.step(*met, choice)


@dataclass(frozen=True, kw_only=True, slots=True)
class _DrawnGround:
    """A ground with all draws, and the base's samples a second and rank in each."""

    ground: ForecastGround
    inputs: tuple[DrawnInput, ...]
    worlds: tuple[_DrawnWorld, ...]
    rates: tuple[float, ...]
    # The same with one input at its middle, by the input.
    narrowed: dict[str, "_DrawnGround"] = field(default_factory=dict)

    @classmethod
    def of(cls, ground: ForecastGround, question: ForecastQuestion) -> "_DrawnGround":
        every = inputs(ground)
        drawn = drawn_inputs.draws(every, question.seed, draws_of(ground, question))
        return cls._made(ground, every, drawn)

    @classmethod
    def _made(
        cls, ground: ForecastGround, every: tuple[DrawnInput, ...], drawn: Sequence[Draw]
    ) -> "_DrawnGround":
        worlds = tuple(_DrawnWorld.of(ground, draw) for draw in drawn)
        rates = tuple(step.rate for step in _steps(ground, worlds, ground.base))
        return cls(ground=ground, inputs=every, worlds=worlds, rates=rates)

    def middle(self) -> _DrawnWorld:
        """Return the world with all inputs at their middles."""
        return _DrawnWorld.of(
            self.ground, {drawn_input.key: drawn_input.middle for drawn_input in self.inputs}
        )

    def holding(self, drawn_input: DrawnInput) -> "_DrawnGround":
        """Return the ground with one input held at its middle in every draw."""
        if drawn_input.key not in self.narrowed:
            drawn = [{**world.draw, drawn_input.key: drawn_input.middle} for world in self.worlds]
            self.narrowed[drawn_input.key] = self._made(self.ground, self.inputs, drawn)
        return self.narrowed[drawn_input.key]

    def shares(self, choice: StrategyChoice) -> list[float]:
        """Return a choice's efficiency in each draw."""
        steps = _steps(self.ground, self.worlds, choice)
        return [step.rate / base for step, base in zip(steps, self.rates, strict=True)]


def _terms(world: _DrawnWorld, choice: StrategyChoice, doublings: float) -> StepTerms:
    """Return a step's terms of one draw, with the model's own factor."""
    bare, draw = world.step(choice), world.draw
    factor = draw.get(MODEL.key, 1.0) * draw.get(BEYOND.key, 1.0) ** doublings
    return replace(
        bare,
        idle_neighbours_s=bare.idle_neighbours_s * factor,
        bubble_s=bare.bubble_s * factor,
        exposed_communication_s=bare.exposed_communication_s * factor,
        waiting_s=bare.waiting_s * factor,
    )


def _doublings(ground: ForecastGround, strategy: ParallelStrategy) -> float:
    """Return how many doublings a point lies beyond what a study can tell."""
    if not ground.last:
        return 0.0
    return max(math.log2(strategy.ranks / (FAR * ground.last)), 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _DrawnStep:
    """One draw of a candidate: samples of a rank's step, its seconds, those that the model errs in.

    `factor` is the model's own, which those seconds have in them.
    """

    samples: float
    seconds: float
    lost_s: float
    factor: float

    @property
    def rate(self) -> float:
        """Return samples a second and rank."""
        return self.samples / self.seconds

    def rate_with(self, factor: float) -> float:
        """Return the rate if the model erred by another factor."""
        return self.samples / (self.seconds + self.lost_s * (factor / self.factor - 1))


def _steps(
    ground: ForecastGround, worlds: Sequence[_DrawnWorld], choice: StrategyChoice
) -> list[_DrawnStep]:
    """Return a choice's step in each draw; a batch that is drawn scales the choice's."""
    far, ranks, steps = _doublings(ground, choice.strategy), choice.strategy.ranks, []
    for world in worlds:
        batch, drawn = world.draw.get("goal.batch"), choice
        if batch is not None and batch != ground.work.batch:
            scaled = round(choice.global_batch * batch / ground.work.batch)
            drawn = replace(choice, global_batch=max(scaled, 1))
        terms = _terms(world, drawn, far)
        steps.append(
            _DrawnStep(
                samples=drawn.global_batch / ranks,
                seconds=terms.step_s,
                lost_s=terms.step_s - terms.compute_s - terms.input_s,
                factor=world.draw[MODEL.key],
            )
        )
    return steps


def _row(
    drawn: _DrawnGround, candidate: StrategyCandidate, steps: Sequence[_DrawnStep]
) -> SpeedRow:
    ground, choice = drawn.ground, candidate.choice
    shares = [step.rate / base for step, base in zip(steps, drawn.rates, strict=True)]
    measured = _measured(ground, candidate)
    middle = _terms(drawn.middle(), choice, _doublings(ground, choice.strategy))
    ruling = None
    if measured is None:
        ruling = drawn_inputs.ruling(
            drawn.inputs,
            [world.draw for world in drawn.worlds],
            shares,
            lambda drawn_input: drawn.holding(drawn_input).shares(choice),
        )
    step_s = drawn_inputs.spread([step.seconds for step in steps])
    efficiency = drawn_inputs.spread(shares)
    hourly = 3600 / ground.subject.units_per_rank
    an_hour = drawn_inputs.spread([hourly * step.rate for step in steps])
    terms = middle.by_name()
    if measured is not None:
        terms = measured.terms or terms
        step_s, efficiency = measured.step_s, measured.efficiency
        samples = hourly * choice.global_batch / choice.strategy.ranks
        an_hour = Spread(
            low=samples / step_s.high, middle=samples / step_s.middle, high=samples / step_s.low
        )
    return SpeedRow(
        strategy=choice.strategy.name,
        ranks=candidate.ranks,
        nodes=candidate.nodes,
        global_batch=choice.global_batch,
        step_s=step_s,
        efficiency=efficiency,
        samples_an_hour=an_hour,
        terms=dict(terms),
        term=_largest(terms),
        is_measured=measured is not None,
        input=ruling,
        command=ground_.command(ground, ruling.key if ruling else ""),
        widened=_widened(ground, choice.strategy),
    )


def _measured(ground: ForecastGround, candidate: StrategyCandidate) -> MeasuredSpeed | None:
    return next(
        (
            point
            for point in ground.measured
            if (point.strategy, point.ranks) == (candidate.choice.strategy.name, candidate.ranks)
        ),
        None,
    )


def _largest(terms: Mapping[str, float]) -> str:
    """Name the largest term beside compute; compute itself where nothing else takes time."""
    lost = {name: second for name, second in terms.items() if name != "compute"}
    name = max(lost, key=lambda term: lost[term], default="compute")
    return name if lost.get(name, 0.0) > 0 else "compute"


def _misses(
    ground: ForecastGround, steps: Mapping[StrategyCandidate, Sequence[_DrawnStep]]
) -> Iterator[str]:
    """Say where the model misses a measured point: beyond it nobody should lean on the model."""
    for candidate, drawn in steps.items():
        measured = _measured(ground, candidate)
        if measured is None or candidate.ranks < ground.last:
            continue
        model = drawn_inputs.spread([step.seconds for step in drawn])
        if model.high < measured.step_s.low or model.low > measured.step_s.high:
            yield (
                f"THE MODEL MISSES the last measured point of {measured.strategy}: "
                f"{model.middle:.3g} [{model.low:.3g}, {model.high:.3g}] s, measured "
                f"{measured.step_s.middle:.3g} s; do not lean on its rows beyond it"
            )


def _widened(ground: ForecastGround, strategy: ParallelStrategy) -> str:
    doublings = _doublings(ground, strategy)
    if not doublings:
        return ""
    return (
        f"{strategy.ranks / ground.last:.0f} times the last measured point ({ground.last}): "
        f"beyond {FAR} times all terms but compute are widened by {BEYOND.high:g} a doubling"
    )


def _equals(
    steps: Mapping[StrategyCandidate, Sequence[_DrawnStep]],
) -> Mapping[int, tuple[str, ...]]:
    """Return, by number of ranks, which strategies are not told apart from the quickest.

    Draws are compared one by one: an input that two strategies share does not tell them apart. The
    model errs in each strategy by itself: the other one has the factor of another draw.
    """
    by_ranks: dict[int, list[StrategyCandidate]] = {}
    for candidate in steps:
        by_ranks.setdefault(candidate.ranks, []).append(candidate)
    equals = {}
    for ranks, several in by_ranks.items():
        best = max(several, key=lambda candidate: median(step.rate for step in steps[candidate]))
        like = [
            candidate.choice.strategy.name
            for candidate in several
            if candidate is not best and _may_win(steps[candidate], steps[best])
        ]
        if like:
            equals[ranks] = (best.choice.strategy.name, *like)
    return equals


def _may_win(steps: Sequence[_DrawnStep], best: Sequence[_DrawnStep]) -> bool:
    half = len(steps) // 2
    factors = [step.factor for step in (*best[half:], *best[:half])]
    wins = sum(
        step.rate_with(factor) > base.rate
        for step, base, factor in zip(steps, best, factors, strict=True)
    )
    return wins > drawn_inputs.TAIL * len(steps)
