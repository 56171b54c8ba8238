"""What a probe tells the analysis and the report about a session: plain values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Better = Literal["less", "more"]
# What a reader of a report asks first.
TRAINING, START = "Does training run as fast?", "Does it start as fast?"
# The figure that is judged where launches have rows: the geometric mean of their medians.
ROWS_METRIC = "rows_s"
# How the raw values of a launch become its figure; of several ranks the largest one counts, but for
# a rate, which is all ranks' work over the time of the slowest.
Statistic = Literal["total", "mean", "median", "p95", "largest", "rate", "geometric mean"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One figure of a launch.

    `name` is `wall_s` or a key of a sample's values; a dot leads into nested values. Without a
    `margin` the figure is shown and never judged. `equivalence` is whether EQUIVALENT may be said.
    A further figure with an `endpoint`, its name in words, has a verdict of its own beside the
    first one's, within the session's margin; `blind` says what it does not see.
    """

    name: str
    unit: str
    better: Better = "less"
    statistic: Statistic = "total"
    margin: float | None = None
    equivalence: bool = True
    endpoint: str = ""
    blind: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class DerivedFigure:
    """A figure that follows from a row's parameters and its seconds, with unit and direction.

    `of` gives None where it has no meaning for a row.
    """

    name: str
    unit: str
    better: Better
    of: Callable[[Mapping[str, str | int], float], float | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Roofline:
    """How rows are drawn under the machine's roof: their operations, and the bytes that must move.

    The largest row of the kernel `peak` gives the roof of its precision, the best of the kernels
    `streams` the bandwidth. Rows have the parameters kernel, precision and threads.
    """

    operations: Callable[[Mapping[str, str | int]], float | None]
    least_bytes: Callable[[Mapping[str, str | int]], float | None]
    peak: str
    streams: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeTable:
    """A table of the probe's own in the report of a session; `companion` is another, below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    companion: "ProbeTable | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartPoint:
    """A point of a chart; `hint` is shown when it is pointed at."""

    x: float
    y: float
    hint: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChartLine:
    """A line of a chart: one side's points. Lines of one name have one colour."""

    name: str
    is_candidate: bool
    points: tuple[ChartPoint, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A figure of the probe's own in the report: lines over one axis, units in the axes' names.

    With `log` both axes are logarithmic.
    """

    title: str
    caption: str
    across: str
    up: str
    lines: tuple[ChartLine, ...]
    log: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Traits:
    """A probe's figures and words for one session; the first metric has the verdict.

    `subject` begins a sentence ("Importing torch takes ..."), `task` follows "the time of".
    `unsaid` is added to what a session says nothing about. `question` is what a reader asks first
    and such a session answers; empty where it answers none.
    """

    metrics: tuple[Metric, ...]
    subject: str
    task: str
    unsaid: str = ""
    question: str = ""
    section: ProbeTable | None = None
    derived: tuple[DerivedFigure, ...] = ()
    roofline: Roofline | None = None
    charts: tuple[Chart, ...] = ()
    # The phase with which the wall time of a launch ends; empty where the probe times itself.
    ends_at: str = ""

    @property
    def equivalence(self) -> bool:
        """Whether EQUIVALENT may be a verdict."""
        return self.metrics[0].equivalence
