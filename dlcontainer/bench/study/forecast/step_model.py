"""How long a step takes under a parallel strategy: a closed form, each term apart. Pure.

The step's parts: compute, what busy neighbours on a node cost, the bubble of a pipeline,
communication that nothing hides, and waiting for the slowest rank. Where the strategy has no
pipeline, a data-parallel all-reduce runs beside the last backward pass, bucket by bucket; behind a
pipeline it is exposed. Tensor parallel sends two all-reduces a layer in each pass, always exposed
(Shoeybi et al., Megatron-LM, 2019). fsdp gathers the next layer's parameters while it computes, in
both passes, and scatters gradients behind the backward pass.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

from dlcontainer.bench.study.forecast import collective_times, pipeline_graph, placement
from dlcontainer.bench.study.forecast.pipeline_graph import PipelineTimes
from dlcontainer.bench.study.forecast.step_terms import (
    Machine,
    StepTerms,
    StrategyChoice,
    TrainedNetwork,
)


def step(network: TrainedNetwork, machine: Machine, choice: StrategyChoice) -> StepTerms:
    """Return a step's seconds by term; one rank's step is its compute and its input."""
    strategy = choice.strategy
    samples = choice.global_batch / strategy.batches
    compute = _compute_s(network, machine, choice)
    neighbours = compute * _neighbours(machine, strategy.ranks)
    sharded = _tensor_parallel_s(network, machine, choice)
    # Seconds of one micro-batch in a stage, both passes, with what tensor parallel sends in them.
    micro = (compute + neighbours + sharded) / choice.micro_batches
    bubble, stages = _pipeline_s(network, machine, choice, micro)
    gradients = _gradients_s(network, machine, choice, micro)
    return StepTerms(
        compute_s=compute,
        idle_neighbours_s=neighbours,
        bubble_s=bubble,
        exposed_communication_s=sharded + stages + gradients,
        waiting_s=(compute + neighbours) * machine.scatter * slowest_of(strategy.ranks),
        input_s=machine.input_s * samples,
    )


def slowest_of(ranks: int) -> float:
    """Return how many standard deviations the slowest of so many ranks lies above their mean.

    Blom's approximation of the largest normal order statistic; 0 for one rank.
    """
    return NormalDist().inv_cdf((ranks - 0.375) / (ranks + 0.25)) if ranks > 1 else 0.0


def _compute_s(network: TrainedNetwork, machine: Machine, choice: StrategyChoice) -> float:
    strategy = choice.strategy
    samples = choice.global_batch / strategy.batches
    parts = strategy.tp * strategy.pp
    return samples * network.flops / machine.flops_per_s / parts + (
        machine.pass_s * choice.micro_batches / strategy.pp
    )


def _neighbours(machine: Machine, ranks: int) -> float:
    """Return the share that busy neighbours add: in proportion to how many there are."""
    if machine.ranks_per_node == 1:
        return 0.0
    busy = min(ranks, machine.ranks_per_node)
    return machine.neighbours * (busy - 1) / (machine.ranks_per_node - 1)


def _activation_bytes(network: TrainedNetwork, choice: StrategyChoice) -> float:
    """Return the bytes of a micro-batch's activation between two layers."""
    samples = choice.global_batch / choice.strategy.batches / choice.micro_batches
    return samples * network.activation_bytes


def _tensor_parallel_s(network: TrainedNetwork, machine: Machine, choice: StrategyChoice) -> float:
    strategy = choice.strategy
    if strategy.tp == 1:
        return 0.0
    ranks = placement.group(strategy, "tp", machine.ranks_per_node)
    once = collective_times.all_reduce(machine, ranks, _activation_bytes(network, choice))
    times = 6 if network.recomputed else 4
    return times * network.layers / strategy.pp * choice.micro_batches * once


def _pipeline_s(
    network: TrainedNetwork, machine: Machine, choice: StrategyChoice, micro: float
) -> tuple[float, float]:
    """Return a pipeline's bubble, and what its messages add to it."""
    strategy = choice.strategy
    if strategy.pp == 1:
        return 0.0, 0.0
    size = _activation_bytes(network, choice)
    messages = [
        border.latency_s + size * border.second_per_byte
        for border in placement.borders(strategy, machine)
    ]
    times = PipelineTimes(
        stages=strategy.pp,
        micro_batches=choice.micro_batches,
        forward_s=micro * network.forward,
        backward_s=micro * (1 - network.forward),
        messages_s=messages,
        rendezvous=machine.rendezvous,
    )
    bubble = micro * (strategy.pp - 1)
    whole = pipeline_graph.step_s(times, choice.schedule)
    return bubble, max(0.0, whole - bubble - micro * choice.micro_batches)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gradients:
    """The gradients of a rank, in bytes, and the seconds of the passes that take and make them."""

    bytes: float
    forward_s: float
    backward_s: float


def _gradients_s(
    network: TrainedNetwork, machine: Machine, choice: StrategyChoice, micro: float
) -> float:
    """Return what fsdp and dp add; `micro`: seconds of one micro-batch, both passes."""
    strategy = choice.strategy
    size = network.gradient_bytes / (strategy.tp * strategy.pp)
    exposed = 0.0
    if strategy.fsdp > 1:
        units = max(1, round(network.layers / strategy.pp))
        forward = micro * network.forward
        gradients = _Gradients(bytes=size, forward_s=forward, backward_s=micro - forward)
        exposed += _sharded_s(machine, choice, gradients, units=units)
        size /= strategy.fsdp
    if strategy.dp > 1:
        ranks = placement.group(strategy, "dp", machine.ranks_per_node)
        buckets = max(1, math.ceil(size / machine.bucket_bytes))
        once = collective_times.all_reduce(machine, ranks, size / buckets)
        window = micro * (1 - network.forward) if strategy.pp == 1 else 0.0
        exposed += buckets_s(buckets, once, window, machine.overlap)
    return exposed


def buckets_s(buckets: int, once: float, window: float, overlap: float) -> float:
    """Return what equal buckets add to a backward pass that has them ready one after another.

    The first is ready a bucket's share of the pass after its begin, and one goes at a time. Of each
    a share of 1 - overlap stands in the pass's way.
    """
    overlapped = once * overlap
    last = overlapped
    from_first = buckets * overlapped - window * (1 - 1 / buckets)
    return buckets * (once - overlapped) + max(last, from_first)


def _sharded_s(
    machine: Machine, choice: StrategyChoice, gradients: _Gradients, *, units: int
) -> float:
    """Return what fsdp adds, where parameters are gathered in so many units.

    Each pass gathers unit by unit, the next one while a unit computes; a backward pass gathers and
    scatters. The first gather and the last scatter are exposed.
    """
    ranks = placement.group(choice.strategy, "fsdp", machine.ranks_per_node)
    once = collective_times.all_gather(machine, ranks, gradients.bytes / units)
    overlapped = once * machine.overlap
    hidden = overlapped + (units - 1) * max(0.0, overlapped - gradients.forward_s / units)
    hidden += overlapped + (units - 1) * max(0.0, 2 * overlapped - gradients.backward_s / units)
    return choice.micro_batches * (hidden + 3 * units * (once - overlapped))
