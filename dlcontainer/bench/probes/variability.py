"""`bench variability`: how the times of equal steps scatter: in a process, over ranks and nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.probe import (
    DEVICES,
    QUICK,
    ROWS_METRICS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import Metric, ProbeTable
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.analysis.steps.step_times import Process
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName
    from dlcontainer.bench.stats.scatter.stragglers import Straggler

# The probe's own words, and the module that each takes; without one it is Python alone.
KERNELS: Mapping[str, str] = {"gemm": "torch", "hash": ""}
_TIMED, _QUICK_TIMED, _LEAST_TIMED = 1000, 200, 100
# Of the slowest hundredth: few steps decide it.
_TAIL_MARGIN = 0.1
# Of more the slowest are shown, and the stragglers.
_MOST_RANKS = 64

_TIMED_STEPS = Option(
    name="timed",
    kind=int,
    metavar="N",
    least=_LEAST_TIMED,
    help=f"Number of steps that each process times, at least {_LEAST_TIMED}. Default: {_TIMED}; "
    f"with --quick {_QUICK_TIMED}.",
)
_KERNEL = Option(
    name="kernel",
    choices=tuple(KERNELS),
    help="Work of a step: a matrix product with PyTorch (gemm), or SHA-256 with Python (hash). "
    "Default: gemm where the image has PyTorch.",
)
_DEVICE = Option(
    name="device",
    choices=DEVICES,
    default="cpu",
    help="Device to compute on: cpu, cuda (NVIDIA, AMD), xpu (Intel) or xla (TPU). Default: cpu.",
    elsewhere="ignored",
)
_WATCH = Option(
    name="watch",
    kind=bool,
    help="Sample load, clocks, power and memory of processors and GPUs during the steps; the "
    "sampling cost is reported.",
)
# What the probe reads, and its unit.
WATCHED = {
    "processor_used": "%",
    "processor_mhz": "MHz",
    "processor_w": "W",
    "gpu_used": "%",
    "gpu_mhz": "MHz",
    "gpu_w": "W",
    "gpu_memory_mb": "MB",
    "watch_cost": "% of a processor",
}


def _settled(typed: Values, setting: ParameterContext) -> Values:
    values = given_or_default(VARIABILITY.options, typed, setting)
    modules = setting.contents.modules
    usual = next(name for name, module in KERNELS.items() if not module or module in modules)
    kernel, quick = str(values[_KERNEL.name] or usual), bool(values[QUICK.name])
    module = KERNELS[kernel]
    if module and module not in modules:
        raise UsageError(
            f"--kernel {kernel} needs {module}; the recipe {setting.contents.recipe} "
            f"verifies {', '.join(modules) or 'no module'}",
            next_step=f"use --kernel hash, or an image whose recipe has {module} in verify.imports",
        )
    if not module and values[_DEVICE.name] != _DEVICE.default:
        raise UsageError(
            f"--kernel {kernel} runs on CPUs only, not with {_DEVICE.flag} {values[_DEVICE.name]}",
            next_step=f"leave out {_DEVICE.flag}, or use an image with PyTorch",
        )
    return {
        _KERNEL.name: kernel,
        _DEVICE.name: values[_DEVICE.name],
        _TIMED_STEPS.name: values[_TIMED_STEPS.name] or (_QUICK_TIMED if quick else _TIMED),
        QUICK.name: quick,
        **({_WATCH.name: True} if values[_WATCH.name] else {}),
    }


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    names = (_KERNEL.name, _DEVICE.name, _TIMED_STEPS.name, _WATCH.name)
    arguments = {name: cell.values.get(name) for name in names}
    return as_options({**arguments, "threads": cell.threads})


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return dict(cell.values)


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    row: dict[str, str | int] = {
        "kernel": str(cell.values[_KERNEL.name]),
        "device": str(cell.values[_DEVICE.name]),
        "threads": cell.threads,
    }
    return RowPlan(rows=(row,), rounds=1)


def _section(series: "Series") -> ProbeTable | None:
    from dlcontainer.bench.analysis.steps import step_times
    from dlcontainer.bench.stats.scatter.stragglers import BOUND, LEAST

    processes = {arm: of_arm for arm, of_arm in step_times.of(series).items() if of_arm}
    arms = tuple(processes)
    if len(arms) < len(series.session.declared.arms):
        return None
    return ProbeTable(
        title="How steps scatter",
        head=("figure", "unit", *arms, f"{arms[-1]} / {arms[0]}"),
        rows=(*_figures(processes), *_scatter(processes), *_by_rank(processes)),
        note="Of a process the median of its steps, and its slow tail, the 99th percentile over "
        "the median; here the median of all processes. Less is better of all. The scatter is that "
        "of the logs of all steps, as standard deviations in % of the time (nested analysis of "
        "variance, docs/measure/variability.md); few groups ('from') tell little. A straggler is a "
        f"rank whose median lies above the others' by more than {100 * LEAST:.0f} % and "
        f"{BOUND:.0f} scaled median deviations of their launches. {_named(processes)}",
        companion=_watched(series),
    )


def _watched(series: "Series") -> ProbeTable | None:
    """Return what was read beside the steps; None where nothing was."""
    from math import fsum

    if not series.session.declared.workload.get(_WATCH.name):
        return None
    arms = series.session.declared.arms
    used = [s for s in series.samples if s.ok and s.role in {"pair", "triple"}]
    lines = []
    for name, unit in WATCHED.items():
        cells = []
        for arm in arms:
            readings = [s.figure(f"counts.{name}") for s in used if s.arm == arm]
            numbers = [value for value in readings if value is not None]
            mean = f"{fsum(numbers) / len(numbers):.4g}" if numbers else "-"
            cells.append(f"{mean} ({min(numbers):.4g} to {max(numbers):.4g})" if numbers else mean)
        if any(cell != "-" for cell in cells):
            lines.append((name.replace("_", " "), unit, *cells))
    return ProbeTable(
        title="Beside the steps",
        head=("figure", "unit", *arms),
        rows=tuple(lines),
        note="Read ten times a second by a thread of each process; the mean of a launch (of ranks "
        "the largest, of several GPUs the busiest), over launches, with their range. Processors: "
        "those that the process may use. What this machine does not show is left out. Reading "
        "takes its share of the processor from the steps, on both sides.",
    )


_ByArm = Mapping["ArmName", Sequence["Process"]]


def _figures(processes: _ByArm) -> Iterator[tuple[str, ...]]:
    from statistics import median

    def line(
        name: str, unit: str, of: "Callable[[Process], float]", factor: float
    ) -> tuple[str, ...]:
        medians = [median(of(process) for process in of_arm) for of_arm in processes.values()]
        shown = (f"{factor * value:.4g}" for value in medians)
        return name, unit, *shown, f"{medians[-1] / medians[0]:.3f}"

    yield line("median step", "ms", lambda process: process.median, 1e3)
    yield line("slow tail", "p99 / median", lambda process: process.tail, 1.0)


def _scatter(processes: _ByArm) -> Iterator[tuple[str, ...]]:
    from dlcontainer.bench.analysis.steps import step_times

    scatters = [step_times.scatter(of_arm) for of_arm in processes.values()]
    for same in zip(*scatters, strict=True):
        if same[0].groups == 1:
            cells = ["one only" for _ in same]
        else:
            cells = [
                "in the line above"
                if component.sd is None
                else f"{100 * component.sd:.2f} (from {component.groups})"
                for component in same
            ]
        first, last = same[0].sd, same[-1].sd
        yield same[0].level, "sd, %", *cells, f"{last / first:.2f}" if first and last else "-"


def _by_rank(processes: _ByArm) -> Iterator[tuple[str, ...]]:
    """Yield each rank's row: its median over the launches, slowest first; the first few."""
    from statistics import median

    from dlcontainer.bench.analysis.steps import step_times

    medians = [step_times.medians(of_arm) for of_arm in processes.values()]
    shared = [rank for rank in medians[0] if all(rank in by_rank for by_rank in medians)]
    if len(shared) < 2:
        return
    at = step_times.places(next(iter(processes.values())))
    middle = {rank: [median(by_rank[rank]) for by_rank in medians] for rank in shared}
    slow = {
        straggler.rank
        for of_arm in processes.values()
        for straggler in step_times.slow_ranks(of_arm).stragglers
    }
    order = sorted(shared, key=lambda rank: (rank not in slow, -max(middle[rank])))
    for rank in order[:_MOST_RANKS]:
        seconds = middle[rank]
        name = f"rank {rank} on {at[rank]}" + (", a straggler" if rank in slow else "")
        yield (
            name,
            "median, ms",
            *(f"{1e3 * second:.4g}" for second in seconds),
            f"{seconds[-1] / seconds[0]:.3f}",
        )


