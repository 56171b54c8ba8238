"""`bench kernels`: the times of single operations of deep networks, by shape and precision."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.probes import kernel_shapes
from dlcontainer.bench.probes.kernel_shapes import KERNELS, KernelShape
from dlcontainer.bench.probes.probe import (
    DEVICES,
    QUICK,
    ROWS_METRICS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    Value,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import DerivedFigure, ProbeTable, Roofline
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName

Row = Mapping[str, str | int]
FRAMEWORK = "torch"
ALONE = "one process computes"
SEED = 20261123
# What a GPU has is known inside alone; these all have.
_OF_A_GPU = ("fp64", "fp32", "fp16")
_PRECISIONS = kernel_shapes.PRECISIONS["gemm"]
_ROUNDS, _QUICK_ROUNDS = 5, 2
# Its arrays take as long to make and to check as all else of the small set; triad moves as much.
_NOT_QUICK = "copy"
# Repetitions of a visit: so much work (operations, or bytes times 8), and no more than so many.
_WORK, _MOST_REPEATS = 4e8, 10
_WORK_OF_A_BYTE = 8
# Arrays of copy and triad: STREAM's rule is four times the last-level caches, here within bounds.
_TIMES_CACHES, _LEAST_ELEMENTS, _MOST_ELEMENTS = 4, 1 << 25, 1 << 28
_STREAM_WIDTH = kernel_shapes.WIDTHS["fp32"]
_ELEMENTS = "elements"
_LEFT_OUT = "left_out"

_KERNELS = Option(
    name="kernels",
    metavar="NAME,...",
    help=f"Kernels to measure: {', '.join(KERNELS)}. Default: all.",
)
_PRECISION = Option(
    name="precisions",
    metavar="NAME,...",
    help=f"Precisions to measure: {', '.join(_PRECISIONS)}. Default: those that the processor "
    f"computes in; on a GPU {', '.join(_OF_A_GPU)}.",
)
_DEVICE = Option(
    name="device",
    choices=DEVICES,
    default="cpu",
    help="Device to compute on: cpu, cuda (NVIDIA, AMD), xpu (Intel) or xla (TPU). Default: cpu.",
    elsewhere="ignored",
)
ROUNDS = Option(
    name="rounds",
    kind=int,
    metavar="N",
    least=1,
    help=f"Number of times that a launch measures all rows. Default: {_ROUNDS}; with --quick "
    f"{_QUICK_ROUNDS}.",
)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    require(setting)
    values = given_or_default(KERNEL_TIMES.options, typed, setting)
    device, quick = values[_DEVICE.name], bool(values[QUICK.name])
    picked, left_out = _precisions(values[_PRECISION.name], is_cpu=device == "cpu")
    usual = tuple(name for name in KERNELS if not quick or name != _NOT_QUICK)
    choice = values[_KERNELS.name]
    kernels = usual if choice is None else _named(_KERNELS, choice, KERNELS)
    _require_some(kernels, picked)
    return {
        _KERNELS.name: ",".join(kernels),
        _PRECISION.name: ",".join(picked),
        _DEVICE.name: device,
        QUICK.name: quick,
        ROUNDS.name: values[ROUNDS.name] or (_QUICK_ROUNDS if quick else _ROUNDS),
        _ELEMENTS: _elements(_before(setting, _ELEMENTS)),
        _LEFT_OUT: ",".join(left_out),
    }


def require(setting: ParameterContext) -> None:
    """Refuse images that can't compute single operations."""
    contents = setting.contents
    if FRAMEWORK not in contents.modules:
        raise ChecksFailedError(
            f"{contents.image} has no framework to compute with",
            why=f"the probe computes with PyTorch; the recipe {contents.recipe} verifies "
            f"{', '.join(contents.modules) or 'no module'}",
            next_step="measure an image whose recipe has torch in verify.imports",
        )


def _before(setting: ParameterContext, name: str) -> int:
    begun = setting.begun.workload.get(name) if setting.begun else None
    return begun if isinstance(begun, int) else 0


def _elements(begun: int) -> int:
    from dlcontainer.bench.probes import processor

    # Of a session that goes on: as it was declared.
    elements, size = _TIMES_CACHES * processor.last_caches() // _STREAM_WIDTH, _LEAST_ELEMENTS
    while size < elements and size < _MOST_ELEMENTS:
        size *= 2
    return begun or size


def _named(option: Option, choice: Value, allowed: Sequence[str]) -> tuple[str, ...]:
    words = [word.strip() for word in str(choice).split(",")] if choice is not None else allowed
    for word in words:
        if word not in allowed:
            raise UsageError(
                f"{option.flag} {choice}: unknown value '{word}'",
                next_step=f"choose from: {', '.join(allowed)}",
            )
    return tuple(name for name in allowed if name in words)


