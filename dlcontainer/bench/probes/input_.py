"""`bench input`: how samples reach a training step, by format, shuffle, readers and tier."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dlcontainer.bench.probes.inputs import options as choices
from dlcontainer.bench.probes.inputs import place, supply
from dlcontainer.bench.probes.inputs.options import FORMATS, SIZE, STREAMED
from dlcontainer.bench.probes.probe import (
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
from dlcontainer.bench.samples.traits import DerivedFigure
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.samples.records import Json, SessionDeclaration
    from dlcontainer.bench.samples.rows.row_records import RowPlan

SHUFFLES = ("full", "window")
TIERS = ("cache", "disk", "folder", "staged", "mixed")
OWN = "own"

_MOST_READERS = 64
_SHARDS, _QUICK_SHARDS = 16, 8
_BATCH = 32
# A batch of a user's own files is at most so many bytes.
_LARGEST_BATCH = 64 << 20
_ROUNDS, _QUICK_ROUNDS = 3, 2
_SEED = 20261123


def _settled(typed: Values, setting: ParameterContext) -> Values:
    values = given_or_default(choices.OPTIONS, typed, setting)
    quick = bool(values[QUICK.name])
    folder, data = values[choices.FOLDER.name], values[choices.DATA.name]
    _require_consistent(values)
    settled: dict[str, Value] = {
        choices.BY_FORMAT.name: ",".join(_formats(values[choices.BY_FORMAT.name], setting)),
        "left_out": ",".join(_left_out(values, setting)),
        choices.BY_SHUFFLE.name: ",".join(_listed(choices.BY_SHUFFLE, values, SHUFFLES, SHUFFLES)),
        choices.BY_READERS.name: ",".join(
            map(str, _readers(values[choices.BY_READERS.name], quick=quick))
        ),
        choices.BY_TIER.name: ",".join(_tiers(values, quick=quick)),
        choices.SAMPLES.name: values[choices.SAMPLES.name] or (512 if quick else 1024),
        choices.SAMPLE_BYTES.name: values[choices.SAMPLE_BYTES.name] or SIZE,
        "shards": _QUICK_SHARDS if quick else _SHARDS,
        "batch": _BATCH,
        choices.HITS.name: values[choices.HITS.name],
        choices.FOLDER.name: str(Path(str(folder)).absolute()) if folder else None,
        choices.DATA.name: str(Path(str(data)).absolute()) if data else None,
        "total": None,
        choices.KEEP.name: bool(values[choices.KEEP.name]),
        choices.DEMAND.name: values[choices.DEMAND.name],
        QUICK.name: quick,
    }
    if data:
        settled |= _own(Path(str(data)).absolute())
    samples = settled[choices.SAMPLES.name]
    per_shard = -(-int(samples or 0) // int(settled["shards"] or 1))
    return {**settled, choices.WINDOW.name: values[choices.WINDOW.name] or per_shard}


def _require_consistent(values: Values) -> None:
    if values[choices.FOLDER.name] and values[choices.DATA.name]:
        raise UsageError(
            "--folder and --data cannot be combined: the samples are either made or yours",
            next_step="leave one of them out",
        )
    if values[choices.KEEP.name] and not values[choices.FOLDER.name]:
        raise UsageError("--keep requires --folder", next_step="name the folder: --folder FOLDER")
    if values[choices.DATA.name]:
        for option in (choices.BY_FORMAT, choices.SAMPLES, choices.SAMPLE_BYTES):
            if values[option.name] is not None:
                raise UsageError(
                    f"{option.flag} and --data cannot be combined: your files are read unchanged",
                    next_step="leave one of them out",
                )
    if int(values[choices.HITS.name] or 0) > 100:
        raise UsageError(f"--hits {values[choices.HITS.name]}: must be from 0 to 100 percent")


def _own(folder: Path) -> dict[str, Value]:
    """Describe a user's own files, as the probe lists them."""
    sizes = place.sizes(folder)
    largest = max(sizes)
    if largest > _LARGEST_BATCH:
        raise UsageError(
            f"--data {folder}: a file of {largest:,} bytes is too large",
            why=f"each file is one sample and must fit in memory: at most {_LARGEST_BATCH:,} bytes",
            next_step="name a folder with one sample per file",
        )
    batch = max(1, min(_BATCH, _LARGEST_BATCH // max(1, largest)))
    workload: dict[str, Value] = {
        choices.BY_FORMAT.name: OWN,
        "left_out": "",
        choices.SAMPLES.name: len(sizes),
    }
    return {**workload, choices.SAMPLE_BYTES.name: 0, "total": sum(sizes), "batch": batch}


def _formats(choice: object, setting: ParameterContext) -> tuple[str, ...]:
    modules = setting.contents.modules
    if choice is None:
        return tuple(name for name, module in FORMATS.items() if not module or module in modules)
    words = _words(choices.BY_FORMAT, str(choice), tuple(FORMATS))
    choices.require_modules(choices.BY_FORMAT, str(choice), words, setting.contents)
    return words


def _left_out(values: Values, setting: ParameterContext) -> tuple[str, ...]:
    if values[choices.BY_FORMAT.name] is not None:
        return ()
    imports = setting.contents.modules
    return tuple(name for name, module in FORMATS.items() if module and module not in imports)


def _tiers(values: Values, *, quick: bool) -> tuple[str, ...]:
    tiers: tuple[str, ...] = ("cache", "disk")
    if values[choices.FOLDER.name] or values[choices.DATA.name]:
        tiers = ("cache", "folder", "staged", "mixed")
    return _listed(choices.BY_TIER, values, tiers, tiers[:2] if quick else tiers)


def _listed(
    option: Option, values: Values, allowed: tuple[str, ...], usual: tuple[str, ...]
) -> tuple[str, ...]:
    choice = values[option.name]
    return usual if choice is None else _words(option, str(choice), allowed)


def _words(option: Option, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in allowed:
            raise UsageError(
                f"{option.flag} {text}: '{word}' is not possible here",
                next_step=f"choose from: {', '.join(allowed)}",
            )
    return tuple(name for name in allowed if name in words)


def _readers(choice: object, *, quick: bool) -> tuple[int, ...]:
    if choice is None:
        return (0, 2) if quick else (0, 1, 2, 4)
    words = [word.strip() for word in str(choice).split(",")]
    if not all(word.isdecimal() and len(word) < 4 for word in words):
        raise UsageError(
            f"--readers {choice}: must be numbers separated by commas",
            next_step="give numbers, e.g. --readers 0,2",
        )
    counts = tuple(sorted({int(word) for word in words}))
    if counts[-1] > _MOST_READERS:
        raise UsageError(f"--readers {choice}: at most {_MOST_READERS} readers are possible")
    return counts


def _rounds(values: Values) -> int:
    return _QUICK_ROUNDS if values[QUICK.name] else _ROUNDS


def _arguments(cell: ProbeCell) -> tuple[str, ...]:
    names = (
        *("formats", "shuffles", "readers", "tiers", "samples", "shards", "window", "batch"),
        *("hits", "total"),
    )
    arguments = {name: cell.values[name] for name in names}
    arguments["size"] = cell.values[choices.SAMPLE_BYTES.name]
    return as_options({**arguments, "rounds": _rounds(cell.values), "seed": _SEED})


def _declared(cell: ProbeCell) -> "Mapping[str, Json]":
    return {**cell.values, "seed": _SEED}


def _rows(cell: ProbeCell) -> "RowPlan":
    from dlcontainer.bench.samples.rows.row_records import RowPlan

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
            f"--formats {cell.values['formats']} --shuffles full: nothing is left to measure",
            why="this format can't read one sample without its neighbours",
            next_step="use --shuffles window",
        )
    return RowPlan(rows=rows, rounds=_rounds(cell.values), curve="readers")


def _derived(declared: "SessionDeclaration") -> tuple[DerivedFigure, ...]:
    work = supply.EpochWork.of(declared)

    def rate(_row: Mapping[str, str | int], seconds: float) -> float | None:
        return work.samples / seconds if work.samples else None

    def megabytes(_row: Mapping[str, str | int], seconds: float) -> float | None:
        return work.total / seconds / 1e6 if work.total else None

    return (
        DerivedFigure(name="samples", unit="1/s", better="more", of=rate),
        DerivedFigure(name="rate", unit="MB/s", better="more", of=megabytes),
    )


def _unsaid(declared: "SessionDeclaration") -> str:
    omitted = declared.workload.get("left_out")
    out = f", the formats {str(omitted).replace(',', ', ')}" if omitted else ""
    return f"{out}, decoding and augmentation, many nodes that read at once"


INPUT = Probe(
    name="input",
    summary="Time of an epoch's reading by format, shuffle and tier: native against container.",
    metrics=ROWS_METRICS,
    options=choices.OPTIONS,
    settle=_settled,
    arguments=_arguments,
    declared=_declared,
    lends=place.lent,
    rows=_rows,
    derived=_derived,
    phases=lambda _stamps: ("data", "staged", "checked", "rows"),
    subject=lambda _declared: "Reading an epoch",
    task=lambda _declared: "reading an epoch's samples",
    unsaid_of=_unsaid,
    section=supply.section,
    alone="a launch is one process and its readers (--readers), no ranks",
)
