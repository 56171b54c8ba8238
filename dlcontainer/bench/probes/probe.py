"""A probe as a session, a report and the command line see it: docs/extend/add-a-probe.md.

Cheap to import: the command line reads all probes before it knows which command was given.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage, lends_nothing
from dlcontainer.bench.samples.traits import (
    ROWS_METRIC,
    Chart,
    DerivedFigure,
    Metric,
    ProbeTable,
    Roofline,
    Traits,
)
from dlcontainer.bench.samples.vocabulary import NativeAs
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series

# The judged figure's margin; those of further figures are their own.
MARGIN = 0.02
MEMORY = Metric(name="counts.max_rss_mb", unit="MB", statistic="largest", margin=0.05)
# Of probes whose rows are shown: the whole of them is judged.
ROWS_METRICS = (
    Metric(name=ROWS_METRIC, unit="s", statistic="geometric mean", margin=0.05),
    Metric(name="wall_s", unit="s"),
    MEMORY,
)
# What --device takes, by PyTorch's words: GPUs of NVIDIA and AMD are cuda; the probe's own list.
DEVICES = ("cpu", "cuda", "xpu", "xla")
# Steps of a launch fill as many seconds where their number was not given.
STEADY_S = 10.0

Value = str | int | float | bool | None
Values = Mapping[str, Value]


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """A parameter of a probe, and the option `--name` of its command.

    The unit stands in `help`. With `choices` the value is one of these words. The commands of
    other probes refuse the option; `ignored` is for options that they have always accepted.
    """

    name: str
    help: str
    kind: type[str] | type[int] | type[float] | type[bool] = str
    default: Value = None
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    elsewhere: Literal["refused", "ignored"] = "refused"

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"


# For probes that repeat a step; the probe then reports the time of each as `steps_s`.
STEPS = Option(
    name="steps",
    kind=int,
    metavar="K",
    least=1,
    help="Number of steps in a launch. Default: as many as take 10 s.",
)
# For probes whose steps can be had in turns, by processes that stay.
UNIT = Option(
    name="unit",
    choices=("groups", "launches"),
    help="Measure in groups (processes of both arms stay alive and take turns) or in launches "
    "(each sample is a new process). Default: groups where they can run.",
)
GROUP = Option(
    name="group",
    kind=int,
    metavar="N",
    default=2,
    least=2,
    help="Number of processes of each arm in a group, 2 to 4. Default: 2.",
)
# For probes with a smaller set of rows: with it a session is one look at 8 pairs, no controls.
QUICK = Option(
    name="quick",
    kind=bool,
    help="Measure a small set: two minutes on two cores, plus the time to make the native side.",
)
# For probes whose time is that of reading files.
NATIVE_AS = Option(
    name="native_as",
    choices=get_args(NativeAs),
    default="tree",
    help="Form of the native tree: unchanged (tree), copied to this node (staged), copied with a "
    "module pack (packed), or packed into one SquashFS (squashfs). Default: tree.",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuiteOptions:
    """How a probe takes part in `bench suite`: its ranks, 0 for single processes.

    A probe that takes longer than some minutes is in no quick suite.
    """

    ranks: int = 0
    quick: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeSubject:
    """The image that is measured: its file's name, its recipe, the modules that this verifies."""

    image: str
    recipe: str
    modules: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterContext:
    """What parameters may depend on; `begun` is the declaration of a session that goes on."""

    contents: ProbeSubject
    begun: "SessionDeclaration | None" = None
    # 0: launches are single processes.
    ranks: int = 0

    @property
    def is_ranked(self) -> bool:
        """Whether a launch is several ranks."""
        return self.ranks > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeCell:
    """One cell to launch: the settled parameters, the steps (0 where there are none), threads.

    `ranks` is 0 where a launch is a single process; `is_warmup`: its times don't count.
    """

    values: Values
    threads: int
    steps: int = 0
    ranks: int = 0
    is_warmup: bool = False


def given_or_default(
    options: Sequence[Option], typed: Values, setting: ParameterContext
) -> dict[str, Value]:
    """Settle each parameter: as typed, else as a session that goes on has it, else the default."""
    begun = setting.begun
    before: dict[str, Any] = dict(begun.workload) if begun else {}
    # Steps that were settled by their time are settled so again.
    settled_by_time = before.get("steady_s") or (begun and begun.groups)
    before[STEPS.name] = begun.steps if begun and not settled_by_time else None
    settled: dict[str, Value] = {}
    for option in options:
        value = typed.get(option.name)
        value = before.get(option.name) if value is None else value
        settled[option.name] = option.default if value is None else value
    return settled


def as_options(values: Values) -> tuple[str, ...]:
    """Write values as options of the program inside the image; None and False are left out."""
    words: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return tuple(words)


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    repeated = {STEPS.name: cell.steps} if cell.steps else {}
    return as_options({**_work(cell), **repeated})


def _work(cell: ProbeCell) -> "dict[str, Any]":
    session_wide = (STEPS.name, NATIVE_AS.name, UNIT.name, GROUP.name)
    return {name: value for name, value in cell.values.items() if name not in session_wide}


def _no_rows(_cell: ProbeCell) -> "RowPlan | None":
    return None


