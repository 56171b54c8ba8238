"""Seconds of collective operations over a group of ranks; bytes are those of the whole array."""

import math

from dlcontainer.bench.study.forecast import placement
from dlcontainer.bench.study.forecast.placement import AxisGroup
from dlcontainer.bench.study.forecast.step_terms import Machine


def all_reduce(machine: Machine, ranks: AxisGroup, size: float) -> float:
    """Return an all-reduce's seconds: 2 (n - 1) messages of a ring, each an n-th of the array.

    Where the backend has trees too, the quicker of both: up and down through each node's chain and
    a binary tree of nodes, whole arrays in a pipeline (Thakur et al., 2005; NCCL 2.4's trees).
    """
    if ranks.size == 1:
        return 0.0
    link = placement.link(machine, ranks)
    n = ranks.size
    ring = 2 * (n - 1) * link.latency_s + 2 * (n - 1) / n * size * link.second_per_byte
    if machine.algorithm == "ring":
        return ring
    inside = machine.in_node.latency_s * (ranks.on_a_node - 1)
    away = machine.between_nodes.latency_s * math.ceil(math.log2(ranks.nodes))
    return min(ring, 2 * (inside + away) + 2 * size * link.second_per_byte)


def all_gather(machine: Machine, ranks: AxisGroup, size: float) -> float:
    """Return an all-gather's seconds, or a reduce-scatter's: half a ring all-reduce."""
    if ranks.size == 1:
        return 0.0
    link, n = placement.link(machine, ranks), ranks.size
    return (n - 1) * link.latency_s + (n - 1) / n * size * link.second_per_byte
