"""The ratios of a matrix as figures: each way to have the files against the reference, by ranks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.bench.report.svg import AxisScale as Axis
from dlcontainer.bench.report.tables import scale_tables
from dlcontainer.bench.scale.cells import MOUNT_WORDS, MatrixCell
from dlcontainer.bench.scale.matrix import FACTORS, CellFilter
from dlcontainer.bench.scale.matrix_analysis import CellContrast, CellRow
from dlcontainer.bench.scale.matrix_records import MatrixSession

# As many ways can be told apart in one figure; the reference is the line at 1.
_LOOKS = (
    MarkStyle(shape="diamond", style="pair"),
    MarkStyle(shape="triangle", style="joiner"),
    MarkStyle(shape="circle", style="between"),
    MarkStyle(shape="ring", style="control"),
)
_APART = 20.0
_SHARED = ("where", "state", "start")


@dataclass(frozen=True, kw_only=True, slots=True)
class MountSeries:
    """One way to have the files, over numbers of ranks in ascending order."""

    name: str
    rows: tuple[CellRow, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """The ways of one figure; `name` is what it does not share with the other figures."""

    name: str
    series: tuple[MountSeries, ...]


def reference(scale: MatrixSession) -> str:
    """Name what all cells are held against: the values that the matrix fixes."""
    fixed = CellFilter.model_validate(scale.header.declared.matrix["reference"])
    values = {name: getattr(fixed, name) for name in FACTORS}
    words = [_word(name, value) for name, value in values.items() if value is not None]
    return ", ".join(words) or "itself"


def _word(factor: str, value: object) -> str:
    if factor == "mount":
        return MOUNT_WORDS[str(value)]
    if factor in ("ranks", "nodes"):
        return f"{value} {factor[:-1] if value == 1 else factor}"
    return str(value)


def panels(rows: Sequence[CellRow]) -> tuple[Panel, ...]:
    """Return the figures: cells that differ in more than subject, opening and ranks never share
    one.

    Cells without a reference are in none.
    """
    kinds: dict[tuple[str, ...], dict[tuple[str, int], list[CellRow]]] = {}
    for row in rows:
        if row.contrast is not None:
            kind = tuple(str(getattr(row.cell, name)) for name in _SHARED)
            series = kinds.setdefault(kind, {})
            series.setdefault((_way(row.cell), row.cell.nodes), []).append(row)
    varied = [i for i in range(len(_SHARED)) if len({kind[i] for kind in kinds}) > 1]
    return tuple(
        Panel(name=", ".join(kind[i] for i in varied), series=part)
        for kind, series in kinds.items()
        for part in _parts(series)
    )


def _parts(series: dict[tuple[str, int], list[CellRow]]) -> Iterator[tuple[MountSeries, ...]]:
    every = [
        MountSeries(
            name=name if nodes == 1 else f"{name}, on {nodes} nodes",
            rows=tuple(sorted(cells, key=lambda row: row.cell.ranks)),
        )
        for (name, nodes), cells in series.items()
    ]
    for at in range(0, len(every), len(_LOOKS)):
        yield tuple(every[at : at + len(_LOOKS)])


def _way(cell: MatrixCell) -> str:
    return ", ".join(filter(None, (cell.subject, cell.open, cell.mount_words)))


def lines(panel: Panel, rows: Sequence[CellRow]) -> Iterator[int]:
    """Yield the lines of all launches behind a figure."""
    for row, contrast in _points(panel):
        yield from (
            launch.line for cell in (row, rows[contrast.reference]) for launch in cell.launches
        )


def figure(
    panel: Panel, rows: Sequence[CellRow], reference: str, anchor: str, *, listed: bool
) -> Markup:
    """Draw each way's ratio with its interval over ranks, on a logarithmic axis.

    `listed` launches are there as faint dots, a round each, that lead to their lines.
    """
    top, left, right = 24.0 + 17 * len(panel.series), 64.0, WIDTH - 56
    bottom = top + 240
    drawing = Drawing(title=_told(panel, reference), height=bottom + 44)
    counts = sorted({_ranks(row) for row, _ in _points(panel)})
    across = spanning(counts, left + 30, right - 30, log=True)
    up = spanning(_values(panel, rows), bottom, top, log=True)
    across = replace(across, labels=tuple((count, f"{count:,}") for count in counts))
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="ranks")
    vertical_axis(drawing, up, left=left, right=right, name="ratio of times")
    unity = up.at(1)
    drawing.line(left, unity, right, unity, "one")
    drawing.text(right + 6, unity - 5, "slower ↑", "tick")
    drawing.text(right + 6, unity + 13, "faster ↓", "tick")
    link = anchor if listed else ""
    for at, (line, look) in enumerate(zip(panel.series, _LOOKS, strict=False)):
        aside = (at - (len(panel.series) - 1) / 2) * _APART
        _draw(drawing, line, look, rows, _RatioAxes(across=across, up=up, aside=aside, link=link))
        legend(drawing, left + 6, 12.0 + 17 * at, [LegendEntry.of(line.name, look)])
    return drawing.svg()


@dataclass(frozen=True, kw_only=True, slots=True)
class _RatioAxes:
    across: Axis
    up: Axis
    # Beside the other ways of as many ranks.
    aside: float
    link: str


def _draw(
    drawing: Drawing, line: MountSeries, look: MarkStyle, rows: Sequence[CellRow], axes: _RatioAxes
) -> None:
    faint = MarkStyle(shape="dot", style=f"faint {look.style}")
    joined = []
    for row, contrast in _points(Panel(name="", series=(line,))):
        x = axes.across.at(_ranks(row)) + axes.aside
        for number, ratio, mine, theirs in _rounds(row, rows) if axes.link else ():
            hint = f"round {number + 1}: {ratio:.3f} (lines {min(mine, theirs)} and "
            hint += f"{max(mine, theirs)})"
            tip = Tip(hint=hint, link=scale_tables.place(axes.link, mine))
            drawing.mark(x + 8, axes.up.at(ratio), faint, tip)
        drawing.upright_whisker(
            axes.up, contrast.interval.low, contrast.interval.high, x, look.style
        )
        joined.append((x, axes.up.at(contrast.interval.ratio)))
    drawing.path(joined, f"thin {look.style}")
    for (x, y), (row, contrast) in zip(
        joined, _points(Panel(name="", series=(line,))), strict=True
    ):
        drawing.mark(x, y, look, Tip(hint=f"{row.cell.name}: {_interval(contrast)}"))


def _points(panel: Panel) -> Iterator[tuple[CellRow, CellContrast]]:
    for line in panel.series:
        yield from ((row, row.contrast) for row in line.rows if row.contrast is not None)


def _rounds(row: CellRow, rows: Sequence[CellRow]) -> Iterator[tuple[int, float, int, int]]:
    """Yield each round's ratio, with the lines of its two launches."""
    assert row.contrast is not None  # noqa: S101 - asked by who calls
    theirs = {launch.round: launch for launch in rows[row.contrast.reference].launches}
    for launch in row.launches:
        partner = theirs.get(launch.round)
        if partner is not None and launch.t_last_s and partner.t_last_s:
            yield launch.round, launch.t_last_s / partner.t_last_s, launch.line, partner.line


