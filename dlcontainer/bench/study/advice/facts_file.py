"""A file of facts: network, machine and goal of a forecast without a study. Strict.

`dlcontainer/facts/1`, YAML. Each figure has a unit, a source, and whether the source is independent
of what is forecast; it is a value, a range (all of it as likely), or choices (each as likely).
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from dlcontainer import config
from dlcontainer.bench.study.advice import candidates
from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, Independence
from dlcontainer.bench.study.forecast.step_terms import Algorithm, Machine, RankLink, TrainedNetwork
from dlcontainer.bench.study.study_records import Scaling
from dlcontainer.config.field_types import Line, Strict
from dlcontainer.errors import ConfigError

SCHEMA = "dlcontainer/facts/1"

# The units of each kind of figure, as factors of its first one.
_OPERATIONS = {"FLOP": 1.0, "GFLOP": 1e9, "TFLOP": 1e12}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RATES = {"FLOP/s": 1.0, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_BANDWIDTHS = {"B/s": 1.0, "MB/s": 1e6, "GB/s": 1e9, "Mbit/s": 1.25e5, "Gbit/s": 1.25e8}
_SHARES = {"share": 1.0, "%": 0.01}
_SAMPLE_RATES = {"samples/s": 1.0}
_COUNTS = {"samples": 1.0, "layers": 1.0, "ranks": 1.0, "heads": 1.0, "cores": 1.0}

# Far beyond what machines have; a factor that was written twice is found by it.
_MOST = 1e24
# What nobody stated is drawn from these, and marked as assumed.
_UNSTATED: Mapping[str, tuple[float, float]] = {
    "machine.neighbours": (0.0, 0.05),
    "machine.overlap": (0.3, 1.0),
    "machine.scatter": (0.01, 0.04),
}
_ALGORITHM = "machine.algorithm"
_ALGORITHMS: tuple[Algorithm, ...] = ("ring", "ring or tree")
_NOBODYS = "assumed, nobody's figure"


def _positive(figure: float) -> float:
    if not (0 <= figure <= _MOST and math.isfinite(figure)):
        raise ValueError(f"expected a number from 0 to {_MOST:.0e}, got {figure:g}")
    return figure


def _two_ends(ends: tuple[float, ...]) -> tuple[float, ...]:
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise ValueError("a range has two numbers, the lower one first: [low, high]")
    return ends


def _several(choices: tuple[float, ...]) -> tuple[float, ...]:
    if len(choices) < 2 or len(set(choices)) < len(choices) or len(choices) > 20:
        raise ValueError("choices are 2 to 20 different numbers")
    return choices


_Number = Annotated[float, AfterValidator(_positive)]


class StatedFigure(Strict):
    """A figure as somebody states it: exactly one of value, range and choices."""

    value: _Number | None = None
    range: Annotated[tuple[_Number, ...], AfterValidator(_two_ends)] | None = None
    choices: Annotated[tuple[_Number, ...], AfterValidator(_several)] | None = None
    unit: Line
    source: Line
    independent: Independence

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        stated = [self.value, self.range, self.choices]
        if sum(part is not None for part in stated) != 1:
            raise ValueError("give exactly one of value, range and choices")
        return self

    @property
    def figures(self) -> tuple[float, ...]:
        """Return all numbers that stand there."""
        return self.range or self.choices or (self.value or 0.0,)


class StatedLink(Strict):
    """A way between ranks: the latency of a message, and the bandwidth."""

    latency: StatedFigure
    bandwidth: StatedFigure


class NetworkFacts(Strict):
    """A network; operations and activations are of one sample."""

    name: Line
    # One of `bench train --workload`, where it is one: its memory can be asked of an image.
    workload: Line | None = None
    flops: StatedFigure | None = None
    # Stated, else taken from a trace; a trace's own are taken for its strategy.
    gradient_bytes: StatedFigure | None = None
    # `trace.json` of bench trace, relative to this file.
    trace: Line | None = None
    layers: StatedFigure | None = None
    heads: StatedFigure | None = None
    activation_bytes: StatedFigure | None = None
    # Of one rank in data parallelism: parameters, gradients, optimizer state, activations.
    rank_bytes: StatedFigure | None = None


class MachineFacts(Strict):
    """A machine; its speed is that of one rank with this network: operations, or samples.

    in_node is what one rank sends to another of its node, between_nodes a node's port.
    """

    name: Line
    device: Literal["gpu", "cpu"]
    flops_per_s: StatedFigure | None = None
    samples_per_s: StatedFigure | None = None
    ranks_per_node: StatedFigure
    cores_per_rank: StatedFigure | None = None
    in_node: StatedLink | None = None
    between_nodes: StatedLink
    neighbours: StatedFigure | None = None
    overlap: StatedFigure | None = None
    scatter: StatedFigure | None = None
    # gloo: a send waits until its receive is posted.
    rendezvous: Literal["yes", "no"] = "no"
    # Of all-reduce: gloo's rings, NCCL's quicker one of ring and tree; unknown: either.
    algorithm: Literal["ring", "ring or tree", "unknown"] = "ring or tree"


def _strategy(name: str) -> str:
    why = candidates.wrong_name(name)
    if why:
        raise ValueError(why)
    return name


class GoalFacts(Strict):
    """What is asked: samples of a rank's step (weak scaling) or of all ranks' (strong)."""

    scaling: Scaling = "weak"
    batch: StatedFigure
    # 0: twice a pipeline's stages, or the batch if that is less.
    micro_batches: Annotated[int, Field(ge=0, le=4096)] = 0
    strategies: Annotated[
        tuple[Annotated[str, AfterValidator(_strategy)], ...], Field(min_length=1, max_length=40)
    ] = ("dp",)
    efficiency: Annotated[float, Field(gt=0, lt=1)] = 0.85


class ForecastFacts(Strict):
    """A file of facts."""

    schema_: Literal["dlcontainer/facts/1"] = Field(alias="schema")
    network: NetworkFacts
    machine: MachineFacts
    goal: GoalFacts


# Where each figure stands, the units that it may have, whether it is a whole number.
_FIGURES: Mapping[str, Mapping[str, float]] = {
    "network.flops": _OPERATIONS,
    "network.gradient_bytes": _BYTES,
    "network.layers": {"layers": 1.0},
    "network.heads": {"heads": 1.0},
    "network.activation_bytes": _BYTES,
    "network.rank_bytes": _BYTES,
    "machine.flops_per_s": _RATES,
    "machine.samples_per_s": _SAMPLE_RATES,
    "machine.ranks_per_node": {"ranks": 1.0},
    "machine.cores_per_rank": {"cores": 1.0},
    "machine.in_node.latency": _SECONDS,
    "machine.in_node.bandwidth": _BANDWIDTHS,
    "machine.between_nodes.latency": _SECONDS,
    "machine.between_nodes.bandwidth": _BANDWIDTHS,
    "machine.neighbours": _SHARES,
    "machine.overlap": _SHARES,
    "machine.scatter": _SHARES,
    "goal.batch": {"samples": 1.0},
}
_WHOLE = (
    *("network.layers", "network.heads", "machine.ranks_per_node", "machine.cores_per_rank"),
    "goal.batch",
)
# What memory and strategies are reckoned with: one value.
_ONE_VALUE = (
    *("network.layers", "network.heads", "network.rank_bytes"),
    *("machine.ranks_per_node", "machine.cores_per_rank"),
)
# Of the whole: nothing above it.
_AT_MOST_ONE = ("machine.neighbours", "machine.overlap", "machine.scatter")
# Nothing is divided by 0.
_ABOVE_ZERO = (
    *("network.flops", "machine.flops_per_s", "machine.samples_per_s", "goal.batch"),
    *("machine.ranks_per_node", "machine.cores_per_rank"),
    *("machine.in_node.bandwidth", "machine.between_nodes.bandwidth"),
)


def read(path: Path, *, is_traced: bool = False) -> ForecastFacts:
    """Read a file of facts; raises ConfigError that names each mistake with its place.

    `is_traced`: a trace was given beside it.
    """
    document = config.load(path, layer="facts", display=str(path))
    facts = config.validate(document, ForecastFacts)
    wrong = [
        (key, what) for key, figure in figures(facts) for what in _wrong(key, figure)
    ] + _missing(facts, is_traced=is_traced)
    if wrong:
        lines = [
            f"{document.origin(tuple(key.split('.'))).where}: {key}: {what}" for key, what in wrong
        ]
        raise ConfigError("\n".join(lines))
    return facts


def figures(facts: ForecastFacts) -> Iterator[tuple[str, StatedFigure]]:
    """Yield each stated figure with its key."""
    for key in _FIGURES:
        part: object = facts
        for name in key.split("."):
            part = getattr(part, name, None)
        if isinstance(part, StatedFigure):
            yield key, part


def _wrong(key: str, figure: StatedFigure) -> Iterator[str]:
    units = _FIGURES[key]
    if figure.unit not in units:
        yield f"unit: expected one of: {', '.join(units)}; got '{figure.unit}'"
        return
    if key in _WHOLE and any(number != int(number) for number in figure.figures):
        yield "expected a whole number"
    if key in _ONE_VALUE and figure.value is None:
        yield "expected one value: what is divided can't be drawn"
    elif key in _WHOLE and figure.range:
        yield "a range of whole numbers is unsupported: write them as choices"
    if key in _ABOVE_ZERO and min(figure.figures) <= 0:
        yield "must be above 0"
    if key in _AT_MOST_ONE and max(figure.figures) * units[figure.unit] > 1:
        yield "more than the whole (1 share, 100 %)"


def _missing(facts: ForecastFacts, *, is_traced: bool) -> list[tuple[str, str]]:
    machine, network = facts.machine, facts.network
    wrong = []
    if network.gradient_bytes is None and network.trace is None and not is_traced:
        wrong.append(("network", "gradient_bytes is missing, and so is a trace that tells them"))
    if (machine.flops_per_s is None) == (machine.samples_per_s is None):
        wrong.append(("machine", "give either flops_per_s or samples_per_s, of one rank"))
    if machine.flops_per_s is not None and network.flops is None:
        wrong.append(("network", "flops is missing: flops_per_s has no meaning without it"))
    if machine.in_node is None and max(machine.ranks_per_node.figures) > 1:
        wrong.append(("machine", "in_node is missing: a node has more than one rank"))
    divided = [name for name in facts.goal.strategies if "tp" in name or "pp" in name]
    if divided:
        wrong += [
            ("network", f"{name} is missing: {divided[0]} divides or sends it")
            for name in ("layers", "activation_bytes")
            if getattr(network, name) is None
        ]
    return wrong


def inputs(facts: ForecastFacts) -> tuple[DrawnInput, ...]:
    """Return what is drawn, in SI units; what nobody stated with the range that is assumed."""
    drawn = [_input(key, figure) for key, figure in figures(facts)]
    stated = {drawn_input.key for drawn_input in drawn}
    word = facts.machine.algorithm
    bounds = (0.0, 1.0) if word == "unknown" else (float(_ALGORITHMS.index(word)),)
    algorithm = DrawnInput(
        key=_ALGORITHM,
        unit="0 ring, 1 ring or tree",
        source="machine.algorithm",
        independent="assumed" if word == "unknown" else "yes",
        low=bounds[0],
        high=bounds[-1],
        choices=bounds if word == "unknown" else (),
    )
    return (
        *drawn,
        algorithm,
        *(
            DrawnInput(key=key, unit="share", source=_NOBODYS, independent="assumed", low=low,
                       high=high)
            for key, (low, high) in _UNSTATED.items()
            if key not in stated
        ),
    )  # fmt: skip


def in_si(key: str, figure: StatedFigure, number: float) -> float:
    """Return a number of a figure in the first unit of its kind: bytes, seconds, a share."""
    return _FIGURES[key][figure.unit] * number


def _input(key: str, figure: StatedFigure) -> DrawnInput:
    base = next(iter(_FIGURES[key]))
    scaled = tuple(in_si(key, figure, number) for number in figure.figures)
    return DrawnInput(
        key=key, unit=base, source=figure.source, independent=figure.independent, low=min(scaled),
        high=max(scaled), choices=scaled if figure.choices else (),
    )  # fmt: skip


def network(drawn: Mapping[str, float]) -> TrainedNetwork:
    """Return the network of one draw; without operations a sample counts as one."""
    return TrainedNetwork(
        flops=drawn.get("network.flops", 1.0),
        # Without them only a trace's own strategy is forecast.
        gradient_bytes=drawn.get("network.gradient_bytes", 0.0),
        layers=int(drawn.get("network.layers", 0)),
        activation_bytes=drawn.get("network.activation_bytes", 0.0),
    )


def machine(facts: ForecastFacts, drawn: Mapping[str, float]) -> Machine:
    """Return the machine of one draw."""
    speed = drawn.get("machine.flops_per_s")
    if speed is None:
        speed = drawn["machine.samples_per_s"] * drawn.get("network.flops", 1.0)
    between = _link(drawn, "machine.between_nodes")
    return Machine(
        flops_per_s=speed,
        ranks_per_node=int(drawn["machine.ranks_per_node"]),
        in_node=_link(drawn, "machine.in_node") if facts.machine.in_node else between,
        between_nodes=between,
        neighbours=drawn["machine.neighbours"],
        overlap=drawn["machine.overlap"],
        scatter=drawn["machine.scatter"],
        rendezvous=facts.machine.rendezvous == "yes",
        algorithm=_ALGORITHMS[int(drawn[_ALGORITHM])],
    )


def _link(drawn: Mapping[str, float], key: str) -> RankLink:
    return RankLink(
        latency_s=drawn[f"{key}.latency"], second_per_byte=1 / drawn[f"{key}.bandwidth"]
    )
