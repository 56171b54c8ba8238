"""`bench threads`: which number of threads, and which kernel library, is best for which kernel."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer.bench.probes import kernel_shapes, kernels
from dlcontainer.bench.probes.kernels import ROUNDS, Row
from dlcontainer.bench.probes.probe import (
    QUICK,
    ROWS_METRICS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    Values,
    given_or_default,
)
from dlcontainer.bench.samples.traits import ProbeTable
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName
    from dlcontainer.bench.stats.best import BestSetting
    from dlcontainer.bench.stats.paired import Interval

# The probe's own words: with "without oneDNN" it is switched off around the call.
LIBRARIES = ("oneDNN", "without oneDNN")
_LAYERS = ("BERT-base feed-forward in", "ResNet-50 conv2_x 3x3", "ResNet-50 conv5_x 1x1")
_QUICK_LAYERS = _LAYERS[:2]
# Samples of a convolution: of one alone both libraries are as fast, of a batch they are not.
_BATCH = "mb8"
_ROUNDS, _QUICK_ROUNDS = 5, 3
_MOST = 4096

_COUNTS = Option(
    name="counts",
    metavar="N,...",
    help="Numbers of threads to measure. Default: 1, 2, 4 ... up to the threads of a launch.",
)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    kernels.require(setting)
    values = given_or_default(THREADS.options, typed, setting)
    quick = bool(values[QUICK.name])
    return {
        _COUNTS.name: _numbers(values[_COUNTS.name]),
        QUICK.name: quick,
        ROUNDS.name: values[ROUNDS.name] or (_QUICK_ROUNDS if quick else _ROUNDS),
    }


def _numbers(choice: object) -> str:
    if not choice:
        return ""
    words = [word.strip() for word in str(choice).split(",")]
    if not all(word.isdecimal() and 1 <= int(word[:9]) <= _MOST for word in words):
        raise UsageError(
            f"{_COUNTS.flag} {choice}: must be numbers of threads from 1 to {_MOST}, separated by "
            "commas",
            next_step=f"give numbers, e.g. {_COUNTS.flag} 32,64,128",
        )
    return ",".join(map(str, sorted({int(word) for word in words})))


def counts(cell: ProbeCell) -> tuple[int, ...]:
    """List the numbers of threads: those asked for, else powers of two and all."""
    choice = cell.values[_COUNTS.name]
    if choice:
        return tuple(map(int, str(choice).split(",")))
    powers = (1 << i for i in range(cell.threads.bit_length()))
    return tuple(sorted({*powers, cell.threads}))


def _listed(cell: ProbeCell) -> list[dict[str, str | int]]:
    layers = _QUICK_LAYERS if cell.values[QUICK.name] else _LAYERS
    return [
        {
            "kernel": kernel,
            "precision": "fp32",
            "layer": shape.layer,
            "shape": shape.shape.replace("mb1", _BATCH, 1),
            "library": library,
            "threads": number,
        }
        for shape in kernel_shapes.SHAPES
        if shape.layer in layers
        for kernel in shape.kernels
        for library in LIBRARIES
        for number in counts(cell)
    ]


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {**cell.values, "framework": kernels.FRAMEWORK, "seed": kernels.SEED}


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    rounds = int(cell.values[ROUNDS.name] or 1)
    return RowPlan(rows=tuple(_listed(cell)), rounds=rounds, curve="threads")


def _section(series: "Series") -> ProbeTable | None:
    declared = series.session.declared
    lines = tuple(
        line
        for arm in declared.arms
        for group in _groups(series)
        for line in _line(series, group, arm)
    )
    if not lines:
        return None
    return ProbeTable(
        title="The best setting",
        head=(
            "kernel", "layer", "arm", "best", "ran", "median, us", "next", "next / best",
            "interval", "how sure",
        ),
        rows=lines,
        note="The setting with the smallest geometric mean of its launches' medians, less is "
        f"better. Sure: all others differ from it, paired by launch, Holm's p over all pairs of "
        f"settings of the kernel at most {declared.alpha:.3g}; otherwise those are named that are "
        "not told apart. The interval is that of the one pair. Threads are set in the process "
        "(torch.set_num_threads), oneDNN is switched off as torch.backends.mkldnn does it.",
    )  # fmt: skip


def _groups(series: "Series") -> list[dict[int, Row]]:
    """Return the rows of each kernel and layer by their numbers: the settings."""
    plan = series.session.declared.rows
    groups: dict[tuple[object, ...], dict[int, Row]] = {}
    for number, row in enumerate(plan.rows if plan else ()):
        key = tuple(row.get(name) for name in ("kernel", "precision", "layer", "shape"))
        groups.setdefault(key, {})[number] = row
    return list(groups.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadChoice:
    """The number of threads that takes the least time over all kernels, of those `measured`.

    `tied` are not told apart from it, `behind` is the ratio of the next best to it. `kernels` are
    counted, `launches` too.
    """

    threads: int
    measured: tuple[int, ...]
    tied: tuple[int, ...]
    next: int
    behind: "Interval"
    kernels: int
    launches: int


def choice(series: "Series", arm: "ArmName") -> ThreadChoice | None:
    """Choose one number of threads for all kernels of a side, with its kernel library as it is.

    By the geometric mean of the kernels' medians in each launch. None where fewer than two numbers
    were measured, or no launch.
    """
    settings: dict[int, list[list[float]]] = {}
    for group in _groups(series):
        as_it_is = {n: row for n, row in group.items() if row.get("library") == LIBRARIES[0]}
        logs = _logs(series, arm, as_it_is)
        for row, column in zip(as_it_is.values(), logs, strict=True):
            settings.setdefault(int(row["threads"]), []).append(column)
    means = [
        [math.fsum(launch) / len(launch) for launch in zip(*columns, strict=True)]
        for columns in settings.values()
    ]
    best = _best(means, series)
    if best is None:
        return None
    numbers = list(settings)
    return ThreadChoice(
        threads=numbers[best.setting],
        measured=tuple(number for i, number in enumerate(numbers) if i != best.setting),
        tied=tuple(sorted(numbers[i] for i in best.tied)),
        next=numbers[best.next],
        behind=best.behind,
        kernels=len(settings[numbers[best.setting]]),
        launches=len(means[0]),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelSetting:
    """A kernel library and a number of threads, as they are set in a process."""

    library: str
    threads: int


def attested(facts: "Mapping[str, Json]") -> KernelSetting | None:
    """Return the setting that a side attests of itself; None where it says no number."""
    number = facts.get(THREADS.name)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        return None
    enabled = facts.get("mkldnn_enabled") is not False
    return KernelSetting(library=LIBRARIES[0 if enabled else 1], threads=number)


def times(series: "Series", arm: "ArmName") -> Mapping[KernelSetting, Sequence[float]]:
    """Return the log of each setting's time over all kernels, a value for each launch of a side."""
    columns: dict[KernelSetting, list[list[float]]] = {}
    for group in _groups(series):
        for row, column in zip(group.values(), _logs(series, arm, group), strict=True):
            setting = KernelSetting(library=str(row.get("library")), threads=int(row["threads"]))
            columns.setdefault(setting, []).append(column)
    return {
        setting: [math.fsum(launch) / len(launch) for launch in zip(*kernels_of, strict=True)]
        for setting, kernels_of in columns.items()
    }


