"""What a scaling study declares, and what was measured at its points.

A study is a folder: `study.json` is its declaration (StudyPlan), written once; each point is a
session of `bench train` beside it, each further measurement (ExtraPlan) a session of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy

SCHEMA = "dlcontainer/scaling-study/1"
STUDY_FILE = "study.json"
# weak: the batch of a rank stays the same; strong: that of all ranks together.
Scaling = Literal["weak", "strong"]
# messages: all-reduce and send/recv at two sizes. idle_neighbours: as many ranks train side by
# side on their own, nobody talks.
Extra = Literal["messages", "idle_neighbours"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PointPlan:
    """A point: so many ranks under one strategy, as one session in `file`."""

    ranks: int
    nodes: int
    strategy: ParallelStrategy
    # Samples of a step, of all ranks together.
    global_batch: int
    # Numbers of pairs after which the session may end; few below the last point.
    looks: tuple[int, ...]
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtraPlan:
    """A measurement beside the points, at one number of ranks."""

    kind: Extra
    ranks: int
    nodes: int
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StudyPlan:
    """A study's declaration; points in the order of their ranks, then as strategies were typed."""

    site: str
    image_sha256: str
    recipe: str
    workload: str
    precision: str
    scaling: Scaling
    one_allocation: bool
    points: tuple[PointPlan, ...]
    extras: tuple[ExtraPlan, ...]
    created: str
    version: str
    # What else was typed for all points: optimizer, device, steps, threads, launcher, ...
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmSteps:
    """One arm at a point: a value for each launch, in the order of pairs; seconds a step."""

    # The slowest rank's wall time over its steps: what the job waits for.
    step_s: tuple[float, ...]
    # Of each launch, each rank's own step while nobody talks (ranks in their order); empty where
    # the strategy can't train without talking, or nothing was recorded.
    apart_s: tuple[tuple[float, ...], ...]
    # Of each launch, what a step waited for its samples (mean of ranks); 0 for noise.
    input_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredPoint:
    """A point with what was measured: arms by their names, the reference arm first."""

    plan: PointPlan
    arms: Mapping[str, ArmSteps]
    complete: bool
    # Compute was a sleep, or more ranks than cores: such figures tell of communication alone.
    emulated: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One row of a collectives session: the median seconds of an operation of so many bytes."""

    operation: str
    ranks: int
    nodes: int
    bytes: int
    arm: str
    least_s: float
    median_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleNeighbours:
    """Seconds a step of ranks that train side by side and never talk: a value for each launch.

    It is the mean of the ranks: nobody waits for the slowest one.
    """

    ranks: int
    arm: str
    step_s: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredStudy:
    """A study with its points; `digest` is the SHA-256 of the declaration and of all sessions."""

    folder: Path
    plan: StudyPlan
    points: tuple[MeasuredPoint, ...]
    messages: tuple[Message, ...]
    idle_neighbours: tuple[IdleNeighbours, ...]
    digest: str
    # gloo, nccl, ...; empty where no session has it.
    backend: str = ""
    # Of the whole network, as a rank counted them; None where no session says it.
    counted_parameters: int | None = None

    @property
    def parameters(self) -> int | None:
        """Return the network's parameters: counted, else published, else None."""
        published = NETWORKS.get(self.plan.workload)
        return self.counted_parameters or (published.parameters if published else None)
