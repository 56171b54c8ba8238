"""What a job session's file holds: JSON lines, chained by hashes as a session's are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from dlcontainer.bench.samples import launch_order
from dlcontainer.bench.samples.declared_file import DeclaredFile
from dlcontainer.bench.samples.launch_order import LaunchCounts, ScheduledPair
from dlcontainer.bench.samples.records import Json

SCHEMA = "dlcontainer/job/1"
_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)
Seconds = Annotated[float, Field(ge=0)]
Side = Literal["native", "container"]
SIDES: tuple[Side, Side] = ("native", "container")
# The phases of a job from its first instruction on, in their order; together they are all of it.
PHASES = ("start_s", "steady_s", "teardown_s")


# A step ends where a line of the output matches, or where an optimizer of PyTorch has stepped.
StepSource = Literal["output", "optimizer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepDeclaration:
    """How steps are seen and judged, settled before the first job.

    Of each process the first `warm_up` steps are left out; of the rest, `fewest` or more, the mean
    time from step to step counts. `margin` is the share of it that does not matter.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    source: StepSource
    mark: str | None
    warm_up: Annotated[int, Field(ge=1)]
    fewest: Annotated[int, Field(ge=2)]
    margin: Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDeclaration:
    """What was settled before the first job; `scripts` are the arms' as they are submitted.

    `replace` jobs that the scheduler lost for a cause outside of the job are launched again.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    command: tuple[str, ...]
    first_step: str | None
    pairs: Annotated[int, Field(ge=1)]
    seed: int
    margin_s: Annotated[float, Field(gt=0)]
    nodes: int | None
    tasks_per_node: int | None
    replace: Annotated[int, Field(ge=0)]
    site: str
    scheduler: str
    image: Mapping[str, Json]
    native: Mapping[str, Json]
    scripts: Mapping[Side, str]
    # None where steps were not asked for, and in files of releases before 0.11.
    steps: StepDeclaration | None = None

    # Left out of the digest where it is None: a declaration of old has the digest that it had.
    may_be_missing: ClassVar[tuple[str, ...]] = ("steps",)

    @property
    def order(self) -> tuple[ScheduledPair, ...]:
        """The pairs in the order that the seed draws."""
        stages = launch_order.plan_stages(
            looks=(self.pairs,), counts=LaunchCounts(), seed=self.seed
        )
        return tuple(pair for stage in stages for pair in stage if isinstance(pair, ScheduledPair))


@dataclass(frozen=True, kw_only=True, slots=True)
class JobHeader:
    """The first line."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    declared: JobDeclaration
    declared_sha256: str
    machine: Mapping[str, Json]
    started: str
    dlcontainer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTimes:
    """One rank, in seconds since the job's first instruction; None for what it never did."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: int
    node: str
    clock_s: float
    process_s: float | None
    first_s: float | None
    last_s: float | None
    matches: int
    ended_s: float
    code: int
    # What it could use; None in files of releases before 0.9.
    cpus: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPhases:
    """One job in seconds: the queue apart, then phases whose sum is `total_s`.

    `launcher_s` and `process_s` are the parts of the start-up until the last rank was reached, and
    until its command's own process began; `step_s` is a step's median over ranks. The clocks of
    nodes agree within `clock_bound_s`, after they were moved by `clock_moved_s`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    queue_s: Seconds
    launcher_s: Seconds
    process_s: Seconds
    start_s: Seconds
    steady_s: Seconds
    teardown_s: Seconds
    total_s: Seconds
    step_s: float | None
    clock_bound_s: Seconds
    clock_moved_s: Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessSteps:
    """One process's steps: all of them, and seconds from step to step of those that count."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: int | None
    node: str
    steps: Annotated[int, Field(ge=0)]
    counted: Annotated[int, Field(ge=0)]
    mean_s: Seconds
    median_s: Seconds
    longest_s: Seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSteps:
    """A job's steps: the median of its processes' means, or the reason why there is none."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    mean_s: Annotated[float, Field(gt=0)] | None
    steps: Annotated[int, Field(ge=0)]
    processes: tuple[ProcessSteps, ...]
    reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLaunch:
    """One job: of a pair, or a warm-up (pair 0); `lost` to a cause outside of it, or failed."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    pair: Annotated[int, Field(ge=0)]
    side: Side
    started: str
    job: str
    state: str
    nodes: tuple[str, ...]
    times: JobPhases | None
    ranks: tuple[RankTimes, ...] = ()
    steps: JobSteps | None = None
    load_1min: float = 0.0
    error: str | None = None
    lost: bool = False
    output: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSession(DeclaredFile[JobHeader, JobLaunch]):
    """A whole file, read."""

    @property
    def declared(self) -> JobDeclaration:
        """What was settled before the first job."""
        return self.header.declared

    def pairs(self) -> Mapping[int, Mapping[Side, JobLaunch]]:
        """Return the pairs of which both jobs ended well, by number in the order of the file."""
        return whole_pairs(self.launches)


def whole_pairs(
    launches: tuple[JobLaunch, ...] | list[JobLaunch],
) -> dict[int, dict[Side, JobLaunch]]:
    """Return whole pairs: of a pair that was measured again the last one holds."""
    groups: list[tuple[int, dict[Side, JobLaunch]]] = []
    for launch in launches:
        if not groups or groups[-1][0] != launch.pair or launch.side in groups[-1][1]:
            groups.append((launch.pair, {}))
        groups[-1][1][launch.side] = launch
    return {
        number: sides
        for number, sides in groups
        if number and len(sides) == 2 and all(x.times is not None for x in sides.values())
    }
