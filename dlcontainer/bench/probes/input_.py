"""`bench input`: how samples reach a training step, by format, shuffle, readers and tier."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.bench.probes import input_place, input_supply
from dlcontainer.bench.probes.base import (
    MEMORY,
    QUICK,
    Cell,
    Option,
    Probe,
    Setting,
    Value,
    Values,
    as_options,
    given_or_default,
)
from dlcontainer.bench.samples.traits import ROWS_METRIC, Derived, Metric
from dlcontainer.errors import ChecksFailedError, UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Declared, Json
    from dlcontainer.bench.samples.rows.records import RowPlan

# format -> the module that it takes; the probe's own list, which a test holds against this.
FORMATS: Mapping[str, str] = {
    "files": "",
    "tar": "",
    "raw": "",
    "npz": "",
    "tfrecord": "",
    "hdf5": "h5py",
    "hdf5-contiguous": "h5py",
    "lmdb": "lmdb",
    "zarr": "zarr",
    "parquet": "pyarrow",
}
# They can't read one sample alone.
STREAMED = ("parquet",)
SHUFFLES = ("full", "window")
TIERS = ("cache", "disk", "folder", "staged", "mixed")
OWN = "own"
# The variant of the shipped recipe whose images have all modules.
VARIANT = "pytorch, variant io"

_MOST_READERS = 64
# CIFAR-10's images, 3 x 32 x 32, as float32.
_SIZE = 3 * 32 * 32 * 4
_SHARDS, _QUICK_SHARDS = 16, 8
_BATCH = 32
# A batch of a user's own files is at most so many bytes.
_LARGEST_BATCH = 64 << 20
_ROUNDS, _QUICK_ROUNDS = 3, 2
_MARGIN = 0.05
_SEED = 20261123

_FORMATS = Option(
    name="formats",
    metavar="NAME,...",
    help=f"Of {', '.join(FORMATS)}. Default: those that the image's recipe has the modules for.",
)
_SHUFFLES = Option(name="shuffles", metavar="NAME,...", help="full, window. Default: both.")
_READERS = Option(
    name="readers",
    metavar="N,...",
    help="Processes that read; 0: the one that trains. Default: 0,1,2,4, quick 0,2.",
)
_TIERS = Option(
    name="tiers",
    metavar="NAME,...",
    help="cache, disk; with --folder or --data cache, folder, staged (copied to TMPDIR before), "
    "mixed (some shards copied). Default: all of them, quick the first two.",
)
_SAMPLES = Option(
    name="samples", kind=int, metavar="N", least=2, help="Samples. Default: 1024, quick 512."
)
_BYTES = Option(
    name="sample_bytes", kind=int, metavar="N", least=1, help=f"Of a sample. Default: {_SIZE}."
)
_WINDOW = Option(
    name="window",
    kind=int,
    metavar="N",
    least=1,
    help="Samples that the window shuffle draws from. Default: those of a shard.",
)
_FOLDER = Option(
    name="folder",
    metavar="FOLDER",
    help="Where the data set is made and read, on the file system to measure. Default: TMPDIR.",
)
_KEEP = Option(
    name="keep",
    kind=bool,
    help="Leave the data set in --folder: later sessions find it there, and need not write.",
)
_DATA = Option(
    name="data",
    metavar="FOLDER",
    help="Your own samples: every file below it is one. Nothing is written to it.",
)
_HITS = Option(
    name="hits",
    kind=int,
    metavar="PERCENT",
    default=50,
    least=0,
    help="Of tier mixed: the share of the shards that are copied. Default: 50.",
)
_DEMAND = Option(
    name="demand",
    kind=int,
    metavar="SAMPLES/S",
    least=1,
    help="What a training step takes: the report says which rows supply it.",
)


def _settled(typed: Values, setting: Setting) -> Values:
    if setting.is_ranked:
        raise UsageError(
            "bench input: a launch is one process and its readers, no ranks",
            next_step="leave --ranks out; --readers says how many processes read",
        )
    values = given_or_default(INPUT.options, typed, setting)
    quick, folder, data = bool(values[QUICK.name]), values[_FOLDER.name], values[_DATA.name]
    _require_consistent(values)
    settled: dict[str, Value] = {
        _FORMATS.name: ",".join(_formats(values[_FORMATS.name], setting)),
        "left_out": ",".join(_left_out(values, setting)),
        _SHUFFLES.name: ",".join(_listed(_SHUFFLES, values, SHUFFLES, SHUFFLES)),
        _READERS.name: ",".join(map(str, _readers(values[_READERS.name], quick=quick))),
        _TIERS.name: ",".join(_tiers(values, quick=quick)),
        _SAMPLES.name: values[_SAMPLES.name] or (512 if quick else 1024),
        _BYTES.name: values[_BYTES.name] or _SIZE,
        "shards": _QUICK_SHARDS if quick else _SHARDS,
        "batch": _BATCH,
        _HITS.name: values[_HITS.name],
        _FOLDER.name: str(Path(str(folder)).absolute()) if folder else None,
        _DATA.name: str(Path(str(data)).absolute()) if data else None,
        "total": None,
        _KEEP.name: bool(values[_KEEP.name]),
        _DEMAND.name: values[_DEMAND.name],
        QUICK.name: quick,
    }
    if data:
        settled |= _own(Path(str(data)).absolute())
    samples = settled[_SAMPLES.name]
    per_shard = -(-int(samples or 0) // int(settled["shards"] or 1))
    return {**settled, _WINDOW.name: values[_WINDOW.name] or per_shard}


def _require_consistent(values: Values) -> None:
    if values[_FOLDER.name] and values[_DATA.name]:
        raise UsageError(
            "--folder and --data: the samples are either made or your own",
            next_step="leave one of them out",
        )
    if values[_KEEP.name] and not values[_FOLDER.name]:
        raise UsageError("--keep is about --folder", next_step="name it: --folder FOLDER")
    if values[_DATA.name]:
        for option in (_FORMATS, _SAMPLES, _BYTES):
            if values[option.name] is not None:
                raise UsageError(
                    f"{option.flag} and --data: your files are read as they are",
                    next_step="leave one of them out",
                )
    if int(values[_HITS.name] or 0) > 100:
        raise UsageError(f"--hits {values[_HITS.name]}: 0 to 100 percent")


def _own(folder: Path) -> dict[str, Value]:
    """Describe a user's own files, as the probe lists them."""
    sizes = input_place.sizes(folder)
    largest = max(sizes)
    if largest > _LARGEST_BATCH:
        raise UsageError(
            f"--data {folder}: a file of {largest:,} bytes",
            why=f"a file is a sample, and a sample is held in memory: {_LARGEST_BATCH:,} at most",
            next_step="name a folder of single samples",
        )
    batch = max(1, min(_BATCH, _LARGEST_BATCH // max(1, largest)))
    own: dict[str, Value] = {_FORMATS.name: OWN, "left_out": "", _SAMPLES.name: len(sizes)}
    return {**own, _BYTES.name: 0, "total": sum(sizes), "batch": batch}


def _formats(asked: object, setting: Setting) -> tuple[str, ...]:
    modules = setting.contents.modules
    if asked is None:
        return tuple(name for name, module in FORMATS.items() if not module or module in modules)
    words = _words(_FORMATS, str(asked), tuple(FORMATS))
    for word in words:
        if FORMATS[word] and FORMATS[word] not in modules:
            raise ChecksFailedError(
                f"--formats {asked}: {setting.contents.image} does not verify {FORMATS[word]}",
                why=f"the format {word} takes it; the recipe {setting.contents.recipe} verifies "
                f"{', '.join(modules) or 'no module'}",
                next_step=f"measure an image of the recipe {VARIANT}, or name the module in the "
                "recipe's verify.imports and build again",
            )
    return words


def _left_out(values: Values, setting: Setting) -> tuple[str, ...]:
    if values[_FORMATS.name] is not None:
        return ()
    known = setting.contents.modules
    return tuple(name for name, module in FORMATS.items() if module and module not in known)


def _tiers(values: Values, *, quick: bool) -> tuple[str, ...]:
    known: tuple[str, ...] = ("cache", "disk")
    if values[_FOLDER.name] or values[_DATA.name]:
        known = ("cache", "folder", "staged", "mixed")
    return _listed(_TIERS, values, known, known[:2] if quick else known)


def _listed(
    option: Option, values: Values, known: tuple[str, ...], usual: tuple[str, ...]
) -> tuple[str, ...]:
    asked = values[option.name]
    return usual if asked is None else _words(option, str(asked), known)


def _words(option: Option, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise UsageError(
                f"{option.flag} {text}: there is no '{word}' here",
                next_step=f"of {', '.join(known)}",
            )
    return tuple(name for name in known if name in words)


def _readers(asked: object, *, quick: bool) -> tuple[int, ...]:
    if asked is None:
        return (0, 2) if quick else (0, 1, 2, 4)
    words = [word.strip() for word in str(asked).split(",")]
    if not all(word.isdecimal() and len(word) < 4 for word in words):
        raise UsageError(f"--readers {asked}: numbers with commas between", next_step="e.g. 0,2")
    counts = tuple(sorted({int(word) for word in words}))
    if counts[-1] > _MOST_READERS:
        raise UsageError(f"--readers {asked}: {_MOST_READERS} at most")
    return counts


def _rounds(values: Values) -> int:
    return _QUICK_ROUNDS if values[QUICK.name] else _ROUNDS


def _arguments(cell: Cell) -> tuple[str, ...]:
    names = (
        *("formats", "shuffles", "readers", "tiers", "samples", "shards", "window", "batch"),
        *("hits", "total"),
    )
    own = {name: cell.values[name] for name in names}
    own["size"] = cell.values[_BYTES.name]
    return as_options({**own, "rounds": _rounds(cell.values), "seed": _SEED})


def _declared(cell: Cell) -> "Mapping[str, Json]":
    return {**cell.values, "seed": _SEED}


def _rows(cell: Cell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.records import RowPlan

    tiers, formats, shuffles, readers = (
        str(cell.values[name]).split(",") for name in ("tiers", "formats", "shuffles", "readers")
    )
    rows: tuple[Mapping[str, str | int], ...] = tuple(
        {"tier": tier, "format": name, "shuffle": shuffle, "readers": int(count)}
        for tier in tiers
        for name in formats
        for shuffle in shuffles
        for count in readers
        if shuffle != "full" or name not in STREAMED
    )
    if not rows:
        raise UsageError(
            f"--formats {cell.values['formats']} --shuffles full: no row is left",
            why="it can't read one sample without its neighbours",
            next_step="--shuffles window",
        )
    return RowPlan(rows=rows, rounds=_rounds(cell.values), curve="readers")


def _derived(declared: "Declared") -> tuple[Derived, ...]:
    work = input_supply.Work.of(declared)

    def rate(_row: Mapping[str, str | int], seconds: float) -> float | None:
        return work.samples / seconds if work.samples else None

    def megabytes(_row: Mapping[str, str | int], seconds: float) -> float | None:
        return work.total / seconds / 1e6 if work.total else None

    return (
        Derived(name="samples", unit="1/s", better="more", of=rate),
        Derived(name="rate", unit="MB/s", better="more", of=megabytes),
    )


def _unsaid(declared: "Declared") -> str:
    left = declared.workload.get("left_out")
    out = f", the formats {str(left).replace(',', ', ')}" if left else ""
    return f"{out}, decoding and augmentation, many nodes that read at once"


INPUT = Probe(
    name="input",
    summary="Time of an epoch's reading by format, shuffle and tier: native against container.",
    metrics=(
        Metric(name=ROWS_METRIC, unit="s", statistic="geometric mean", margin=_MARGIN),
        Metric(name="wall_s", unit="s"),
        MEMORY,
    ),
    options=(
        _FORMATS, _SHUFFLES, _READERS, _TIERS, _SAMPLES, _BYTES, _WINDOW, _FOLDER, _KEEP, _DATA,
        _HITS, _DEMAND, QUICK,
    ),
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    lends=input_place.lent,
    rows=_rows,
    derived=_derived,
    phases=lambda _stamps: ("data", "staged", "checked", "rows"),
    subject=lambda _declared: "Reading an epoch",
    task=lambda _declared: "reading an epoch's samples",
    unsaid_of=_unsaid,
    section=input_supply.section,
)  # fmt: skip
