"""The times of single steps, process by process, of a session whose launches report them. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.stats.scatter import components, stragglers
from dlcontainer.bench.stats.scatter.components import Component, Leaf
from dlcontainer.errors import BenchDataError

_TAIL = 0.99
LEVELS = ("between nodes", "between ranks", "between processes", "within a process")


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """One process of one launch: where it ran, and the time of each of its steps, s."""

    launch: int
    rank: int
    node: str
    steps: tuple[float, ...]

    @property
    def median(self) -> float:
        """Its median step, s."""
        return median(self.steps)

    @property
    def tail(self) -> float:
        """Its slow steps: the 99th percentile (nearest rank) over the median."""
        ordered = sorted(self.steps)
        return ordered[math.ceil(_TAIL * len(ordered)) - 1] / self.median


def of(series: Series) -> dict[ArmName, list[Process]]:
    """Give the processes of each arm, those of pairs and triples.

    Raises BenchDataError for a launch that says no such times.
    """
    found: dict[ArmName, list[Process]] = {arm: [] for arm in series.session.declared.arms}
    here = str(series.session.machine.get("node") or "this node")
    for sample in series.samples:
        if sample.ok and sample.role in {"pair", "triple"}:
            try:
                found[sample.arm] += _processes(sample, here)
            except (KeyError, TypeError, ValueError) as error:
                raise BenchDataError(
                    "no times of steps",
                    where=f"{series.path}:{sample.line}",
                    why=f"each process has a list of seconds, and here: {error}",
                    next_step="give the file as it was measured, or measure again",
                ) from None
    return found


def _processes(sample: Sample, here: str) -> Iterator[Process]:
    if not sample.ranks:
        steps = _steps(sample.values.get("steps_s"))
        yield Process(launch=sample.index, rank=0, node=here, steps=steps)
    for one in sample.ranks:
        rank = one.get("rank")
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"rank {rank!r}")
        yield Process(
            launch=sample.index,
            rank=rank,
            node=str(one.get("node") or here),
            steps=_steps(one.get("steps_s")),
        )


def _steps(given: Json) -> tuple[float, ...]:
    if not isinstance(given, list) or not given:
        raise ValueError("no list of steps")
    for step in given:
        if isinstance(step, bool) or not isinstance(step, float | int) or not 0 < step < math.inf:
            raise ValueError(f"a step of {step!r} s")
    return tuple(float(str(step)) for step in given)


def scatter(processes: Sequence[Process]) -> tuple[Component, ...]:
    """Split the scatter of the steps' logs over LEVELS: standard deviations are shares of the time.

    A rank is one place on one node; its processes are those of the launches.
    """
    leaves = [
        Leaf(
            labels=(one.node, str(one.rank), str(one.launch)),
            values=[math.log(step) for step in one.steps],
        )
        for one in processes
    ]
    return components.components(leaves, LEVELS)


def medians(processes: Sequence[Process]) -> dict[int, list[float]]:
    """Give each rank's median step, s, launch by launch."""
    found: dict[int, list[float]] = {}
    for one in sorted(processes, key=lambda one: (one.rank, one.launch)):
        found.setdefault(one.rank, []).append(one.median)
    return found


def slow_ranks(processes: Sequence[Process]) -> stragglers.Verdict:
    """Name the ranks that are slower than the others."""
    by_rank = medians(processes)
    if len({len(own) for own in by_rank.values()}) > 1:
        return stragglers.Verdict(refused="ranks have different launches")
    return stragglers.named(by_rank)


def places(processes: Sequence[Process]) -> Mapping[int, str]:
    """Give the node of each rank."""
    return {one.rank: one.node for one in processes}
