"""A matrix as a section of a report: a table of cells, contrasts, ready times as distributions."""

from collections.abc import Sequence

from markupsafe import Markup

from dlcontainer.bench.ecdf import Ready
from dlcontainer.bench.plot import (
    WIDTH,
    Drawing,
    Scale,
    Shape,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.scale.analysis import Row, phases, ready
from dlcontainer.bench.scale.records import Launched
from dlcontainer.bench.scale.records import Scale as Measured
from dlcontainer.bench.tables import Table

# As many lines can be told apart in one figure; the first is the reference's.
_LOOKS: tuple[tuple[Shape, str], ...] = (
    ("circle", "reference"),
    ("diamond", "pair"),
    ("triangle", "joiner"),
    ("circle", "between"),
)


def headline(rows: Sequence[Row]) -> str:
    """Say the most important in a line."""
    said = [row.contrast.word for row in rows if row.contrast]
    measured = sum(bool(row.launches) for row in rows)
    faster, slower = said.count("FASTER"), said.count("SLOWER")
    return (
        f"{measured} cells measured; against their reference cells {faster} faster, {slower} "
        f"slower, {len(said) - faster - slower} not shown either way"
    )


def words(scale: Measured, rows: Sequence[Row]) -> str:
    """Say what was measured, and how far cold was shown."""
    declared, machine = scale.header.declared, scale.header.machine
    cold = [row for row in rows if row.cell.state == "cold" and row.launches]
    unproved = [row for row in cold if not all(one.before.is_proved for one in row.launches)]
    rounds = "1 round" if declared.rounds == 1 else f"{declared.rounds} rounds"
    opening = (
        f"Time until the last of the ranks has imported {declared.module}, from the launch's "
        f"first instruction; {rounds} on {machine.get('node')} ({machine.get('cores')} cores), "
        f"order drawn by seed {declared.seed}."
    )
    texts = [opening, "A launch is the unit; percentiles over ranks are descriptive."]
    layer = declared.matrix.get("stand_in")
    if isinstance(layer, dict):
        texts.append(
            f"What is `shared` lies behind the stand-in: profile {layer.get('profile')}, "
            f"{layer.get('latency_ms')} ms a metadata operation, {layer.get('read_latency_ms')} ms "
            "a read. Its server's own caches are warm."
        )
    if cold:
        texts.append(f"Cold is proved in {len(cold) - len(unproved)} of {len(cold)} cells.")
    if unproved:
        texts.append("In the others names or bytes may have been in memory: cold is unproved.")
    if scale.end is None or not scale.end.complete:
        why = scale.end.reason if scale.end else "it was cut"
        texts.append(f"The matrix is not whole: {why}.")
    return " ".join(texts)


def tables(scale: Measured, rows: Sequence[Row], anchor: str) -> tuple[Table, ...]:
    """Give the cells, the contrasts, and what was left out."""
    found = [
        Table(
            name="Cells",
            head=("cell", "last rank ready, s", "interval", "launches", "p50, s", "p95, s",
                  "max, s", "mounts", "FUSE processes", "cold", "bytes ready in, s"),
            rows=tuple(_cell(row) for row in rows),
            note="The median of launches, between two of them (order statistics; the share that "
            "these cover is theirs). p50, p95, max over all ranks. Mounts and FUSE processes: the "
            "most at a time on this node. Bringing the bytes there is in no launch's time.",
            numeric=True,
            anchor=anchor,
            ids=tuple(f"{anchor}-{row.number}" for row in rows),
        ),
        Table(
            name="Against the reference cell",
            head=("cell", "reference", "ratio", "interval", "rounds", "p (Holm)", "reading"),
            rows=tuple(_contrast(row, rows) for row in rows if row.contrast),
            note="Ratio of times within a round, 95 % t interval over rounds. FASTER or SLOWER "
            "only where the whole interval lies on one side of 1 and Holm's p over cells agrees.",
            numeric=True,
        ),
    ]  # fmt: skip
    gone = [(item.cell, item.why) for item in scale.header.left_out]
    gone += [(row.cell.name, f"failed: {row.failed}") for row in rows if row.failed]
    found.append(Table(name="Not measured", head=("cell", "why"), rows=tuple(gone)))
    return tuple(table for table in found if table.rows)


def phase_table(rows: Sequence[Row]) -> tuple[Table, ...]:
    """Give where the time of each cell's ranks goes."""
    found = [(row, phases(row)) for row in rows if row.launches]
    names = tuple(dict.fromkeys(name for _, own in found for name in own))
    lengths = [
        (row.cell.name, *(f"{own[name]:.3f}" if name in own else "" for name in names))
        for row, own in found
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


def _cell(row: Row) -> tuple[str, ...]:
    if row.last is None:
        return (row.cell.name, *[""] * 10)
    ranks = Ready(name=row.cell.name, unit="ranks", points=tuple((t, 0) for t in row.ranks))
    shares = [f"{ranks.quantile(s):.3f}" for s in (0.5, 0.95, 1.0)] if row.ranks else [""] * 3
    return (
        row.cell.name,
        f"{row.last.middle:.3f}",
        f"{row.last.low:.3f} to {row.last.high:.3f} ({row.last.level:.0%})",
        str(len(row.launches)),
        *shares,
        _most(row, "image_mounts"),
        _most(row, "fuse_processes"),
        _coldness(row.launches) if row.cell.state == "cold" else "warm",
        f"{max(one.ready_s for one in row.launches):.3g}",
    )


def _most(row: Row, name: str) -> str:
    counts = [one.mounted.get(name) for one in row.launches]
    known = [count for count in counts if isinstance(count, int)]
    return str(max(known)) if known else ""


def _coldness(launches: Sequence[Launched]) -> str:
    """Say how cold it was, and whether that was shown."""
    proved = all(one.before.is_proved for one in launches)
    methods = " / ".join(dict.fromkeys(one.before.method for one in launches))
    shares = [one.before.resident for one in launches if one.before.resident is not None]
    read = max((one.read_bytes or 0 for one in launches), default=0) / 1e6
    held = f"{max(shares):.1%} in memory before" if shares else "memory unknown"
    return f"{'proved' if proved else 'unproved'}: {methods}; {held}; {read:.1f} MB read"


def _contrast(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    own = row.contrast
    assert own is not None  # noqa: S101 - asked by who calls
    return (
        row.cell.name,
        rows[own.reference].cell.name,
        f"{own.interval.ratio:.3f}",
        f"{own.interval.low:.3f} to {own.interval.high:.3f}",
        str(own.rounds),
        f"{own.p_holm:.2g}",
        own.word,
    )


def lines(rows: Sequence[Row]) -> tuple[str, ...]:
    """Give a line a cell, for a terminal."""
    return tuple(_line(row, rows) for row in rows)


def _line(row: Row, rows: Sequence[Row]) -> str:
    if row.last is None:
        return f"{row.cell.name}: not measured: {row.failed}"
    text = f"{row.cell.name}: {row.last.middle:.3f} s ({row.last.low:.3f} to {row.last.high:.3f}, "
    text += f"{row.last.level:.0%})"
    if row.failed:
        text += f", failed later: {row.failed}"
    if row.contrast is not None:
        interval, other = row.contrast.interval, rows[row.contrast.reference]
        text += f"; {interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f}) of "
        text += f"[{other.cell.name}]: {row.contrast.word}"
    return text


def groups(rows: Sequence[Row]) -> list[list[Row]]:
    """Give the cells of each figure: a reference cell and some that are held against it."""
    found: list[list[Row]] = []
    references = dict.fromkeys(row.contrast.reference for row in rows if row.contrast)
    most = len(_LOOKS) - 1
    for number in references:
        own = [row for row in rows if row.contrast and row.contrast.reference == number]
        found += [[rows[number], *own[at : at + most]] for at in range(0, len(own), most)]
    return found or [list(rows[: most + 1])]


def figure(group: Sequence[Row], link: str) -> Markup:
    """Draw the share of ranks that are ready over time, a step line a cell."""
    top, left, right = 24.0 + 17 * len(group), 64.0, WIDTH - 20
    bottom = top + 216
    drawing = Drawing(title="Share of ranks that are ready, over time", height=bottom + 44)
    shown = [(row, sorted(t for x in row.launches for t in ready(x))) for row in group]
    across = spanning([time for _, times in shown for time in times], left, right)
    up = Scale(low=0.0, high=1.0, start=bottom, end=top)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="seconds until ready")
    vertical_axis(drawing, up, left=left, right=right, name="share of ranks")
    for (row, times), (shape, style) in zip(shown, _LOOKS, strict=False):
        corners = [(left, up.at(0))]
        for number, time in enumerate(times, start=1):
            corners += [
                (across.at(time), corners[-1][1]),
                (across.at(time), up.at(number / len(times))),
            ]
        drawing.path([*corners, (right, up.at(1))], f"step {style}")
        if times:
            hint = f"{row.cell.name}: the last of {len(times)} at {times[-1]:.4g} s"
            drawing.mark(across.at(times[-1]), up.at(1), shape, style, hint, f"{link}-{row.number}")
    for at, (row, (shape, style)) in enumerate(zip(group, _LOOKS, strict=False)):
        legend(drawing, left + 6, 12.0 + 17 * at, [(shape, style, row.cell.name)])
    return drawing.svg()