def _values(panel: Panel, rows: Sequence[CellRow]) -> list[float]:
    values = [1 / 1.1, 1.1]
    for row, contrast in _points(panel):
        ratio = contrast.interval.ratio
        values += [ratio, *(ratio for _, ratio, _, _ in _rounds(row, rows))]
        # A huge interval of few rounds would squeeze all else: it ends in arrows.
        values += [
            bound
            for bound in (contrast.interval.low, contrast.interval.high)
            if exp(-1) * ratio < bound < exp(1) * ratio
        ]
    return values


def _ranks(row: CellRow) -> int:
    return row.cell.ranks * row.cell.nodes


def _told(panel: Panel, reference: str) -> str:
    """Return words that say what the figure shows."""
    texts = [
        f"{line.name}: "
        + ", ".join(
            f"{_interval(contrast)} at {_word('ranks', _ranks(row))}"
            for row, contrast in _points(Panel(name="", series=(line,)))
        )
        for line in panel.series
    ]
    name = f", {panel.name}" if panel.name else ""
    return f"Ratio of times to the reference ({reference}) by ranks{name}. {'; '.join(texts)}."


def _interval(contrast: CellContrast) -> str:
    interval = contrast.interval
    if interval.low <= 0 or interval.high == float("inf"):
        return f"{interval.ratio:.3f} (too few rounds for an interval)"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})"
