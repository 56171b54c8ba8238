"""The times of single steps, process by process, of a session whose launches report them. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.stats.scatter import components, stragglers
from dlcontainer.bench.stats.scatter.components import Leaf, VarianceComponent
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
    """Return the processes of each arm, those of pairs and triples.

    Raises BenchDataError for a launch that says no such times.
    """
    by_arm: dict[ArmName, list[Process]] = {arm: [] for arm in series.session.declared.arms}
    this_node = str(series.session.machine.get("node") or "this node")
    for sample in series.samples:
        if sample.ok and sample.role in {"pair", "triple"}:
            try:
                by_arm[sample.arm] += _processes(sample, this_node)
            except (KeyError, TypeError, ValueError) as error:
                raise BenchDataError(
                    "no step times in this launch",
                    where=f"{series.path}:{sample.line}",
                    why=f"each process must have a list of seconds: {error}",
                    next_step="give the original file, or measure again",
                ) from None
    return by_arm


def _processes(sample: Sample, this_node: str) -> Iterator[Process]:
    if not sample.ranks:
        steps = _steps(sample.values.get("steps_s"))
        yield Process(launch=sample.index, rank=0, node=this_node, steps=steps)
    for rank_body in sample.ranks:
        rank = rank_body.get("rank")
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"{rank!r} is not the number of a rank")
        yield Process(
            launch=sample.index,
            rank=rank,
            node=str(rank_body.get("node") or this_node),
            steps=_steps(rank_body.get("steps_s")),
        )


def _steps(steps: Json) -> tuple[float, ...]:
    if not isinstance(steps, list) or not steps:
        raise ValueError("the list of steps is missing or empty")
    for step in steps:
        if isinstance(step, bool) or not isinstance(step, float | int) or not 0 < step < math.inf:
            raise ValueError(f"{step!r} s is not the time of a step")
    return tuple(float(str(step)) for step in steps)


def scatter(processes: Sequence[Process]) -> tuple[VarianceComponent, ...]:
    """Split the scatter of the steps' logs over LEVELS: standard deviations are shares of the time.

    A rank is one place on one node; its processes are those of the launches.
    """
    leaves = [
        Leaf(
            labels=(process.node, str(process.rank), str(process.launch)),
            values=[math.log(step) for step in process.steps],
        )
        for process in processes
    ]
    return components.components(leaves, LEVELS)


def medians(processes: Sequence[Process]) -> dict[int, list[float]]:
    """Return each rank's median step, s, launch by launch."""
    by_rank: dict[int, list[float]] = {}
    for process in sorted(processes, key=lambda process: (process.rank, process.launch)):
        by_rank.setdefault(process.rank, []).append(process.median)
    return by_rank


def slow_ranks(processes: Sequence[Process]) -> stragglers.StragglerSearch:
    """Name the ranks that are slower than the others."""
    by_rank = medians(processes)
    if len({len(of_rank) for of_rank in by_rank.values()}) > 1:
        return stragglers.StragglerSearch(refused="ranks have different launches")
    return stragglers.named(by_rank)


def places(processes: Sequence[Process]) -> Mapping[int, str]:
    """Return the node of each rank."""
    return {process.rank: process.node for process in processes}
