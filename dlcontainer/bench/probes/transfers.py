"""`bench transfers`: copies between host and devices, between devices, and in the host's memory."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlcontainer.bench.probes import byte_sizes, kernels
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
from dlcontainer.bench.samples.traits import DerivedFigure, ProbeTable
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan
    from dlcontainer.bench.samples.series import Series
    from dlcontainer.bench.samples.vocabulary import ArmName

# The probe's own words, which a test holds against these.
HOST, TO_DEVICE, TO_HOST, PEERS = WAYS = (
    "host to host", "host to device", "device to host", "device to device"
)  # fmt: skip
MEMORIES = ("pageable", "pinned")
_LEAST, _LARGEST, _QUICK_LARGEST = 4 << 10, 256 << 20, 16 << 20
# From one size to the next.
_FACTOR, _QUICK_FACTOR = 4, 16
# A round of one curve takes milliseconds: the import before it is what a launch takes.
_ROUNDS = 10
_SEED = 20261123
# Of more NUMA nodes the first ones: each pair of them is a curve.
_USUAL_NODES = 4
# What names a curve; the rest of a row is its size.
_GROUP = ("transfer", "memory", "from", "to")

_DEVICE = Option(
    name="device",
    choices=DEVICES,
    default="cpu",
    help="cpu: copy within host memory; cuda (NVIDIA, AMD), xpu (Intel), xla (TPU): copy between "
    "host memory and those devices. Default: cpu.",
    elsewhere="ignored",
)
_GPUS = Option(
    name="gpus",
    kind=int,
    metavar="N",
    least=1,
    help="With a --device other than cpu: use the first N visible devices; two or more also copy "
    "to one another. Default: 1.",
)
_NUMA = Option(
    name="numa",
    metavar="NODE,...",
    help="NUMA nodes of the host memory, by number. Default: those that this process may use, at "
    f"most {_USUAL_NODES}.",
)
_LARGEST_SIZE = Option(
    name="largest",
    metavar="BYTES",
    help="Largest transfer, e.g. 64M; the smallest is 4 KiB. Default: 256M; with --quick 16M.",
)


def _settled(typed: Values, setting: ParameterContext) -> Values:
    kernels.require(setting)
    values = given_or_default(TRANSFERS.options, typed, setting)
    device, gpus, quick = values[_DEVICE.name], values[_GPUS.name], bool(values[QUICK.name])
    is_cpu, largest = device == _DEVICE.default, values[_LARGEST_SIZE.name]
    if is_cpu and gpus:
        raise UsageError(
            f"{_GPUS.flag} {gpus}: copies within host memory use no GPU",
            next_step=f"use {_DEVICE.flag} cuda, xpu or xla, or leave out {_GPUS.flag}",
        )
    usual = _QUICK_LARGEST if quick else _LARGEST
    size = usual if largest is None else byte_sizes.read(_LARGEST_SIZE, str(largest), _LEAST)
    return {
        _DEVICE.name: device,
        _GPUS.name: 0 if is_cpu else gpus or 1,
        _NUMA.name: ",".join(map(str, _nodes(values[_NUMA.name], setting))),
        _LARGEST_SIZE.name: size,
        QUICK.name: quick,
    }


def _nodes(choice: Value, setting: ParameterContext) -> tuple[int, ...]:
    """Return the NUMA nodes of the host's memory; of a session that goes on those declared."""
    from dlcontainer.bench.probes import processor

    nodes = processor.nodes()
    if not choice:
        return nodes[:_USUAL_NODES]
    words = [word.strip() for word in str(choice).split(",")]
    if setting.begun is None:
        for word in words:
            if not word.isdecimal() or len(word) > 4 or int(word) not in nodes:
                raise UsageError(
                    f"{_NUMA.flag} {choice}: this process cannot use a NUMA node '{word}'",
                    next_step=f"choose from: {', '.join(map(str, nodes))}",
                )
    return tuple(sorted({int(word) for word in words}))


def _places(cell: ProbeCell) -> tuple[list[str], list[str]]:
    nodes = [f"node {number}" for number in str(cell.values[_NUMA.name]).split(",")]
    return nodes, [f"gpu {number}" for number in range(int(cell.values[_GPUS.name] or 0))]


def _groups(cell: ProbeCell) -> Iterator[dict[str, str | int]]:
    """List the curves; each is one way between two places."""
    nodes, gpus = _places(cell)

    def group(transfer: str, memory: str, source: str, target: str) -> dict[str, str | int]:
        return {"transfer": transfer, "memory": memory, "from": source, "to": target}

    if not gpus:
        yield from (group(HOST, "pageable", source, target) for source in nodes for target in nodes)
        return
    for memory in MEMORIES:
        for node in nodes:
            for gpu in gpus:
                yield group(TO_DEVICE, memory, node, gpu)
                yield group(TO_HOST, memory, gpu, node)
    yield from (
        group(PEERS, "device", source, target)
        for source in gpus
        for target in gpus
        if source != target
    )