def _named(processes: _ByArm) -> str:
    from dlcontainer.bench.analysis.steps import step_times

    texts = []
    for arm, of_arm in processes.items():
        verdict, at = step_times.slow_ranks(of_arm), step_times.places(of_arm)
        stragglers = [_slow(straggler, at[straggler.rank]) for straggler in verdict.stragglers]
        sentence = f"nobody is named, {verdict.refused}" if verdict.refused else "none"
        texts.append(f"{arm}: {', '.join(stragglers) or sentence}")
    ranks = len({process.rank for of_arm in processes.values() for process in of_arm})
    rest = f" {counted(ranks, 'rank')}, the slowest shown." if ranks > _MOST_RANKS else ""
    return f"Stragglers, {'; '.join(texts)}.{rest}"


def _slow(straggler: "Straggler", node: str) -> str:
    return f"rank {straggler.rank} on {node} ({straggler.ratio:.2f} times the others' median)"


def _subject(declared: "SessionDeclaration") -> str:
    ranks = declared.workload.get("ranks")
    of = f" of the slowest of {ranks} ranks" if isinstance(ranks, int) and ranks > 1 else ""
    return f"The median step{of}"


VARIABILITY = Probe(
    name="variability",
    summary="How step times scatter, in processes, over ranks and nodes: native against container.",
    metrics=(
        *ROWS_METRICS,
        Metric(
            name="counts.tail_ratio",
            unit="p99 / median",
            statistic="largest",
            margin=_TAIL_MARGIN,
        ),
    ),
    options=(_KERNEL, _DEVICE, _TIMED_STEPS, _WATCH, QUICK),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    rows=_rows,
    phases=lambda _stamps: ("import", "warm", "steps"),
    subject=_subject,
    task=lambda declared: f"equal steps ({declared.workload.get(_KERNEL.name)})",
    unsaid=", steps in which ranks wait for each other, other kernels or other nodes",
    section=_section,
)
