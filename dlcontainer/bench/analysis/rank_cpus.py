"""Ranks that had fewer CPUs than their job asked for: no comparison is made of them. Pure."""

from collections.abc import Iterator, Sequence

from dlcontainer.bench.samples.records import Declared, Stack
from dlcontainer.bench.samples.vocabulary import CPUS_ASKED, counted


def refusals(declared: Declared, stacks: Sequence[Stack]) -> tuple[str, ...]:
    """Say of each arm on which node a rank had fewer than the session declared."""
    asked = declared.workload.get(CPUS_ASKED)
    return tuple(_few(stacks, asked)) if isinstance(asked, int) else ()


def _few(stacks: Sequence[Stack], asked: int) -> Iterator[str]:
    for stack in stacks:
        binding = stack.facts.get("binding")
        bound = binding.values() if isinstance(binding, dict) else ()
        least = min((len(cpus) for cpus in bound if isinstance(cpus, list)), default=asked)
        if least < asked:
            yield (
                f"a rank of {stack.arm} on {stack.node} could use {counted(least, 'CPU')} of the "
                f"{asked} that the job asked for each"
            )