def _precisions(choice: Value, *, is_cpu: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the precisions to measure, and those that the device has not."""
    from dlcontainer.bench.probes import processor

    precisions = processor.precisions() if is_cpu else _PRECISIONS
    picked = _named(_PRECISION, choice, _PRECISIONS)
    absent = tuple(name for name in picked if name not in precisions)
    if choice is None:
        usual = precisions if is_cpu else _OF_A_GPU
        return tuple(name for name in picked if name in usual), absent
    if absent:
        raise UsageError(
            f"{_PRECISION.flag} {choice}: this processor has no {', '.join(absent)} arithmetic",
            why="PyTorch would convert each number, and the times would not be those of the device",
            next_step=f"choose from: {', '.join(precisions)}",
        )
    return picked, ()


def _require_some(kernels: Sequence[str], precisions: Sequence[str]) -> None:
    if not any(precision in precisions for name in kernels for precision in _each(name)):
        raise UsageError(
            f"{_KERNELS.flag} {','.join(kernels)}, {_PRECISION.flag} {','.join(precisions)}: none "
            "of these kernels is measured in these precisions",
            next_step=f"choose other precisions: {kernels[0]} is measured in "
            f"{', '.join(_each(kernels[0]))}",
        )


def _each(kernel: str) -> tuple[str, ...]:
    return kernel_shapes.PRECISIONS[kernel]


def shapes(values: Values) -> Iterator[KernelShape]:
    """List the shapes of a set; those of copy and triad are as large as the caches want."""
    for shape in kernel_shapes.SHAPES:
        if shape.quick or not values[QUICK.name]:
            yield shape
    elements = values[_ELEMENTS]
    yield KernelShape(
        layer="beyond the caches", shape=f"n{elements}", kernels=kernel_shapes.STREAMS, quick=True
    )


def _listed(cell: ProbeCell) -> list[dict[str, str | int]]:
    kernels = str(cell.values[_KERNELS.name]).split(",")
    precisions = str(cell.values[_PRECISION.name]).split(",")
    return [
        {
            "kernel": kernel,
            "precision": precision,
            "layer": shape.layer,
            "shape": shape.shape,
            "threads": cell.threads,
        }
        for kernel in kernels
        for precision in _each(kernel)
        for shape in shapes(cell.values)
        if precision in precisions and kernel in shape.kernels
    ]


def repeats(row: Row) -> int:
    """Return how often a row is repeated in a visit: the larger its work, the fewer."""
    moved = _WORK_OF_A_BYTE * (kernel_shapes.least_bytes(row) or 0)
    work = max(kernel_shapes.operations(row) or 0, moved, 1)
    return int(min(max(_WORK / work, 1), _MOST_REPEATS))


def words(rows: Sequence[Row], cell: ProbeCell) -> tuple[str, ...]:
    """Return the command line inside an arm."""
    import json

    return as_options(
        {
            "rows": json.dumps([[repeats(row), row] for row in rows], separators=(",", ":")),
            "rounds": cell.values[ROUNDS.name],
            "seed": SEED,
            "threads": cell.threads,
            "device": cell.values.get(_DEVICE.name, "cpu"),
            "framework": FRAMEWORK,
        }
    )


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {**cell.values, "framework": FRAMEWORK, "seed": SEED}


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    return RowPlan(rows=tuple(_listed(cell)), rounds=int(cell.values[ROUNDS.name] or 1))


def _giga(count: float | None, seconds: float) -> float | None:
    return count / seconds / 1e9 if count else None


RATES = (
    DerivedFigure(
        name="rate",
        unit="GFLOP/s",
        better="more",
        of=lambda row, seconds: _giga(kernel_shapes.operations(row), seconds),
    ),
    DerivedFigure(
        name="moved",
        unit="GB/s",
        better="more",
        of=lambda row, seconds: _giga(kernel_shapes.least_bytes(row), seconds),
    ),
)


def libraries(series: "Series") -> ProbeTable | None:
    """Make the table of the libraries that ran, one line a row."""
    declared = series.session.declared
    plan = declared.rows.rows if declared.rows else ()
    names = tuple(dict.fromkeys(name for row in plan for name in row))
    lines = []
    for row in plan:
        libraries = [ran(series, arm, row) for arm in declared.arms]
        same = "the same" if len(set(libraries)) == 1 else "DIFFERENT"
        lines.append((*(str(row.get(name, "")) for name in names), *libraries, same))
    if not lines:
        return None
    out = declared.workload.get(_LEFT_OUT)
    return ProbeTable(
        title="Which library ran",
        head=(*names, *declared.arms, "libraries"),
        rows=tuple(lines),
        note="What oneDNN and oneMKL said of one untimed call of each row, and the operations of "
        "PyTorch inside which it ran; on a GPU the kernels by Kineto. It is attested: another "
        "library on one side is another image. Rates count operations by formula (of int8 whole "
        "ones), GB/s the bytes that must move: operands once, the result once."
        + (f" Left out: {out}; this processor has no arithmetic in it." if out else ""),
    )


def ran(series: "Series", arm: "ArmName", row: Row) -> str:
    """Name the library and the kernel that one side attests for a row."""
    facts = next((stack.facts for stack in series.stacks if stack.arm == arm), {})
    attested = facts.get("kernel_libraries")
    named = attested.get(fact(row)) if isinstance(attested, Mapping) else None
    return str(named or "not stated")


def fact(row: Row) -> str:
    """Name a row's fact in the attestation, as the probe does."""
    words = [str(value) for name, value in row.items() if name not in {"layer", "threads"}]
    return " ".join(words).replace(".", "_") + f" x{row.get('threads')}"


KERNEL_TIMES = Probe(
    name="kernels",
    summary="Times of single operations of networks: native against container.",
    metrics=ROWS_METRICS,
    options=(_KERNELS, _PRECISION, _DEVICE, ROUNDS, QUICK),
    settle=_settled,
    arguments=lambda cell: words(_listed(cell), cell),
    declared=_declared,
    rows=_rows,
    derived=lambda _declared: RATES,
    roofline=Roofline(
        operations=kernel_shapes.operations,
        least_bytes=kernel_shapes.least_bytes,
        peak="gemm",
        streams=kernel_shapes.STREAMS,
    ),
    phases=lambda _stamps: ("import", "checked", "libraries", "rows"),
    subject=lambda _declared: "An operation of a network",
    task=lambda _declared: "single operations of networks",
    unsaid=", whole networks, other shapes or operations beside each other",
    section=libraries,
    alone=ALONE,
)
