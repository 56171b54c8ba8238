"""What a matrix's launches say: each cell alone, and against its reference cell. Pure.

The unit is a launch. Ranks of one launch are not replicates: their percentiles are descriptive. A
contrast pairs the two cells' launches of a round: d = log of the ratio of their times, with a t
interval over rounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.scale import cells as cells_
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.bench.scale.matrix import CellFilter
from dlcontainer.bench.scale.matrix_records import CellLaunch, MatrixSession
from dlcontainer.bench.stats import linear, paired, student_t
from dlcontainer.bench.stats.paired import Interval

LEVEL = 0.95
# Fewer rounds have no word: a t interval of three differences says next to nothing.
FEWEST = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Median:
    """A median between two order statistics; `level` is what they cover in truth."""

    middle: float
    low: float
    high: float
    level: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CellContrast:
    """A cell against its reference cell; `rounds` pairs, p by Holm over all contrasts."""

    reference: int
    interval: Interval
    rounds: int
    p_holm: float
    word: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CellRow:
    """A cell: its launches that were measured, and what they say."""

    number: int
    cell: MatrixCell
    launches: tuple[CellLaunch, ...]
    failed: str
    last: Median | None
    ranks: tuple[float, ...]
    contrast: CellContrast | None = None

    @property
    def times(self) -> tuple[float, ...]:
        """Times until the last rank was ready, in the order of rounds."""
        return tuple(launch.t_last_s for launch in self.launches if launch.t_last_s is not None)


def rows(scale: MatrixSession) -> tuple[CellRow, ...]:
    """Return each cell with its contrast."""
    cells_read = [_row(scale, number, cell) for number, cell in enumerate(scale.cells)]
    reference = CellFilter.model_validate(scale.header.declared.matrix["reference"])
    measured = [row.cell for row in cells_read if row.launches]
    by_cell = {row.cell: row for row in cells_read}
    by_number: dict[int, tuple[CellRow, list[float]]] = {}
    for row in cells_read:
        reference_cell = cells_.reference_of(row.cell, reference, measured)
        if reference_cell is not None and reference_cell != row.cell and row.launches:
            by_number[row.number] = (
                by_cell[reference_cell],
                _differences(by_cell[reference_cell], row),
            )
    adjusted = paired.holm([p_of(d) for _, d in by_number.values()])
    contrasts = {
        number: _contrast(reference_row, d, p)
        for (number, (reference_row, d)), p in zip(by_number.items(), adjusted, strict=True)
    }
    return tuple(replace(row, contrast=contrasts.get(row.number)) for row in cells_read)


def _row(scale: MatrixSession, number: int, cell: MatrixCell) -> CellRow:
    launches = sorted((x for x in scale.launches if x.cell == number), key=lambda x: x.round)
    good = tuple(
        launch for launch in launches if launch.error is None and (launch.t_last_s or 0) > 0
    )
    times = sorted(launch.t_last_s for launch in good if launch.t_last_s is not None)
    return CellRow(
        number=number,
        cell=cell,
        launches=good,
        failed=next((launch.error for launch in launches if launch.error), ""),
        last=median(times) if times else None,
        ranks=tuple(sorted(time for launch in good for time in ready(launch))),
    )


def ready(launch: CellLaunch) -> list[float]:
    """Return when each rank of a launch was ready, s."""
    values = (rank.get("values") for rank in launch.ranks)
    walls = [figures.get("wall_s") for figures in values if isinstance(figures, Mapping)]
    return [float(wall) for wall in walls if isinstance(wall, int | float)]


def phases(row: CellRow) -> dict[str, float]:
    """Return the median length of each phase over all ranks of all launches, s, in their order."""
    lengths: dict[str, list[float]] = {}
    for rank in (rank for launch in row.launches for rank in launch.ranks):
        rank_phases = rank.get("phases")
        for name, length in rank_phases.items() if isinstance(rank_phases, Mapping) else ():
            if isinstance(length, int | float):
                lengths.setdefault(name, []).append(float(length))
    return {name: linear.median(sorted(lengths)) for name, lengths in lengths.items()}


def node_max(launch: CellLaunch) -> dict[str, float]:
    """Return when the last rank of each node was ready, s."""
    by_node: dict[str, float] = {}
    for rank in launch.ranks:
        node, values = str(rank.get("node")), rank.get("values")
        wall = values.get("wall_s") if isinstance(values, Mapping) else None
        if isinstance(wall, int | float):
            by_node[node] = max(by_node.get(node, 0.0), float(wall))
    return by_node


def median(ordered: Sequence[float]) -> Median:
    """Return the median with the narrowest pair of order statistics that covers LEVEL, if any does.

    The coverage is binomial: without supposing a distribution. Of fewer than six values the two
    outermost cover less, which is then said.
    """
    count = len(ordered)
    best = 0
    for k in range(count // 2):
        if _covered(count, k) >= LEVEL:
            best = k
    return Median(
        middle=linear.median(ordered),
        low=ordered[best],
        high=ordered[count - 1 - best],
        level=_covered(count, best),
    )


def _covered(count: int, k: int) -> float:
    """Return the probability that the median lies between the (k+1)-th from below and from
    above.
    """
    outside = sum(math.comb(count, i) for i in range(k + 1)) / math.pow(2, count)
    return max(0.0, 1 - 2 * outside)


def _differences(reference: CellRow, row: CellRow) -> list[float]:
    theirs = {launch.round: launch.t_last_s for launch in reference.launches}
    return [
        math.log(launch.t_last_s / reference_s)
        for launch in row.launches
        if launch.t_last_s and (reference_s := theirs.get(launch.round))
    ]


def p_of(differences: Sequence[float]) -> float:
    """Return the two-sided p of a ratio of 1; 1 below FEWEST rounds."""
    count = len(differences)
    if count < FEWEST:
        return 1.0
    mean = math.fsum(differences) / count
    se = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (count - 1) / count)
    if se == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * student_t.tail(abs(mean) / se, count - 1)


def _contrast(reference: CellRow, differences: Sequence[float], p: float) -> CellContrast | None:
    if not differences:
        return None
    interval = paired.mean_interval(differences, LEVEL)
    return CellContrast(
        reference=reference.number,
        interval=interval,
        rounds=len(differences),
        p_holm=p,
        word=_word(interval, len(differences), p),
    )


def _word(interval: Interval, rounds: int, p: float) -> str:
    if rounds < FEWEST:
        return f"no word: fewer than {FEWEST} rounds"
    if p > 1 - LEVEL or not interval.excludes_one():
        return "not shown either way"
    return "FASTER" if interval.high < 1 else "SLOWER"
