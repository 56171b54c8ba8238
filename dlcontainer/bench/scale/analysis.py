"""What a matrix's launches say: each cell alone, and against its reference cell. Pure.

The unit is a launch. Ranks of one launch are not replicates: their percentiles are descriptive. A
contrast pairs the two cells' launches of a round: d = log of the ratio of their times, with a t
interval over rounds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.scale import cells as cells_
from dlcontainer.bench.scale.cells import Cell
from dlcontainer.bench.scale.matrix import Some
from dlcontainer.bench.scale.records import Launched, Scale
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
class Contrast:
    """A cell against its reference cell; `rounds` pairs, p by Holm over all contrasts."""

    reference: int
    interval: Interval
    rounds: int
    p_holm: float
    word: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A cell: its launches that were measured, and what they say."""

    number: int
    cell: Cell
    launches: tuple[Launched, ...]
    failed: str
    last: Median | None
    ranks: tuple[float, ...]
    contrast: Contrast | None = None

    @property
    def times(self) -> tuple[float, ...]:
        """Times until the last rank was ready, in the order of rounds."""
        return tuple(one.t_last_s for one in self.launches if one.t_last_s is not None)


def rows(scale: Scale) -> tuple[Row, ...]:
    """Give each cell with its contrast."""
    found = [_row(scale, number, cell) for number, cell in enumerate(scale.cells)]
    reference = Some.model_validate(scale.header.declared.matrix["reference"])
    measured = [row.cell for row in found if row.launches]
    by_cell = {row.cell: row for row in found}
    held: dict[int, tuple[Row, list[float]]] = {}
    for row in found:
        other = cells_.reference_of(row.cell, reference, measured)
        if other is not None and other != row.cell and row.launches:
            held[row.number] = (by_cell[other], _differences(by_cell[other], row))
    adjusted = paired.holm([p_of(d) for _, d in held.values()])
    contrasts = {
        number: _contrast(other, d, p)
        for (number, (other, d)), p in zip(held.items(), adjusted, strict=True)
    }
    return tuple(replace(row, contrast=contrasts.get(row.number)) for row in found)


def _row(scale: Scale, number: int, cell: Cell) -> Row:
    own = sorted((x for x in scale.launches if x.cell == number), key=lambda x: x.round)
    good = tuple(one for one in own if one.error is None and (one.t_last_s or 0) > 0)
    times = sorted(one.t_last_s for one in good if one.t_last_s is not None)
    return Row(
        number=number,
        cell=cell,
        launches=good,
        failed=next((one.error for one in own if one.error), ""),
        last=median(times) if times else None,
        ranks=tuple(sorted(time for one in good for time in ready(one))),
    )


def ready(launch: Launched) -> list[float]:
    """Give when each rank of a launch was ready, s."""
    values = (rank.get("values") for rank in launch.ranks)
    walls = [own.get("wall_s") for own in values if isinstance(own, Mapping)]
    return [float(wall) for wall in walls if isinstance(wall, int | float)]


def phases(row: Row) -> dict[str, float]:
    """Give the median length of each phase over all ranks of all launches, s, in their order."""
    found: dict[str, list[float]] = {}
    for rank in (rank for one in row.launches for rank in one.ranks):
        own = rank.get("phases")
        for name, length in own.items() if isinstance(own, Mapping) else ():
            if isinstance(length, int | float):
                found.setdefault(name, []).append(float(length))
    return {name: linear.median(sorted(lengths)) for name, lengths in found.items()}


def node_max(launch: Launched) -> dict[str, float]:
    """Give when the last rank of each node was ready, s."""
    found: dict[str, float] = {}
    for rank in launch.ranks:
        node, values = str(rank.get("node")), rank.get("values")
        wall = values.get("wall_s") if isinstance(values, Mapping) else None
        if isinstance(wall, int | float):
            found[node] = max(found.get(node, 0.0), float(wall))
    return found


def median(ordered: Sequence[float]) -> Median:
    """Give the median with the narrowest pair of order statistics that covers LEVEL, if any does.

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
    """Give the probability that the median lies between the (k+1)-th from below and from above."""
    outside = sum(math.comb(count, i) for i in range(k + 1)) / math.pow(2, count)
    return max(0.0, 1 - 2 * outside)


def _differences(reference: Row, row: Row) -> list[float]:
    theirs = {one.round: one.t_last_s for one in reference.launches}
    return [
        math.log(one.t_last_s / other)
        for one in row.launches
        if one.t_last_s and (other := theirs.get(one.round))
    ]


def p_of(differences: Sequence[float]) -> float:
    """Give the two-sided p of a ratio of 1; 1 below FEWEST rounds."""
    count = len(differences)
    if count < FEWEST:
        return 1.0
    mean = math.fsum(differences) / count
    se = math.sqrt(math.fsum((d - mean) ** 2 for d in differences) / (count - 1) / count)
    if se == 0:
        return 1.0 if mean == 0 else 0.0
    return 2 * student_t.tail(abs(mean) / se, count - 1)


def _contrast(reference: Row, differences: Sequence[float], p: float) -> Contrast | None:
    if not differences:
        return None
    interval = paired.mean_interval(differences, LEVEL)
    return Contrast(
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
