"""What a forecast stands on: a file of facts. Pure."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.advice import facts_file as facts_
from dlcontainer.bench.study.advice import traced_traffic
from dlcontainer.bench.study.advice.candidates import DividedWork
from dlcontainer.bench.study.advice.facts_file import ForecastFacts
from dlcontainer.bench.study.advice.forecast_records import ForecastSubject
from dlcontainer.bench.study.advice.ground import ForecastGround
from dlcontainer.bench.study.advice.traced_traffic import TracedTraffic
from dlcontainer.bench.study.forecast.step_terms import StrategyChoice
from dlcontainer.bench.study.study_records import MeasuredStudy
from dlcontainer.system.runner import quote

_NODES = "dlcontainer bench collectives --site {site} --image {image} --ranks 2 --nodes 2"
_NODE = "dlcontainer bench collectives --site {site} --image {image} --ranks 2"
_ONE = "dlcontainer bench train --site {site} --image {image} {network}"
# What it tells is taken by --trace; ranks are those of a study's point.
_TRACE = (
    "dlcontainer bench trace --site {site} --image {image} --ranks {ranks} -o trace -- YOUR COMMAND"
)
_NEXT = "dlcontainer bench scaling --site {site} --image {image} {network} --ranks {more} -o STUDY"
TRACED = "machine.overlap"
# The command that tells an input, by the start of the input's name: of facts, then of a study.
_COMMANDS: Mapping[str, str] = {
    "network": "dlcontainer bench forecast {origin} --image {image} --script FILE:build",
    "machine": _NEXT,
    "machine.in_node": _NODE,
    "machine.between_nodes": _NODES,
    "machine.flops_per_s": _ONE,
    "machine.samples_per_s": _ONE,
    TRACED: _TRACE,
    "machine.scatter": "dlcontainer bench variability --site {site} --image {image}",
    "latency in a node": _NODE,
    "bandwidth in a node": _NODE,
    "stage latency in a node": _NODE,
    "stage bandwidth in a node": _NODE,
    "latency between nodes": _NODES,
    "bandwidth between nodes": _NODES,
    "stage latency between nodes": _NODES,
    "stage bandwidth between nodes": _NODES,
    "number of bytes": "dlcontainer bench forecast {origin} --image {image} --script FILE:build",
    "seconds of": _ONE,
    "trace.overlap": _NEXT,
    "input of": "dlcontainer bench input --site {site} --image {image}",
    "scatter of": "dlcontainer bench variability --site {site} --image {image}",
    "": _NEXT,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastSource:
    """A ground, its own goal, and the study that it comes from."""

    ground: ForecastGround
    goal: float
    study: MeasuredStudy | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuringWords:
    """What stands in the commands of one subject: `more` ranks to measure, `ranks` to trace."""

    origin: str
    site: str
    image: str
    network: str
    more: str
    ranks: int = 2


def commands(words: MeasuringWords) -> Mapping[str, str]:
    """Return the command that tells each input, for one subject."""
    typed = {**asdict(words), "image": words.image or "IMAGE"}
    return {key: command.format(**typed) for key, command in _COMMANDS.items()}


def of_facts(
    path: Path,
    facts: ForecastFacts,
    image: str = "",
    strategies: tuple[str, ...] = (),
    script: str = "",
) -> ForecastSource:
    """Return the ground of a file of facts; `image` and `script` as they were typed."""
    inputs = facts_.inputs(facts)
    middle = {drawn_input.key: drawn_input.middle for drawn_input in inputs}
    batch = int(middle["goal.batch"])
    name = facts.network.workload or "WORKLOAD"
    network = f"--script {quote([script])}" if script else f"--workload {name}"
    per_node = int(middle["machine.ranks_per_node"])
    # A rank, a full node, two of them: what is between nodes shows from the second one on.
    ranks = dict.fromkeys((1, per_node, 2 * per_node))
    measuring = commands(
        MeasuringWords(
            origin=str(path), site="SITE", image=image, network=network,
            more=",".join(map(str, ranks)),
        )
    )  # fmt: skip
    cores = int(middle.get("machine.cores_per_rank", 1))
    ground = ForecastGround(
        subject=ForecastSubject(
            origin=str(path),
            digest=hashlib.sha256(facts.model_dump_json(by_alias=True).encode()).hexdigest(),
            kind="facts",
            network=facts.network.name,
            machine=facts.machine.name,
            device=facts.machine.device,
            scaling=facts.goal.scaling,
            units_per_rank=cores if facts.machine.device == "cpu" else 1,
            workload=facts.network.workload or "",
        ),
        inputs=inputs,
        network=facts_.network,
        machine=lambda drawn: facts_.machine(facts, drawn),
        work=DividedWork(
            layers=int(middle.get("network.layers", 0)),
            heads=int(middle.get("network.heads", 0)),
            batch=batch,
            micro_batches=facts.goal.micro_batches,
            scaling=facts.goal.scaling,
        ),
        strategies=strategies or facts.goal.strategies,
        ranks_per_node=per_node,
        base=StrategyChoice(strategy=ParallelStrategy(), global_batch=batch),
        commands=measuring,
        more=measuring["machine"],
    )
    return ForecastSource(ground=ground, goal=facts.goal.efficiency)


def with_trace(
    source: ForecastSource, facts: ForecastFacts, traffic: TracedTraffic | None
) -> ForecastSource:
    """Return the ground of facts with what a trace says; an overlap that is stated stays."""
    if traffic is None:
        return source
    overlap = traffic.overlap() if facts.machine.overlap is None else None
    is_told = facts.network.gradient_bytes is not None
    ground = traced_traffic.on(source.ground, traffic, overlap, is_told=is_told)
    return replace(source, ground=ground)
