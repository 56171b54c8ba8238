"""A matrix as a section of a report: its words and tables."""

import math
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.bench.report.figures import scale_ratios
from dlcontainer.bench.report.figures.ecdf import ReadyTimes
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.tables import scale_glossary, site_tables
from dlcontainer.bench.samples.records import SURROUNDINGS
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.scale.matrix_analysis import FEWEST, CellContrast, CellRow, Median, phases
from dlcontainer.bench.scale.matrix_records import CellLaunch
from dlcontainer.bench.scale.matrix_records import MatrixSession as Measured
from dlcontainer.bench.stats import linear


def headline(scale: Measured, rows: Sequence[CellRow]) -> str:
    """Return the words for the most important in a line."""
    words = [row.contrast.word for row in rows if row.contrast]
    faster, slower = words.count("FASTER"), words.count("SLOWER")
    parts = ((faster, "faster"), (slower, "slower"))
    counts = [f"{count} {word}" for count, word in parts if count]
    if rest := len(words) - faster - slower:
        counts.append(f"{rest} not shown either way")
    if not counts:
        measured = sum(bool(row.launches) for row in rows)
        return f"{counted(measured, 'cell')} measured, none against another"
    reference = scale_ratios.reference(scale)
    return f"Of {counted(len(words), 'cell')} against {reference}: {', '.join(counts)}"


def words(scale: Measured, rows: Sequence[CellRow]) -> str:
    """Return what was measured, and how far cold was shown."""
    declared, machine = scale.header.declared, scale.header.machine
    measured = sum(bool(row.launches) for row in rows)
    opening = (
        "Time from the launch's first instruction until the last of its ranks has imported "
        f"{declared.module}. Measured: {counted(measured, 'cell')} (each one combination of the "
        f"words below), {counted(declared.rounds, 'round')} of them, on "
        f"{machine.get('node')} ({machine.get('cores')} cores), in an order drawn by "
        f"seed {declared.seed}."
    )
    texts = [
        opening,
        "What is compared are launches: the ranks of one launch are not replicates.",
        *_layer(declared.matrix.get("stand_in")),
        *_loads(scale),
        *_proofs(rows),
    ]
    if scale.end is None or not scale.end.complete:
        why = scale.end.reason if scale.end else "it was cut"
        texts.append(f"The matrix is not whole: {why}.")
    return " ".join(texts)


def _layer(layer: object) -> Iterator[str]:
    if isinstance(layer, Mapping):
        source = layer.get("source")
        origin = f"The delay is taken from {source}." if source else "The delay is an assumption."
        yield (
            "What is shared lies behind a stand-in for a slow file system, whose clients cache as "
            f"{layer.get('profile')}'s do, with {layer.get('latency_ms'):g} ms for a metadata "
            f"operation and {layer.get('read_latency_ms'):g} ms for a read. {origin} The caches of "
            "its server are warm."
        )


def _loads(scale: Measured) -> Iterator[str]:
    loads = sorted(launch.load_1min for launch in scale.launches)
    if loads:
        yield (
            f"The machine's load before a launch was {loads[0]:.1f} to {loads[-1]:.1f}, in the "
            f"median {linear.median(loads):.1f}; the launches before are in it."
        )


def _proofs(rows: Sequence[CellRow]) -> Iterator[str]:
    cold = [row for row in rows if row.cell.state == "cold" and row.launches]
    unproved = [row for row in cold if not all(launch.before.is_proved for launch in row.launches)]
    if cold:
        yield f"Cold is proved in {len(cold) - len(unproved)} of {counted(len(cold), 'cold cell')}."
    if unproved:
        yield "In the others names or bytes may have been in memory: cold is unproved."


def tables(scale: Measured, rows: Sequence[CellRow], anchor: str) -> tuple[Table, ...]:
    """Return the cells, the contrasts, what was cold and mounted, what failed, and the words."""
    failed = Table(
        name="Failed",
        head=("cell", "why"),
        rows=tuple((row.cell.name, row.failed) for row in rows if row.failed),
    )
    cell_tables = (
        _contrasts(scale, rows),
        _cells(rows, anchor),
        _grounds(rows),
        failed,
        _around(scale),
        scale_glossary.table(scale),
    )
    return tuple(table for table in cell_tables if table.rows)


def _around(scale: Measured) -> Table:
    declared = scale.header.declared
    parts = (subject.get(SURROUNDINGS) for subject in declared.subjects.values())
    return site_tables.around(declared.site, next(filter(None, parts), None))


def _contrasts(scale: Measured, rows: Sequence[CellRow]) -> Table:
    return Table(
        name="Against the reference cell",
        head=("cell", "ratio", "interval", "rounds", "p (Holm)", "reading"),
        rows=tuple(_contrast(row) for row in rows if row.contrast),
        note=f"Reference: {scale_ratios.reference(scale)}, all else as in the cell. Ratio of times "
        "within a round, with a 95 % t interval over rounds. FASTER or SLOWER only where the "
        "whole interval lies on one side of 1 and p, by Holm over all cells, is at most 0.05.",
        numeric=True,
    )


def _cells(rows: Sequence[CellRow], anchor: str) -> Table:
    return Table(
        name="Cells",
        head=("cell", "last rank ready, s", "between, s", "launches", "p50, s", "p95, s", "max, s"),
        rows=tuple(_cell(row) for row in rows),
        note="Last rank ready: the median over launches; it lies between the two that follow "
        "with the probability in brackets (order statistics). p50, p95 and max are over all "
        "ranks of all launches, and descriptive.",
        numeric=True,
        anchor=anchor,
        ids=tuple(f"{anchor}-{row.number}" for row in rows),
    )


