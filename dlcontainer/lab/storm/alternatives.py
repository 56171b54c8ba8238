"""The four ways to give ranks their files, side by side, and where one begins to pay. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlcontainer.lab.storm.storm_model import (
    ImportLoad,
    Prediction,
    ServerModel,
    StormJob,
    predict,
    saturation,
)

Way = Literal["tree", "image per rank", "image per node", "staged"]
WAYS: tuple[Way, ...] = ("tree", "image per rank", "image per node", "staged")
_MOST_NODES = 1 << 17


@dataclass(frozen=True, kw_only=True, slots=True)
class StagingCost:
    """What staging moves and over what: MB, and MB/s from node to node (0: not known)."""

    mb: float
    network_mb_s: float = 0.0

    def copy_s(self, system: ServerModel, nodes: int) -> float:
        """Seconds in which every node copies the file for itself."""
        return nodes * self.mb / system.bandwidth(nodes)

    def broadcast_s(self, system: ServerModel, nodes: int) -> float:
        """Seconds in which one node reads and hands on, the number of holders doubling."""
        if not self.network_mb_s:
            return math.inf
        rounds = math.ceil(math.log2(nodes)) if nodes > 1 else 0
        return self.mb / system.bandwidth(1) + rounds * self.mb / self.network_mb_s

    def best(self, system: ServerModel, nodes: int) -> tuple[str, float]:
        """Name the quicker of the two, and its seconds."""
        copied, sent = self.copy_s(system, nodes), self.broadcast_s(system, nodes)
        return ("broadcast", sent) if sent < copied else ("copy", copied)


@dataclass(frozen=True, kw_only=True, slots=True)
class StormCase:
    """Loads of the ways that are available, what staging moves, and the file system."""

    loads: Mapping[Way, ImportLoad]
    staging: StagingCost | None
    system: ServerModel


@dataclass(frozen=True, kw_only=True, slots=True)
class AlternativeRow:
    """One way's outcome; staging is inside its seconds and named beside."""

    way: Way
    prediction: Prediction
    saturates_at: float
    staging: tuple[str, float] | None = None

    @property
    def seconds(self) -> float:
        """Seconds until the last rank is ready."""
        return self.prediction.seconds + (self.staging[1] if self.staging else 0.0)


def rows(case: StormCase, job: StormJob) -> list[AlternativeRow]:
    """Predict each way."""
    predictions = []
    for route in WAYS:
        load = case.loads.get(route)
        if load is None or (route == "staged" and case.staging is None):
            continue
        staged = (
            case.staging.best(case.system, job.nodes)
            if route == "staged" and case.staging
            else None
        )
        predictions.append(
            AlternativeRow(
                way=route,
                prediction=predict(load, case.system, job),
                saturates_at=saturation(load, case.system, job),
                staging=staged,
            )
        )
    return predictions


def launches_to_pay(predictions: Sequence[AlternativeRow], against: Way = "tree") -> int | None:
    """Launches after which staging has paid, the first included; None if it never does."""
    by = {row.way: row for row in predictions}
    if "staged" not in by or against not in by or by["staged"].staging is None:
        return None
    saved = by[against].seconds - by["staged"].prediction.seconds
    return math.ceil(by["staged"].staging[1] / saved) if saved > 0 else None


def nodes_to_pay(case: StormCase, job: StormJob, route: Way, against: Way = "tree") -> int | None:
    """Fewest nodes at which one launch is quicker this way, staging inside; None if it never is."""

    def pays(nodes: int) -> bool:
        larger = StormJob(nodes=nodes, ranks=job.ranks, cores=job.cores)
        by = {row.way: row.seconds for row in rows(case, larger)}
        return by[route] < by[against]

    if route not in case.loads or against not in case.loads:
        return None
    return _first(pays)


def _first(holds: Callable[[int], bool]) -> int | None:
    """Find the smallest number for which something holds, if it goes on holding above it."""
    high = 1
    while not holds(high):
        high *= 2
        if high > _MOST_NODES:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def curve(case: StormCase, job: StormJob) -> list[dict[str, float]]:
    """Return seconds of each way over powers of two of nodes, up to four times the job's."""
    points, nodes = [], 1
    while nodes <= 4 * job.nodes:
        grown = StormJob(nodes=nodes, ranks=job.ranks, cores=job.cores)
        seconds = {row.way: row.seconds for row in rows(case, grown)}
        points.append({"nodes": float(nodes), **{str(k): v for k, v in seconds.items()}})
        nodes *= 2
    return points
