"""A forecast's inputs out of a trace: gradients' bytes, their messages, what computing hides. Pure.

A trace serves the strategy that it was taken under: data parallel or fsdp, and no hybrid of them.
"""

from dataclasses import dataclass, replace
from statistics import fmean, stdev
from string import digits

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.samples.step_traffic import RankTraffic, StepTraffic
from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, of_estimate
from dlcontainer.bench.study.advice.forecast_records import TraceSource
from dlcontainer.bench.study.advice.ground import Draw, ForecastGround, MetPair
from dlcontainer.bench.study.forecast import step_model
from dlcontainer.bench.study.forecast.calibration import TELLS, CalibratedMachine
from dlcontainer.bench.study.forecast.estimates import LONE_SPREAD, MANY, Estimate, is_assumed
from dlcontainer.bench.study.forecast.step_terms import TrainedNetwork

BYTES, MESSAGES, OVERLAP = "trace.gradient_bytes", "trace.messages", "trace.overlap"
# The backward pass's share of both, where nothing is recomputed.
_BACKWARD = 2 / 3
# What those of a study and of facts are called that a trace replaces.
_REPLACED = ("network.gradient_bytes", "machine.overlap", "overlap")
_NO_BYTES = "number of bytes of its gradients"


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedTraffic:
    """What a trace tells of a step, where from, and what a reader must know of that."""

    source: TraceSource
    step: StepTraffic
    # Another machine hides otherwise: its trace tells what is sent.
    is_elsewhere: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Say where the figures come from."""
        return f"{self.source.origin}, side {self.source.side}, {self.source.steps} steps"

    @property
    def bucket_bytes(self) -> float:
        """Return the bytes of one message; a hair more, so that no message too many is counted."""
        return self.step.gradient_bytes / self.step.messages * (1 + 1e-9)

    def serves(self, strategy: ParallelStrategy) -> bool:
        """Tell whether a strategy is the trace's own: all ranks along its axis."""
        return strategy.ranks == strategy.size(self.step.axis)

    def network(self, network: TrainedNetwork) -> TrainedNetwork:
        """Return a network with the gradients that were sent; fsdp sends a unit at a time."""
        layers = self.step.messages if self.step.axis == "fsdp" else network.layers
        return replace(network, gradient_bytes=self.step.gradient_bytes, layers=layers)

    def overlap(self) -> Estimate | None:
        """Estimate what computing hides of the messages; None where the trace can't tell.

        That under which the model's buckets, each as long as it was traced, are exposed as long.
        """
        if self.step.axis != "dp" or self.is_elsewhere:
            return None
        shares = [share for share in map(self._share, self.step.ranks) if share is not None]
        if not shares:
            return None
        spread = stdev(shares) if len(shares) > 1 else 0.0
        return Estimate(
            name="overlap", value=fmean(shares), se=max(spread, LONE_SPREAD), df=MANY,
            source=self.words, share=True, most=1.0,
        )  # fmt: skip

    def estimate(self, calibrated: CalibratedMachine, network: TrainedNetwork) -> Estimate | None:
        """Estimate it by a study's own steps, now that it is known what they sent, else by itself.

        A step shows what communication costs; a trace shows no computing that it slowed down.
        """
        if self.step.axis != "dp":
            return None
        sent = replace(calibrated, bucket_bytes=self.bucket_bytes).inputs(self.network(network))
        by_steps = sent["overlap"]
        return (self.overlap() or by_steps) if is_assumed(by_steps) else by_steps

    def _share(self, rank: RankTraffic) -> float | None:
        once, window = rank.transfer_s / self.step.messages, _BACKWARD * rank.computing_s

        def exposed(overlap: float) -> float:
            return step_model.buckets_s(self.step.messages, once, window, overlap)

        if exposed(0.0) <= exposed(1.0) * (1 + TELLS):
            return None
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if exposed(middle) > rank.exposed_s else (low, middle)
        return (low + high) / 2


def on(
    ground: ForecastGround,
    traffic: TracedTraffic,
    overlap: Estimate | None,
    *,
    is_told: bool,
) -> ForecastGround:
    """Return a ground whose data-parallel (or fsdp) strategies are forecast by a trace.

    `overlap`: that of the messages; None: as without a trace. `is_told`: whether the bytes of
    the other strategies' gradients are known as well; those are left out else.
    """
    drawn = of_estimate(overlap, OVERLAP) if overlap else None

    def unmeasured(strategy: ParallelStrategy) -> tuple[str, ...]:
        missing = ground.unmeasured(strategy)
        return missing if is_told or traffic.serves(strategy) else (*missing, _NO_BYTES)

    foreign = [name for name in ground.strategies if name.rstrip(digits) != traffic.step.axis]
    replaced = [
        figure
        for figure in ground.inputs
        if figure.key in _REPLACED and (overlap or "bytes" in figure.key)
    ]
    dropped = [] if foreign else replaced
    remaining = tuple(figure for figure in ground.inputs if figure not in dropped)
    middle = {figure.key: figure.middle for figure in dropped}
    return replace(
        ground,
        subject=replace(ground.subject, trace=traffic.source),
        inputs=(*remaining, *_inputs(traffic), *([drawn] if drawn else [])),
        network=lambda draw: ground.network({**middle, **draw}),
        machine=lambda draw: ground.machine({**middle, **draw}),
        met=lambda draw, strategy, *pair: _met(traffic, draw, strategy, pair),
        unmeasured=unmeasured,
        remarks=(*ground.remarks, _said(traffic, overlap), *traffic.remarks),
    )


def _said(traffic: TracedTraffic, overlap: Estimate | None) -> str:
    """Say what a trace replaces, and where from."""
    step = traffic.step
    messages = "1 message" if step.messages == 1 else f"{step.messages} messages"
    by = f"gradients of {step.axis}: {step.gradient_bytes / 1e6:.4g} MB a step in {messages}"
    if overlap is not None:
        low, high = overlap.interval()
        source = "" if overlap.source == traffic.words else f" ({overlap.source})"
        by = f"{by}, of which computing can hide {low:.0%} to {high:.0%}{source}"
    return f"{by}; by {traffic.words}"


def _met(
    traffic: TracedTraffic,
    draw: Draw,
    strategy: ParallelStrategy,
    pair: MetPair,
) -> MetPair:
    network, machine = pair
    if not traffic.serves(strategy):
        return pair
    return traffic.network(network), replace(
        machine, bucket_bytes=traffic.bucket_bytes, overlap=draw.get(OVERLAP, machine.overlap)
    )


def _inputs(traffic: TracedTraffic) -> tuple[DrawnInput, ...]:
    """Return what a trace counts: no draw moves it."""
    step = traffic.step
    counts = {BYTES: ("B", step.gradient_bytes), MESSAGES: ("a step", float(step.messages))}
    return tuple(
        DrawnInput(
            key=key, unit=unit, source=traffic.words, independent="yes", low=count, high=count
        )
        for key, (unit, count) in counts.items()
    )
