"""`bench collectives`: the times of operations of all ranks together, by message size."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlcontainer.bench.probes import byte_sizes
from dlcontainer.bench.probes.probe import (
    QUICK,
    ROWS_METRICS,
    Option,
    ParameterContext,
    Probe,
    ProbeCell,
    SuiteOptions,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import DerivedFigure, ProbeTable
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series

# The probe's own lists, which a test holds against these.
OPERATIONS = (
    "broadcast", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "send_recv", "barrier"
)  # fmt: skip
SPLIT = ("reduce_scatter", "all_gather", "all_to_all")
WIDTH = 4
# backend -> the modules of the recipe that it takes
BACKENDS: "Mapping[str, tuple[str, ...]]" = {
    "gloo": ("torch",),
    "nccl": ("torch",),
    "xccl": ("torch",),
    "xla": ("torch",),
    "mpi": ("torch",),
    "mpi4py": ("mpi4py",),
    "horovod": ("horovod", "torch"),
}
# Taken where none was asked for; nccl, xccl and xla take devices, mpi a PyTorch built for it.
_USUAL = ("gloo", "mpi4py")
ABSENT = {"horovod": ("send_recv",), "mpi": ("reduce_scatter",)}

_LARGEST, _QUICK_LARGEST = 64 << 20, 4 << 20
# From one size to the next.
_FACTOR, _QUICK_FACTOR = 4, 16
_ROUNDS, _QUICK_ROUNDS = 5, 3
_SEED = 20261123

_BACKEND = Option(
    name="backend",
    choices=tuple(BACKENDS),
    help="Backend: gloo, nccl (GPUs of NVIDIA, AMD), xccl (of Intel), xla (TPUs), mpi "
    "(torch.distributed), mpi4py or horovod. Default: gloo where the "
    "recipe has PyTorch, else mpi4py.",
)
OPERATIONS_OPTION = Option(
    name="operations",
    metavar="NAME,...",
    help=f"Operations to measure: {', '.join(OPERATIONS)}. Default: all.",
)
_LARGEST_SIZE = Option(
    name="largest",
    metavar="BYTES",
    help="Largest message, e.g. 1M; the smallest is 4 bytes. Default: 64M; with --quick 4M.",
)
SIZES_OPTION = Option(
    name="sizes",
    metavar="BYTES,...",
    help="Sizes of messages, e.g. 4K,4M. Default: from 4 bytes up to --largest.",
)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    values = given_or_default(COLLECTIVES.options, typed, setting)
    quick = bool(values[QUICK.name])
    usual = _QUICK_LARGEST if quick else _LARGEST
    largest, backend = values[_LARGEST_SIZE.name], _backend(values[_BACKEND.name], setting)
    listed = _listed(values[SIZES_OPTION.name], typed.get(_LARGEST_SIZE.name))
    if listed:
        # That of a session that goes on, too, is the largest one listed.
        largest = listed.rpartition(",")[2]
    return {
        _BACKEND.name: backend,
        OPERATIONS_OPTION.name: ",".join(_operations(values[OPERATIONS_OPTION.name], backend)),
        _LARGEST_SIZE.name: usual
        if largest is None
        else byte_sizes.read(_LARGEST_SIZE, str(largest), WIDTH),
        QUICK.name: quick,
        **({SIZES_OPTION.name: listed} if listed else {}),
    }


def _listed(sizes: object, largest: object) -> str:
    """Write the sizes that were listed in bytes; empty where none were. Raises UsageError."""
    if sizes is None:
        return ""
    if largest is not None:
        raise UsageError(
            f"{SIZES_OPTION.flag} and {_LARGEST_SIZE.flag} both say how large messages are",
            next_step="leave one of them out",
        )
    words = [word.strip() for word in str(sizes).split(",")]
    listed = [byte_sizes.read(SIZES_OPTION, word, WIDTH) for word in words]
    return ",".join(map(str, sorted({-(-size // WIDTH) * WIDTH for size in listed})))


def _backend(choice: object, setting: ParameterContext) -> str:
    contents = setting.contents
    usable = [name for name, needs in BACKENDS.items() if set(needs) <= set(contents.modules)]
    backend = choice or next((name for name in _USUAL if name in usable), None)
    if backend in usable:
        return str(backend)
    needs = BACKENDS.get(str(choice), ())
    raise ChecksFailedError(
        f"--backend {choice}: {contents.image} does not verify {' and '.join(needs)}"
        if choice
        else f"no module of {contents.image} has collective operations",
        why="a backend needs torch, mpi4py, or horovod with torch; the recipe "
        f"{contents.recipe} verifies {', '.join(contents.modules) or 'no module'}",
        next_step="add the module to the recipe's verify.imports and rebuild the image",
    )


def _operations(choice: object, backend: str) -> tuple[str, ...]:
    supported = tuple(name for name in OPERATIONS if name not in ABSENT.get(backend, ()))
    if choice is None:
        return supported
    words = [word.strip() for word in str(choice).split(",")]
    for word in words:
        if word not in supported:
            raise UsageError(
                f"--operations {choice}: {backend} has no operation '{word}'",
                next_step=f"choose from: {', '.join(supported)}",
            )
    return tuple(name for name in supported if name in words)


def sizes(values: Values) -> tuple[int, ...]:
    """List the sizes of messages, bytes: as listed, or from 4 up by a constant factor."""
    listed = values.get(SIZES_OPTION.name)
    if listed:
        return tuple(int(word) for word in str(listed).split(","))
    largest, factor = values[_LARGEST_SIZE.name], _QUICK_FACTOR if values[QUICK.name] else _FACTOR
    return byte_sizes.ladder(WIDTH, largest, factor)


def _rounds(values: Values) -> int:
    return _QUICK_ROUNDS if values[QUICK.name] else _ROUNDS


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    listed = ",".join(map(str, sizes(cell.values)))
    arguments = {name: cell.values[name] for name in (_BACKEND.name, OPERATIONS_OPTION.name)}
    return as_options({**arguments, "sizes": listed, "rounds": _rounds(cell.values), "seed": _SEED})


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {**cell.values, "seed": _SEED}


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    rows: list[dict[str, str | int]] = []
    for operation in str(cell.values[OPERATIONS_OPTION.name]).split(","):
        least = WIDTH * cell.ranks if operation in SPLIT else WIDTH
        for size in sizes(cell.values) if operation != "barrier" else (0,):
            row: dict[str, str | int] = {
                "operation": operation,
                "bytes": -(-size // least) * least,
            }
            if row not in rows:
                rows.append(row)
    return RowPlan(rows=tuple(rows), rounds=_rounds(cell.values), curve="bytes")


def _gate(bodies: Sequence[Mapping[str, Any]]) -> str:
    """Return where a library sees other ranks than were asked for: size asked is size seen."""
    views = [body.get("seen") for body in bodies]
    if not all(isinstance(view, dict) for view in views):
        return "the ranks don't say which ranks their library sees"
    pairs = [(view["rank"], view["size"]) for view in views if view]
    if pairs != [(rank, len(bodies)) for rank in range(len(bodies))]:
        texts = ", ".join(f"{rank} of {size}" for rank, size in pairs)
        return f"{len(bodies)} ranks were asked for, and their library sees ranks {texts}"
    return ""


def _operation(row: Mapping[str, str | int]) -> str:
    return str(row.get("operation", ""))


def _ranks(declared: "SessionDeclaration") -> int:
    ranks = declared.workload.get("ranks")
    return ranks if isinstance(ranks, int) else 0


def _derived(declared: "SessionDeclaration") -> tuple[DerivedFigure, ...]:
    from dlcontainer.bench.stats import bandwidth

    ranks = _ranks(declared)

    def algorithm(row: Mapping[str, str | int], seconds: float) -> float | None:
        size = byte_sizes.of(row)
        return bandwidth.algorithm(size, seconds) if size else None

    def bus(row: Mapping[str, str | int], seconds: float) -> float | None:
        size = byte_sizes.of(row)
        return bandwidth.bus(_operation(row), size, seconds, ranks) if size else None

    return (
        DerivedFigure(name="algbw", unit="GB/s", better="more", of=algorithm),
        DerivedFigure(name="busbw", unit="GB/s", better="more", of=bus),
    )


def _section(series: "Series") -> ProbeTable | None:
    declared, cores = series.session.declared, series.session.machine.get("cores")
    if declared.rows is None:
        return None
    per_node = declared.workload.get("ranks_per_node")
    crowd = ""
    if isinstance(per_node, int) and isinstance(cores, int) and per_node > cores:
        crowd = (
            f" {counted(per_node, 'rank')} shared {counted(cores, 'core')} here: what they waited "
            "for each other is the scheduler's time."
        )
    return ProbeTable(
        title="Latency and bandwidth",
        head=("operation", *byte_sizes.HEAD),
        rows=tuple(byte_sizes.lines(series, ("operation",))),
        note=f"{byte_sizes.note('operation')} 1/beta is of the algorithm bandwidth.{crowd}",
    )


def _subject(declared: "SessionDeclaration") -> str:
    backend = declared.workload.get(_BACKEND.name)
    return f"A collective operation of {counted(_ranks(declared), 'rank')} by {backend}"


def _task(declared: "SessionDeclaration") -> str:
    return f"collective operations by {declared.workload.get(_BACKEND.name)}"


COLLECTIVES = Probe(
    name="collectives",
    summary="Times of collective operations by size: native against container.",
    metrics=ROWS_METRICS,
    options=(_BACKEND, OPERATIONS_OPTION, SIZES_OPTION, _LARGEST_SIZE, QUICK),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    rows=_rows,
    derived=_derived,
    phases=lambda _stamps: ("import", "process_group", "checked", "rows"),
    gate=_gate,
    subject=_subject,
    task=_task,
    unsaid=", other networks, more ranks or operations beside computation",
    section=_section,
    in_suite=SuiteOptions(ranks=2),
    least_ranks=2,
)
