"""What a trace says, as `trace.json` holds it. Seconds, bytes; times of a step since its begin."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from dlcontainer.bench.trace.watch.watch_records import JobWatch, RankDoing, WaitCause
from dlcontainer.config.field_types import Sha256
from dlcontainer.errors import BenchDataError

SCHEMA = "dlcontainer/trace/1"
_OURS = ConfigDict(extra="forbid", allow_inf_nan=False)
Seconds = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
SideName = Literal["native", "container"]
# Of a job whose end is no failure, as bench/job/traced_job.py says it.
GOOD = "ended"
# A program of MPI is told from the end of these on.
MPI_STARTS = ("MPI_Init", "MPI_Init_thread")
Activity = Literal["computing", "waiting", "transfer"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceOverhead:
    """What tracing costs a step: a ratio with its 95 % interval, or why none can be told."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    steps: Count = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectiveRow:
    """A kind of collective and its size: how often a rank did it, and what all of that took.

    Seconds are means over the ranks. `waiting_s` is the part of `exposed_s` until the last rank
    came; None where ranks could not be joined.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    kind: str
    bytes: Count | None
    calls: float
    in_flight_s: Seconds
    hidden_s: Seconds
    exposed_s: Seconds
    waiting_s: Seconds | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankRow:
    """A rank's time over the traced steps; its parts are all of it.

    `waiting_for` has seconds by the rank that came last; `exposed_s` is communication beside which
    the rank did not compute, without that waiting; `other_s` is outside of operations.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: Count
    node: str
    total_s: Seconds
    computing_s: Seconds
    waiting_for: Mapping[int, Seconds]
    exposed_s: Seconds
    other_s: Seconds
    hidden_s: Seconds
    spans: Count
    collectives: Count
    left_out: Count = 0
    coarse_s: Seconds = 0.0
    # In OTF2, where there is one.
    archived: Count = 0
    archived_not: Count = 0
    write_s: Seconds = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRank:
    """A rank without a profile, and what is known of it."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: Count
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TracedClock:
    """A node's clock: by how much it was moved, and within what it is right; None: not known."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    node: str
    moved_s: float
    bound_s: Seconds | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PathPart:
    """A part of a critical path: a rank's own time, or a collective or call (`rank` None)."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: int | None
    collective: str = ""
    seconds: Seconds
    computing_s: Seconds = 0.0
    other_s: Seconds = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineBar:
    """What a rank did for a while of the slowest step; `of` is the rank that it waited for."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    activity: Activity
    begin_s: Seconds
    end_s: Seconds
    of: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankTimeline:
    """What each rank did over a length of time."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    seconds: Seconds
    bars: Mapping[int, tuple[TimelineBar, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowestStep:
    """The step that took longest: its critical path from begin to end, and each rank's bars."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    step: Count
    seconds: Seconds
    path: tuple[PathPart, ...]
    bars: Mapping[int, tuple[TimelineBar, ...]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgramPath:
    """The critical path of a program of MPI: from a rank's MPI_Init to the end of the last rank.

    A part's `computing_s` is outside of MPI. `left_out` parts are shorter than all of `parts`;
    `sums` are of all parts, a row for each rank and each call that was waited in, longest first.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    seconds: Seconds
    parts: tuple[PathPart, ...]
    left_out: Count = 0
    left_out_s: Seconds = 0.0
    sums: tuple[PathPart, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiRankRow:
    """A rank of a program of MPI, from the end of its MPI_Init on; its parts are all of that.

    Computing is outside of MPI. `ended` is how its calls end; beyond its events `left_out` calls
    are in sums alone.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rank: Count
    node: str
    program: str
    total_s: Seconds
    computing_s: Seconds
    waiting_for: Mapping[int, Seconds]
    transfer_s: Seconds
    calls: Count
    left_out: Count = 0
    # In OTF2, where there is one.
    archived: Count = 0
    ended: Literal["finalize", "exit", "abort", "cut"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiCallRow:
    """A call of MPI and its size, over all ranks: how often, how long, and of that the waiting.

    `bytes` None: it has none, or these are calls beyond those with an event.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    kind: str
    bytes: Count | None
    calls: Count
    seconds: Seconds
    waiting_s: Seconds | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiWorld:
    """An MPI_COMM_WORLD of a job; `apart` calls have no counterpart at another rank.

    `doings` and `causes` are of its ranks, where their processes were watched. `path` is None where
    a rank is missing, or it is not told who waits for whom.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    program: str
    library: str
    size: Count
    ranks: tuple[MpiRankRow, ...]
    missing: tuple[int, ...]
    calls: tuple[MpiCallRow, ...]
    apart: Count
    reason: str = ""
    doings: tuple[RankDoing, ...] = ()
    causes: tuple[WaitCause, ...] = ()
    timeline: RankTimeline | None = None
    path: ProgramPath | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MpiTrace:
    """What a job's programs did in MPI; `reasons` say why processes have no calls."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    worlds: tuple[MpiWorld, ...] = ()
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class NoTrace:
    """Why a side has neither steps nor calls of MPI, and what to do."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    what: str
    why: str
    next_step: str

    def error(self, where: Path) -> BenchDataError:
        """Return it as an error."""
        return BenchDataError(self.what, where=str(where), why=self.why, next_step=self.next_step)


@dataclass(frozen=True, kw_only=True, slots=True)
class SideTrace:
    """What the trace of one side says; `ended` is how its job ended, `archive` its OTF2.

    `image_sha256` is of the image that it ran in: None for native, and in older files. Where it is
    not known when ranks computed, `computing_s` and `hidden_s` are 0, and `other_s` has it all.
    `slowest` is None, and there are no ranks, where nothing trained by PyTorch. `watch` is of all
    processes of the job.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    side: SideName
    image_sha256: Sha256 | None = None
    ended: str
    overhead: TraceOverhead
    steps: Count
    is_computing_known: bool = True
    ranks: tuple[RankRow, ...]
    missing: tuple[MissingRank, ...]
    collectives: tuple[CollectiveRow, ...]
    clocks: tuple[TracedClock, ...]
    slowest: SlowestStep | None
    mpi: MpiTrace | None = None
    notes: tuple[str, ...] = ()
    archive: str | None = None
    files: tuple[str, ...] = ()
    watch: JobWatch | None = None
    no_trace: NoTrace | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTrace:
    """A whole trace: the command, and each side's."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    created: str
    dlcontainer: str
    site: str
    image: str | None
    command: tuple[str, ...]
    sides: Annotated[tuple[SideTrace, ...], Field(min_length=1)]