def _logs(series: "Series", arm: "ArmName", numbers: Mapping[int, Row]) -> list[list[float]]:
    """Return the logs of some rows' medians, a value for each launch that was compared."""
    used = series.launches.where(
        lambda kind: kind.ok and kind.arm == arm and kind.role in {"pair", "triple"}
    )
    columns = [series.launches.column(f"rows.{number}.median", used) for number in numbers]
    return [[math.log(value) for value in column] for column in columns]


def _best(logs: Sequence[Sequence[float]], series: "Series") -> "BestSetting | None":
    from dlcontainer.bench.stats import best

    return best.of(logs, series.session.declared.alpha)


def _line(series: "Series", group: Mapping[int, Row], arm: "ArmName") -> Iterator[tuple[str, ...]]:
    logs = _logs(series, arm, group)
    best = _best(logs, series)
    if best is None:
        return
    rows = list(group.values())
    time = math.exp(math.fsum(logs[best.setting]) / len(logs[best.setting]))
    tied = ", ".join(_setting(rows[i]) for i in best.tied)
    behind = best.behind
    yield (
        str(rows[0].get("kernel", "")), str(rows[0].get("layer", "")), arm,
        _setting(rows[best.setting]), kernels.ran(series, arm, rows[best.setting]),
        f"{1e6 * time:.4g}", _setting(rows[best.next]),
        f"{behind.ratio:.3f}", f"[{behind.low:.3f}, {behind.high:.3f}]",
        f"not told apart from: {tied}" if tied else "sure",
    )  # fmt: skip


def _setting(row: Row) -> str:
    return f"{row.get('library', '')} x{row.get('threads', '')}"


THREADS = Probe(
    name="threads",
    summary="Which number of threads and kernel library is best: native against container.",
    metrics=ROWS_METRICS,
    options=(_COUNTS, ROUNDS, QUICK),
    settle=_settled,
    arguments=lambda cell: kernels.words(_listed(cell), cell),
    declared=_declared,
    rows=_rows,
    derived=lambda _declared: kernels.RATES,
    phases=lambda _stamps: ("import", "checked", "libraries", "rows"),
    subject=lambda _declared: "An operation of a network, over numbers of threads,",
    task=lambda _declared: "operations by threads and library",
    unsaid=", whole networks or other shapes",
    section=_section,
    alone=kernels.ALONE,
)
