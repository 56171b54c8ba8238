"""Which ranks talk, and over which links: the mesh of `probe train --parallel` on nodes.

The mesh has pipeline stages outermost, then dp, then fsdp, and tensor parallel innermost: ranks of
one tensor-parallel group are neighbours on a node, stages lie farthest apart.
"""

import math
from dataclasses import dataclass

from dlcontainer.bench.samples.parallel_strategy import Axis, ParallelStrategy
from dlcontainer.bench.study.forecast.step_terms import Machine, RankLink

# From the outermost axis to the innermost.
ORDER: tuple[Axis, ...] = ("pp", "dp", "fsdp", "tp")


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisGroup:
    """The ranks of one group along an axis: of a node, in all, and how many groups share a port."""

    size: int
    on_a_node: int
    groups_on_a_node: int

    @property
    def nodes(self) -> int:
        """Return how many nodes a group lies on."""
        return math.ceil(self.size / self.on_a_node)


def stride(strategy: ParallelStrategy, axis: Axis) -> int:
    """Return the distance of two neighbours along an axis, in ranks."""
    inner = ORDER[ORDER.index(axis) + 1 :]
    return math.prod(strategy.size(name) for name in inner)


def group(strategy: ParallelStrategy, axis: Axis, ranks_per_node: int) -> AxisGroup:
    """Return how a group along an axis lies on nodes."""
    size, step = strategy.size(axis), stride(strategy, axis)
    on_a_node = max(1, min(size, ranks_per_node // step))
    busy = min(ranks_per_node, strategy.ranks)
    return AxisGroup(size=size, on_a_node=on_a_node, groups_on_a_node=max(1, busy // on_a_node))


def link(machine: Machine, ranks: AxisGroup) -> RankLink:
    """Return the slowest link of a ring of a group; groups that leave a node share its port."""
    if ranks.nodes == 1:
        return machine.in_node
    port = machine.between_nodes
    inside = machine.in_node.second_per_byte if ranks.on_a_node > 1 else 0.0
    return RankLink(
        latency_s=port.latency_s,
        second_per_byte=max(inside, port.second_per_byte * ranks.groups_on_a_node),
    )


def borders(strategy: ParallelStrategy, machine: Machine) -> list[RankLink]:
    """Return the link of each border between two stages of a pipeline."""
    block, node = stride(strategy, "pp"), machine.ranks_per_node
    inside = machine.stage_in_node or machine.in_node
    port = machine.stage_between_nodes or machine.between_nodes
    links = []
    for stage in range(strategy.pp - 1):
        ranks = range(stage * block, (stage + 1) * block)
        leaving = [rank // node for rank in ranks if rank // node != (rank + block) // node]
        most = max(map(leaving.count, leaving), default=0)
        away = RankLink(latency_s=port.latency_s, second_per_byte=port.second_per_byte * most)
        links.append(away if leaving else inside)
    return links


def leaves_a_node(strategy: ParallelStrategy, ranks_per_node: int) -> bool:
    """Tell whether any message goes from one node to another."""
    return strategy.ranks > ranks_per_node


def stays_in_a_node(strategy: ParallelStrategy, ranks_per_node: int) -> bool:
    """Tell whether any message goes from one rank to another of its node."""
    return min(ranks_per_node, strategy.ranks) > 1