def _no_phases(_stamps: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_problem(_reports: Sequence[Mapping[str, Any]]) -> str:
    return ""


def _nothing(_declared: "SessionDeclaration") -> str:
    return ""


def _no_derived(_declared: "SessionDeclaration") -> Sequence[DerivedFigure]:
    return ()


def _no_section(_series: "Series") -> ProbeTable | None:
    return None


def _no_charts(_series: "Series") -> Sequence[Chart]:
    return ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One thing to measure: `bench NAME`, run inside an image by its file probe_NAME.py.

    The first metric is judged: seconds, less is better. Time ends at the stamp `ends_at`; without
    it the probe itself reports `wall_s`. `phases` names the probe's stamps in their order. `gate`
    says what is wrong with the reports of a launch's ranks. `joins` measures ranks that share a
    mount as well.
    """

    name: str
    summary: str
    metrics: tuple[Metric, ...]
    subject: "Callable[[SessionDeclaration], str]"
    task: "Callable[[SessionDeclaration], str]"
    unsaid: str = ""
    # What a reader asks first and its sessions answer: samples/traits has the questions.
    question: str = ""
    # What else, by what was declared.
    unsaid_of: "Callable[[SessionDeclaration], str]" = _nothing
    options: tuple[Option, ...] = ()
    # Parameters from what was typed; None: as typed, as declared before, or the default.
    settle: Callable[[Values, ParameterContext], Values] | None = None
    arguments: Callable[[ProbeCell], Sequence[str]] = _arguments
    # What of a cell is part of the declaration, threads and ranks apart.
    declared: "Callable[[ProbeCell], Mapping[str, Json]]" = _work
    # Folders that all launches share, made before the first one and taken away after the last.
    lends: Callable[[Values, SharedStorage], AbstractContextManager[Sequence[SharedFolder]]] = (
        lends_nothing
    )
    # Variables that are set in all arms, besides the image's own.
    environment: Mapping[str, str] = field(default_factory=dict)
    phases: Callable[[Mapping[str, Any]], Sequence[str]] = _no_phases
    ends_at: str | None = None
    gate: Callable[[Sequence[Mapping[str, Any]]], str] = _no_problem
    # Relative; None where nothing is trained and launches have no loss curves.
    loss_tolerance: float | None = None
    joins: bool = False
    # What each launch measures row by row; the judged figure is then samples/rows' METRIC.
    rows: "Callable[[ProbeCell], RowPlan | None]" = _no_rows
    # Further columns of the table of rows.
    derived: "Callable[[SessionDeclaration], Sequence[DerivedFigure]]" = _no_derived
    # Rows that compute are drawn under the machine's roof.
    roofline: Roofline | None = None
    section: "Callable[[Series], ProbeTable | None]" = _no_section
    in_suite: SuiteOptions = SuiteOptions()
    # Why its launches are single processes, in words; empty: --ranks is taken, from so many on.
    alone: str = ""
    least_ranks: int = 0
    # Of a launch, unless --threads says; None: all cores.
    threads: int | None = None
    # Figures of its own in the report.
    charts: "Callable[[Series], Sequence[Chart]]" = _no_charts
    # The file's name in images that were built when it had another one.
    earlier_file: str | None = None

    def __post_init__(self) -> None:
        judged = self.metrics[0]
        if judged.unit != "s" or judged.better != "less" or judged.margin is None:
            raise ValueError(f"{self.name}: the judged figure is in seconds, with a margin")

    @property
    def file(self) -> str:
        """The name of its file inside images."""
        return f"probe_{self.name}.py"

    @property
    def repeats(self) -> bool:
        """Whether a launch is steps, whose number is settled so that they fill some seconds."""
        return STEPS in self.options

    def margins(self, session: float | None) -> dict[str, float]:
        """Return the further figures that are judged, with their margins.

        Where a session has a margin of its own, endpoints have that one.
        """
        judged = {m.name: m.margin for m in self.metrics[1:] if m.margin is not None}
        margins = {m.name: session for m in self.metrics[1:] if m.endpoint and session is not None}
        return judged | margins

    def values(self, typed: Values, setting: ParameterContext) -> Values:
        """Settle the parameters; raises UsageError or ChecksFailedError for what cannot be."""
        self.check_ranks(setting.ranks)
        if self.settle is not None:
            return self.settle(typed, setting)
        return given_or_default(self.options, typed, setting)

    def check_ranks(self, ranks: int) -> None:
        """Refuse launches of so many ranks (0: single processes) that it can't measure."""
        if ranks and self.alone:
            raise UsageError(f"bench {self.name}: {self.alone}", next_step="leave --ranks out")
        if ranks < self.least_ranks:
            raise UsageError(
                f"bench {self.name} needs at least {self.least_ranks} ranks",
                next_step=f"set the number of ranks: --ranks {self.least_ranks}",
            )

    def words(self, cell: ProbeCell) -> tuple[str, ...]:
        """Return what follows the probe's folder on the command line inside an arm."""
        return (self.name, *self.arguments(cell))

    def traits(self, series: "Series") -> Traits:
        """Return what the analysis and the report of a session are handed."""
        declared = series.session.declared
        return Traits(
            metrics=self.metrics,
            subject=self.subject(declared),
            task=self.task(declared),
            unsaid=self.unsaid + self.unsaid_of(declared),
            question=self.question,
            section=self.section(series),
            derived=tuple(self.derived(declared)),
            roofline=self.roofline,
            charts=tuple(self.charts(series)),
            ends_at=self.ends_at or "",
        )