def _listed(cell: ProbeCell) -> list[dict[str, str | int]]:
    factor = _QUICK_FACTOR if cell.values[QUICK.name] else _FACTOR
    sizes = byte_sizes.ladder(_LEAST, cell.values[_LARGEST_SIZE.name], factor)
    return [{**group, "bytes": size} for group in _groups(cell) for size in sizes]


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    import json

    return as_options(
        {
            "rows": json.dumps(_listed(cell), separators=(",", ":")),
            "rounds": _ROUNDS,
            "seed": _SEED,
            "threads": cell.threads,
            "framework": kernels.FRAMEWORK,
        }
    )


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {**cell.values, "framework": kernels.FRAMEWORK, "seed": _SEED}


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

    return RowPlan(rows=tuple(_listed(cell)), rounds=_ROUNDS, curve="bytes")


def _rate(row: Mapping[str, str | int], seconds: float) -> float | None:
    size = byte_sizes.of(row)
    return size / seconds / 1e9 if size else None


def _section(series: "Series") -> ProbeTable | None:
    by_group = byte_sizes.points(series, _GROUP)
    if not by_group:
        return None
    lines = []
    for group, by_arm in by_group.items():
        for arm, arm_points in by_arm.items():
            least, most = (end(arm_points, key=lambda point: point.size) for end in (min, max))
            shown = f"{1e6 * least.seconds:.4g}", f"{most.size / most.seconds / 1e9:.3g}"
            lines.append((*group, arm, *shown, *byte_sizes.fit(arm_points)))
    return ProbeTable(
        title="Latency and bandwidth",
        head=(
            *_GROUP, byte_sizes.HEAD[0], "smallest, us", "largest, GB/s", *byte_sizes.HEAD[1:]
        ),
        rows=tuple(lines),
        note=f"GB/s are 1e9 bytes a second, one way. {_meaning(series)} "
        f"{byte_sizes.note('transfer')}",
        companion=_peers(series),
    )  # fmt: skip


def _meaning(series: "Series") -> str:
    if series.session.declared.workload.get(_DEVICE.name) == _DEVICE.default:
        sentence = (
            "These are copies in this node's memory by its processors; no device takes part, and "
            "small ones stay in caches."
        )
    else:
        sentence = "Times are those of the call and of the wait until the devices are idle."
    untold = [arm for arm in series.session.declared.arms if not _is_told(series, arm)]
    if untold:
        sentence += f" Where memory lay was not told by the kernel: {', '.join(untold)}."
    return sentence


def _facts(series: "Series", arm: "ArmName", name: str) -> "Mapping[str, Json]":
    facts = next((stack.facts for stack in series.stacks if stack.arm == arm), {})
    fact = facts.get(name)
    return fact if isinstance(fact, Mapping) else {}


def _is_told(series: "Series", arm: "ArmName") -> bool:
    return set(_facts(series, arm, "memory_places").values()) == {"checked"}


def _peers(series: "Series") -> ProbeTable | None:
    """Return each pair's answer on each side; None where there are no pairs."""
    arms = series.session.declared.arms
    access = [_facts(series, arm, "peer_access") for arm in arms]
    pairs = tuple(dict.fromkeys(pair for facts in access for pair in facts))
    if not pairs:
        return None
    return ProbeTable(
        title="Which devices reach each other",
        head=("from, to", *arms),
        rows=tuple((pair, *(_answer(facts.get(pair)) for facts in access)) for pair in pairs),
        note="As PyTorch says it, of GPUs of NVIDIA and AMD. Without it a transfer goes through "
        "the host's memory. It is attested: sides that differ are not comparable.",
    )


def _answer(answer: object) -> str:
    return {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else "not said"


def _subject(declared: "SessionDeclaration") -> str:
    is_cpu = declared.workload.get(_DEVICE.name) == _DEVICE.default
    return "A copy in memory" if is_cpu else "A transfer between host and devices"


def _task(declared: "SessionDeclaration") -> str:
    is_cpu = declared.workload.get(_DEVICE.name) == _DEVICE.default
    return "copies in the host's memory" if is_cpu else "transfers between host and devices"


def _unsaid(declared: "SessionDeclaration") -> str:
    is_cpu = declared.workload.get(_DEVICE.name) == _DEVICE.default
    return ", transfers to any device" if is_cpu else ", other devices"


TRANSFERS = Probe(
    name="transfers",
    summary="Times of transfers between host and devices, by size: native against container.",
    metrics=ROWS_METRICS,
    options=(_DEVICE, _GPUS, _NUMA, _LARGEST_SIZE, QUICK),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    rows=_rows,
    derived=lambda _declared: (DerivedFigure(name="rate", unit="GB/s", better="more", of=_rate),),
    phases=lambda _stamps: ("import", "placed", "checked", "rows"),
    subject=_subject,
    task=_task,
    unsaid=", transfers beside computation, several at once or both ways at once",
    unsaid_of=_unsaid,
    section=_section,
    alone="one process copies",
    # One thread copies: how many share a memory's bandwidth is another question.
    threads=1,
)
