"""The ratios of a matrix as figures: each way to have the files against the reference, by ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    Drawing,
    Entry,
    Look,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.report.svg import Scale as Axis
from dlcontainer.bench.report.tables import scale_tables
from dlcontainer.bench.scale.analysis import Contrast, Row
from dlcontainer.bench.scale.cells import MOUNT_WORDS, Cell
from dlcontainer.bench.scale.matrix import FACTORS, Some
from dlcontainer.bench.scale.records import Scale

# As many ways can be told apart in one figure; the reference is the line at 1.
_LOOKS = (
    Look(shape="diamond", style="pair"),
    Look(shape="triangle", style="joiner"),
    Look(shape="circle", style="between"),
    Look(shape="ring", style="control"),
)
_APART = 20.0
_SHARED = ("where", "state", "start")


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way to have the files, over numbers of ranks in ascending order."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """The ways of one figure; `name` is what it does not share with the other figures."""

    name: str
    ways: tuple[Way, ...]


def reference(scale: Scale) -> str:
    """Name what all cells are held against: the values that the matrix fixes."""
    fixed = Some.model_validate(scale.header.declared.matrix["reference"])
    values = {name: getattr(fixed, name) for name in FACTORS}
    words = [_word(name, value) for name, value in values.items() if value is not None]
    return ", ".join(words) or "itself"


def _word(factor: str, value: object) -> str:
    if factor == "mount":
        return MOUNT_WORDS[str(value)]
    if factor in ("ranks", "nodes"):
        return f"{value} {factor[:-1] if value == 1 else factor}"
    return str(value)


def panels(rows: Sequence[Row]) -> tuple[Panel, ...]:
    """Give the figures: cells that differ in more than subject, opening and ranks never share one.

    Cells without a reference are in none.
    """
    kinds: dict[tuple[str, ...], dict[tuple[str, int], list[Row]]] = {}
    for row in rows:
        if row.contrast is not None:
            kind = tuple(str(getattr(row.cell, name)) for name in _SHARED)
            ways = kinds.setdefault(kind, {})
            ways.setdefault((_way(row.cell), row.cell.nodes), []).append(row)
    varied = [i for i in range(len(_SHARED)) if len({kind[i] for kind in kinds}) > 1]
    return tuple(
        Panel(name=", ".join(kind[i] for i in varied), ways=part)
        for kind, ways in kinds.items()
        for part in _parts(ways)
    )


def _parts(ways: dict[tuple[str, int], list[Row]]) -> Iterator[tuple[Way, ...]]:
    every = [
        Way(
            name=name if nodes == 1 else f"{name}, on {nodes} nodes",
            rows=tuple(sorted(own, key=lambda row: row.cell.ranks)),
        )
        for (name, nodes), own in ways.items()
    ]
    for at in range(0, len(every), len(_LOOKS)):
        yield tuple(every[at : at + len(_LOOKS)])


def _way(cell: Cell) -> str:
    return ", ".join(filter(None, (cell.subject, cell.open, cell.mount_words)))


def lines(panel: Panel, rows: Sequence[Row]) -> Iterator[int]:
    """Give the lines of all launches behind a figure."""
    for row, contrast in _points(panel):
        yield from (one.line for own in (row, rows[contrast.reference]) for one in own.launches)


def figure(panel: Panel, rows: Sequence[Row], held: str, anchor: str, *, listed: bool) -> Markup:
    """Draw each way's ratio with its interval over ranks, on a logarithmic axis.

    `listed` launches are there as faint dots, a round each, that lead to their lines.
    """
    top, left, right = 24.0 + 17 * len(panel.ways), 64.0, WIDTH - 56
    bottom = top + 240
    drawing = Drawing(title=_told(panel, held), height=bottom + 44)
    counts = sorted({_ranks(row) for row, _ in _points(panel)})
    across = spanning(counts, left + 30, right - 30, log=True)
    up = spanning(_values(panel, rows), bottom, top, log=True)
    across = replace(across, labels=tuple((count, f"{count:,}") for count in counts))
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="ranks")
    vertical_axis(drawing, up, left=left, right=right, name="ratio of times")
    one = up.at(1)
    drawing.line(left, one, right, one, "one")
    drawing.text(right + 6, one - 5, "slower ↑", "tick")
    drawing.text(right + 6, one + 13, "faster ↓", "tick")
    link = anchor if listed else ""
    for at, (way, look) in enumerate(zip(panel.ways, _LOOKS, strict=False)):
        aside = (at - (len(panel.ways) - 1) / 2) * _APART
        _draw(drawing, way, look, rows, _Axes(across=across, up=up, aside=aside, link=link))
        legend(drawing, left + 6, 12.0 + 17 * at, [Entry.of(way.name, look)])
    return drawing.svg()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Axes:
    across: Axis
    up: Axis
    # Beside the other ways of as many ranks.
    aside: float
    link: str


def _draw(drawing: Drawing, way: Way, look: Look, rows: Sequence[Row], axes: _Axes) -> None:
    faint = Look(shape="dot", style=f"faint {look.style}")
    joined = []
    for row, own in _points(Panel(name="", ways=(way,))):
        x = axes.across.at(_ranks(row)) + axes.aside
        for number, ratio, mine, theirs in _rounds(row, rows) if axes.link else ():
            hint = f"round {number + 1}: {ratio:.3f} (lines {min(mine, theirs)} and "
            hint += f"{max(mine, theirs)})"
            tip = Tip(hint=hint, link=scale_tables.place(axes.link, mine))
            drawing.mark(x + 8, axes.up.at(ratio), faint, tip)
        drawing.upright_whisker(axes.up, own.interval.low, own.interval.high, x, look.style)
        joined.append((x, axes.up.at(own.interval.ratio)))
    drawing.path(joined, f"thin {look.style}")
    for (x, y), (row, own) in zip(joined, _points(Panel(name="", ways=(way,))), strict=True):
        drawing.mark(x, y, look, Tip(hint=f"{row.cell.name}: {_interval(own)}"))


def _points(panel: Panel) -> Iterator[tuple[Row, Contrast]]:
    for way in panel.ways:
        yield from ((row, row.contrast) for row in way.rows if row.contrast is not None)


def _rounds(row: Row, rows: Sequence[Row]) -> Iterator[tuple[int, float, int, int]]:
    """Give each round's ratio, with the lines of its two launches."""
    assert row.contrast is not None  # noqa: S101 - asked by who calls
    theirs = {one.round: one for one in rows[row.contrast.reference].launches}
    for one in row.launches:
        other = theirs.get(one.round)
        if other is not None and one.t_last_s and other.t_last_s:
            yield one.round, one.t_last_s / other.t_last_s, one.line, other.line