def _grounds(rows: Sequence[CellRow]) -> Table:
    return Table(
        name="Cold and mounts",
        head=("cell", "before a launch", "read in a launch", "mounts", "FUSE processes",
              "brought in, s"),
        rows=tuple(_ground(row) for row in rows if row.launches),
        note="Read: the most from a device, or through the stand-in. Mounts and FUSE "
        "processes of the image: the most at a time on this node. Brought in: the seconds "
        "until the bytes were there (copied, packed or unpacked), in no launch's time.",
        numeric=True,
    )  # fmt: skip


def left_out(scale: Measured) -> tuple[Table, ...]:
    """Return the combinations that were not to be measured, or can't be."""
    gone = tuple((item.cell, item.why) for item in scale.header.left_out)
    name = f"Not measured: {len(gone)} combinations"
    return (Table(name=name, head=("combination", "why"), rows=gone),) if gone else ()


def phase_table(rows: Sequence[CellRow]) -> tuple[Table, ...]:
    """Return where the time of each cell's ranks goes."""
    with_phases = [(row, phases(row)) for row in rows if row.launches]
    names = tuple(dict.fromkeys(name for _, phase_s in with_phases for name in phase_s))
    lengths = [
        (row.cell.name, *(f"{phase_s[name]:.3f}" if name in phase_s else "" for name in names))
        for row, phase_s in with_phases
    ]
    table = Table(
        name="Phases of ranks, s",
        head=("cell", *names),
        rows=tuple(lengths),
        note="Medians over all ranks. What is mounted once a node is in `launcher`; what each rank "
        "mounts, and starts of the engine, in `runtime`.",
        numeric=True,
    )
    return (table,) if table.rows else ()


def _cell(row: CellRow) -> tuple[str, ...]:
    if row.last is None:
        return (row.cell.name, *[""] * 6)
    ranks = ReadyTimes(name=row.cell.name, unit="ranks", points=tuple((t, 0) for t in row.ranks))
    shares = [f"{ranks.quantile(s):.3f}" for s in (0.5, 0.95, 1.0)] if row.ranks else [""] * 3
    return (
        row.cell.name,
        f"{row.last.middle:.3f}",
        _between(row.last),
        str(len(row.launches)),
        *shares,
    )


def _between(last: Median) -> str:
    if last.level <= 0:
        return "one launch"
    return f"{last.low:.3f} to {last.high:.3f} ({100 * last.level:.0f} %)"


def _ground(row: CellRow) -> tuple[str, ...]:
    return (
        row.cell.name,
        _coldness(row.launches) if row.cell.state == "cold" else "warm",
        _read(row.launches),
        _most(row, "image_mounts"),
        _most(row, "fuse_processes"),
        f"{max(launch.ready_s for launch in row.launches):.3g}",
    )


def _most(row: CellRow, name: str) -> str:
    counts = [launch.mounted.get(name) for launch in row.launches]
    numbers = [count for count in counts if isinstance(count, int)]
    return str(max(numbers)) if numbers else ""


def _coldness(measured: Sequence[CellLaunch]) -> str:
    """Return how cold it was, and whether that was shown."""
    proved = all(launch.before.is_proved for launch in measured)
    methods = " / ".join(dict.fromkeys(launch.before.method for launch in measured))
    shares = [launch.before.resident for launch in measured if launch.before.resident is not None]
    share = f"{100 * max(shares):.1f} % in memory" if shares else "memory unknown"
    return f"{'proved' if proved else 'unproved'}: {methods}; {share}"


def _read(measured: Sequence[CellLaunch]) -> str:
    """Return the words for the most that a launch read; what went through the stand-in comes from
    no device.
    """
    through = [(launch.stand_in or {}).get("bytes") for launch in measured]
    layered = [count for count in through if isinstance(count, int)]
    most = max(layered or [launch.read_bytes or 0 for launch in measured], default=0)
    return f"{most / 1e6:.2f} MB"


def _contrast(row: CellRow) -> tuple[str, ...]:
    contrast = row.contrast
    assert contrast is not None  # noqa: S101 - asked by who calls
    few = contrast.rounds < FEWEST
    return (
        row.cell.name,
        f"{contrast.interval.ratio:.3f}",
        _bounds(contrast),
        str(contrast.rounds),
        "" if few else f"{contrast.p_holm:.2g}",
        contrast.word,
    )


def _bounds(contrast: CellContrast) -> str:
    low, high = contrast.interval.low, contrast.interval.high
    return "none: one round" if math.isinf(high) else f"{low:.3f} to {high:.3f}"


def lines(rows: Sequence[CellRow]) -> tuple[str, ...]:
    """Return a line a cell, for a terminal."""
    return tuple(_line(row, rows) for row in rows)


def _line(row: CellRow, rows: Sequence[CellRow]) -> str:
    if row.last is None:
        return f"{row.cell.name}: not measured: {row.failed}"
    text = f"{row.cell.name}: {row.last.middle:.3f} s [{_between(row.last)}]"
    if row.failed:
        text += f", failed later: {row.failed}"
    if row.contrast is not None:
        interval, reference = row.contrast.interval, rows[row.contrast.reference]
        text += f"; {interval.ratio:.3f} [{_bounds(row.contrast)}] of "
        text += f"({reference.cell.name}): {row.contrast.word}"
    return text
