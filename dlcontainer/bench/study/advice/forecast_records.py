"""What a forecast answers: does it fit, how fast, how many, what next. Plain values, as written."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, RulingInput, Spread
from dlcontainer.bench.study.advice.how_many import RanksAdvice
from dlcontainer.bench.study.forecast.next_step import NextStep
from dlcontainer.bench.study.study_records import Scaling

SCHEMA = "dlcontainer/forecast/1"
# A later version may write more than this one knows.
_OURS = ConfigDict(extra="ignore", allow_inf_nan=False)

# What one rank is, in the hours that a centre counts.
Device = Literal["gpu", "cpu"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOutStrategy:
    """A strategy, as it was typed, that is no candidate at so many ranks; why names the number.

    `command`: the measurement without which it can't be forecast.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    strategy: str
    ranks: int
    why: str
    command: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitRow:
    """Bytes of the rank that holds most, by part; `word` is empty where no limit was given.

    not told: the limit is nearer than the forecast's error. reserve: declared beside the tensors,
    the device's context and buffers of the collective library; 0 without a limit.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    strategy: str
    ranks: int
    parts: Mapping[str, float]
    reserve: float
    word: Literal["fits", "does not fit", "not told", ""]
    source: str

    @property
    def bytes(self) -> float:
        """Return all bytes, with the reserve."""
        return sum(self.parts.values()) + self.reserve


@dataclass(frozen=True, kw_only=True, slots=True)
class FitAnswer:
    """Does it fit? `unknown` says why that is not known, and `command` the one that would tell."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    limit: float | None
    rows: tuple[FitRow, ...] = ()
    refused: tuple[LeftOutStrategy, ...] = ()
    unknown: str = ""
    command: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedRow:
    """A strategy at so many ranks, with intervals of 90 %."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    strategy: str
    ranks: int
    nodes: int
    global_batch: int
    step_s: Spread
    efficiency: Spread
    # Samples of an hour of one GPU, or of one core.
    samples_an_hour: Spread
    # Seconds of the middle draw, by term.
    terms: Mapping[str, float]
    # The largest term beside compute.
    term: str
    is_measured: bool
    input: RulingInput | None
    # The measurement that would tell the ruling input.
    command: str
    # Why the interval is wider than the inputs make it.
    widened: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedAnswer:
    """How fast? `unknown` says why nothing is known; at the advised number `equals` lists pairs."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    rows: tuple[SpeedRow, ...] = ()
    # Strategies that are not told apart from the quickest, by number of ranks.
    equals: Mapping[int, tuple[str, ...]]
    # Where the model misses the last measured point.
    misses: tuple[str, ...] = ()
    unknown: str = ""
    command: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRow:
    """What hours buy at one number of ranks."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    ranks: int
    strategy: str
    hours: float
    wall_hours: float
    samples: Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class ManyAnswer:
    """How many? The advice, the strategy at its number, and what a budget buys there."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    advice: RanksAdvice | None
    strategy: str = ""
    budget: tuple[BudgetRow, ...] = ()
    unknown: str = ""
    # Of which points the advice is, where it is not of all.
    remark: str = ""


@dataclass(frozen=True, slots=True)
class PointName:
    """A strategy at so many ranks."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    strategy: str
    ranks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredEnd:
    """The first or the last point that a forecast was made of."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    strategy: str
    ranks: int
    global_batch: int
    step_s: Spread


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceSource:
    """The trace that gradients are taken from, as it was typed: one side's, so many steps of it."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    origin: str
    sha256: str
    side: str
    steps: int
    ranks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastSubject:
    """What is forecast: of what it is made, and what it may be compared with."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    # A study's folder or a facts file, as it was typed, and its digest.
    origin: str
    digest: str
    kind: Literal["study", "facts"]
    network: str
    machine: str
    device: Device
    scaling: Scaling
    # Cores of a rank where hours are of cores; 1 for a GPU.
    units_per_rank: int = 1
    arm: str = ""
    image_sha256: str = ""
    workload: str = ""
    precision: str = ""
    # The points that the forecast was made of.
    calibrated_on: tuple[PointName, ...] = ()
    # Mean seconds a step at the fewest ranks and at the last point, with 90 % intervals.
    first: MeasuredEnd | None = None
    last: MeasuredEnd | None = None
    # None: no trace was given.
    trace: TraceSource | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """A forecast: inputs with their sources, then the answers in their order."""

    __pydantic_config__: ClassVar[ConfigDict] = _OURS

    subject: ForecastSubject
    created: str
    version: str
    seed: int
    draws: int
    inputs: tuple[DrawnInput, ...]
    left_out: tuple[LeftOutStrategy, ...]
    fit: FitAnswer
    speed: SpeedAnswer
    many: ManyAnswer
    # None where no measurement shows it.
    next_step: NextStep | None
    notes: tuple[str, ...] = ()