def _values(panel: Panel, rows: Sequence[Row]) -> list[float]:
    values = [1 / 1.1, 1.1]
    for row, own in _points(panel):
        ratio = own.interval.ratio
        values += [ratio, *(ratio for _, ratio, _, _ in _rounds(row, rows))]
        # A huge interval of few rounds would squeeze all else: it ends in arrows.
        values += [
            bound
            for bound in (own.interval.low, own.interval.high)
            if exp(-1) * ratio < bound < exp(1) * ratio
        ]
    return values


def _ranks(row: Row) -> int:
    return row.cell.ranks * row.cell.nodes


def _told(panel: Panel, held: str) -> str:
    """Say in words what the figure shows."""
    ways = [
        f"{way.name}: "
        + ", ".join(
            f"{_interval(own)} at {_word('ranks', _ranks(row))}"
            for row, own in _points(Panel(name="", ways=(way,)))
        )
        for way in panel.ways
    ]
    name = f", {panel.name}" if panel.name else ""
    return f"Ratio of times to the reference ({held}) by ranks{name}. {'; '.join(ways)}."


def _interval(own: Contrast) -> str:
    interval = own.interval
    if interval.low <= 0 or interval.high == float("inf"):
        return f"{interval.ratio:.3f} (too few rounds for an interval)"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})"
