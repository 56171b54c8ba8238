"""What the sides attest on each node: compared node by node, and nodes with each other. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.comparable import FactDifference
from dlcontainer.bench.samples.records import AttestedStack, SessionDeclaration
from dlcontainer.bench.samples.vocabulary import CPUS_ASKED, ArmName, Question, counted


def by_arm(stacks: Sequence[AttestedStack]) -> dict[ArmName, list[AttestedStack]]:
    """Return each arm's stacks, one a node, in the order of the nodes' names."""
    grouped: dict[ArmName, list[AttestedStack]] = {}
    for stack in sorted(stacks, key=lambda stack: stack.node):
        grouped.setdefault(stack.arm, []).append(stack)
    return grouped


def differences(
    question: Question,
    reference: Sequence[AttestedStack],
    candidate: Sequence[AttestedStack],
    declared: comparable.CandidateFacts = comparable.NOTHING_DECLARED,
) -> list[FactDifference]:
    """Compare what two sides attest on each node, and what the nodes of each side attest.

    Nodes that are not alike forbid what sides that are not alike forbid: the slowest rank is then
    the slowest node, and a ratio of it says little about the container.
    """
    ours, theirs = ({stack.node: stack for stack in side} for side in (reference, candidate))
    differing = []
    if ours.keys() != theirs.keys():
        values = ", ".join(ours), ", ".join(theirs)
        differing.append(
            FactDifference(name="nodes", values=values, owner="surroundings", refuses=True)
        )
    several = len(ours.keys() | theirs.keys()) > 1
    for node in sorted(ours.keys() & theirs.keys()):
        for item in comparable.differences(question, ours[node], theirs[node], declared):
            differing.append(replace(item, name=f"{item.name} on {node}") if several else item)
    for side in (reference, candidate):
        differing += [item for item in _between(question, side) if item not in differing]
    return sorted(differing, key=lambda item: (not item.refuses, item.name))


def _between(question: Question, side: Sequence[AttestedStack]) -> list[FactDifference]:
    """Compare each further node with the first."""
    if not side:
        return []
    first = side[0]
    return [
        replace(item, nodes=(first.node, stack.node))
        for stack in side[1:]
        for item in comparable.differences(question, first, stack)
        # What is expected of two sides is a node's own: its name, its clocks just now.
        if not item.is_expected
    ]


def few_cpus(declared: SessionDeclaration, stacks: Sequence[AttestedStack]) -> tuple[str, ...]:
    """Return on which node a rank of an arm had fewer CPUs than the job asked for each."""
    cpus = declared.workload.get(CPUS_ASKED)
    return tuple(_few(stacks, cpus)) if isinstance(cpus, int) else ()


def _few(stacks: Sequence[AttestedStack], cpus: int) -> Iterator[str]:
    for stack in stacks:
        binding = stack.facts.get("binding")
        bound = binding.values() if isinstance(binding, dict) else ()
        least = min((len(cpus) for cpus in bound if isinstance(cpus, list)), default=cpus)
        if least < cpus:
            yield (
                f"a rank of {stack.arm} on {stack.node} could use {counted(least, 'CPU')} of the "
                f"{cpus} that the job asked for each"
            )
