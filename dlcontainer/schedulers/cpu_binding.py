"""How launchers bind each rank of a node to cores of its own, and how their words are read. Pure.

A core has the number of its first hardware thread, and words name those alone: Linux numbers the
first threads of all cores before the second ones (LUMI-training-materials@f509c80
docs/2day-20260422/202-Binding.md), and the centres' own masks and lists leave the second ones out.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

# No node has as many CPUs, nor a launcher's word room for them.
_MOST_CPUS = 8192
_Place = TypeVar("_Place")


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """Where the ranks of a node run, in their order; nothing where the words do not tell it."""

    # The NUMA domain of each rank.
    domains: tuple[int, ...] = ()
    # The CPUs of each rank.
    cpus: tuple[tuple[int, ...], ...] = ()
    # On cores in their order: the first rank on the lowest.
    ascending: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuBinding:
    """The words by which a launcher binds the ranks of each node, {places} one for each rank."""

    # By the numbers of cores: how one rank's are written, and what stands between ranks.
    cores: tuple[str, ...]
    write_cores: Callable[[Sequence[int]], str]
    between: str
    # By NUMA domains, all hardware threads of each; empty where the launcher can't.
    domains: tuple[str, ...] = ()
    # A pattern of the words that exclude these.
    excluded: str
    # Another way to the same, for messages.
    other: str = ""
    # Reads the words of a launcher that starts so many ranks on each node.
    read: Callable[[Sequence[str], int], Placement]

    def by_domain(self, domains: Sequence[int]) -> tuple[str, ...]:
        """Return the words for ranks each in a domain of its own."""
        return self._words(self.domains, map(str, domains))

    def by_cores(self, ranks: Sequence[Sequence[int]]) -> tuple[str, ...]:
        """Return the words for ranks each on cores of its own."""
        return self._words(self.cores, map(self.write_cores, ranks))

    def _words(self, words: tuple[str, ...], places: Iterable[str]) -> tuple[str, ...]:
        text = self.between.join(places)
        return tuple(word.format(places=text) for word in words)


def mask(cores: Sequence[int]) -> str:
    """Write cores as a hexadecimal mask: bit n is core n."""
    return f"{sum(1 << core for core in cores):x}"


def ranges(cores: Sequence[int]) -> str:
    """Write cores, in their order, as numbers and ranges: 1-7,9."""
    runs: dict[int, list[int]] = {}
    for core, place in zip(cores, count(), strict=False):
        runs.setdefault(core - place, []).append(core)
    return ",".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs.values()
    )


# Source: srun(1), --cpu-bind: how it is told of comes before the way.
_SRUN = re.compile(r"(?<!\S)--cpu[-_]bind[= ](?:(?:v(?:erbose)?|q(?:uiet)?),)?(?P<way>\S+)")
_OF_SRUN = re.compile(r"(?P<way>map_ldom|map_cpu|mask_cpu)[:=](?P<list>\S+)")
# Gives each rank the device beside its cores, whatever their order.
_CLOSEST = re.compile(r"(?<!\S)--gpu-bind[= ](?:v(?:erbose)?,)?closest(?!\S)")
# Which CPUs these are is not told.
_SRUN_UNTOLD = ("map_", "mask_", "none", "no")


def read_srun(words: Sequence[str], ranks: int) -> Placement:
    """Read where srun's words place ranks; without words it gives cores in their order."""
    text = " ".join(words)
    if _CLOSEST.search(text):
        return Placement()
    stated = [match["way"] for match in _SRUN.finditer(text)]
    way = stated[-1] if stated else ""
    match = _OF_SRUN.fullmatch(way)
    if match is None:
        return Placement(ascending=not way.startswith(_SRUN_UNTOLD))
    texts = match["list"].split(",")
    try:
        if match["way"] == "map_ldom":
            return Placement(domains=_each([int(text, 0) for text in texts], ranks))
        if match["way"] == "map_cpu":
            return Placement(cpus=_each([(int(text, 0),) for text in texts], ranks))
        return Placement(cpus=_each([_bits(int(text, 16)) for text in texts], ranks))
    except ValueError:
        return Placement()  # srun's own business


# Source: argonne-lcf/user-guides@7d04a3f docs/aurora/running-jobs-aurora.md ("Binding MPI ranks and
# threads to cores"): list:1,2:3-4, and depth, which gives each rank the next CPUs.
_PALS = re.compile(r"(?<!\S)--cpu-bind[= ](?:v(?:erbose)?,)?(?P<way>\S+)")
_DEPTH = re.compile(r"(?<!\S)(?:-d ?|--depth[= ])(?P<value>\d{1,4})(?!\S)")


def read_pals(words: Sequence[str], ranks: int) -> Placement:
    """Read where the words of PALS's mpiexec place ranks."""
    text = " ".join(words)
    stated, depth = [match["way"] for match in _PALS.finditer(text)], _DEPTH.search(text)
    way = stated[-1] if stated else ""
    if way == "depth" and depth is not None:
        each = int(depth["value"])
        return Placement(cpus=tuple(tuple(range(n * each, (n + 1) * each)) for n in range(ranks)))
    lists = way.removeprefix("list:").split(":")
    # How another number of ranks is served is not described.
    if not way.startswith("list:") or len(lists) != ranks:
        return Placement()
    try:
        return Placement(cpus=tuple(tuple(_ranged(text)) for text in lists))
    except ValueError:
        return Placement()  # the launcher's own business


def _each(listed: Sequence[_Place], ranks: int) -> tuple[_Place, ...]:
    """Give each rank its item: a shorter list begins again (srun(1))."""
    return tuple(listed[rank % len(listed)] for rank in range(ranks))


def _bits(number: int) -> tuple[int, ...]:
    if number.bit_length() > _MOST_CPUS:
        raise ValueError("a mask of more CPUs than any node has")
    return tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)


def _ranged(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if high >= _MOST_CPUS:
            raise ValueError("a CPU that no node has")
        yield from range(low, high + 1)
