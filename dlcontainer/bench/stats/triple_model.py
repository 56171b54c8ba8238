"""The model of triples: d ~ arm + place, where a launch may depend on its place of three. Pure.

In whole blocks of six (Williams' design) the arms' effect is the plain mean of d; the general
least squares are for sessions that were cut.
"""

import math
from array import array
from collections.abc import Sequence
from itertools import permutations

from dlcontainer.bench.stats.paired import MOST_SHIFTS, Difference, Differences, Fit, median

_Row = tuple[float, float, float]
_PLACES = tuple(permutations(range(3), 2))


def fit(differences: Sequence[Difference]) -> Fit | None:
    """Fit d ~ arm + place by least squares, df n - 3; None where the places don't allow it.

    The order effect is that of running second, `third` that of running third, both against first.
    """
    found = Differences.of(differences)
    rows = [_row(*(places or (0, 1))) for _, places in found.ran]
    d = found.d
    inverse = _inverse([[_dot(rows, i, j) for j in range(3)] for i in range(3)])
    df = len(d) - 3
    if inverse is None or df < 1:
        return None
    moments = [math.fsum(row[i] * x for row, x in zip(rows, d, strict=True)) for i in range(3)]
    mean, second, third = (_product(line, moments) for line in inverse)
    left = [x - mean - row[1] * second - row[2] * third for row, x in zip(rows, d, strict=True)]
    sd = math.sqrt(math.fsum(value * value for value in left) / df)
    robust = _robust(found) or (second, third)
    return Fit(
        numbers=found.numbers,
        adjusted=array(
            "d",
            [x - row[1] * robust[0] - row[2] * robust[1] for row, x in zip(rows, d, strict=True)],
        ),
        mean=mean,
        order_effect=second,
        third=third,
        sd=sd,
        se=sd * math.sqrt(inverse[0][0]),
        df=df,
    )


def _row(reference: int, candidate: int) -> _Row:
    second, third = (float(candidate == k) - float(reference == k) for k in (1, 2))
    return (1.0, second, third)


def _product(line: Sequence[float], moments: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(line, moments, strict=True))


def _dot(rows: Sequence[_Row], i: int, j: int) -> float:
    return math.fsum(row[i] * row[j] for row in rows)


def _inverse(m: list[list[float]]) -> list[list[float]] | None:
    """Invert a 3 x 3 matrix by its cofactors; None where it is singular."""

    def cofactor(i: int, j: int) -> float:
        a, b = ((i + 1) % 3, (i + 2) % 3)
        c, d = ((j + 1) % 3, (j + 2) % 3)
        return m[a][c] * m[b][d] - m[a][d] * m[b][c]

    determinant = math.fsum(m[0][j] * cofactor(0, j) for j in range(3))
    # Entries are whole numbers: a determinant that is not 0 is at least 1.
    if determinant < 0.5:
        return None
    return [[cofactor(j, i) / determinant for j in range(3)] for i in range(3)]


def _robust(found: Differences) -> tuple[float, float] | None:
    """Estimate the places' effects robustly; None without data.

    Each is the median of all that two triples say of it alone, the arms' effect taken out.
    """
    ran = list(zip(found.d, found.ran, strict=True))
    by = {at: [d for d, (_, places) in ran if places == at] for at in _PLACES}

    def effect(k: int, other: int) -> float | None:
        found = [x / 2 for x in _apart(by[0, k], by[k, 0])]
        found += _apart(by[0, other], by[k, other])
        found += _apart(by[other, k], by[other, 0])
        return median(sorted(found)) if found else None

    second, third = effect(1, 2), effect(2, 1)
    return None if second is None or third is None else (second, third)


def _apart(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Give all differences of two groups; of very many values that of their medians alone."""
    if len(ours) * len(theirs) > MOST_SHIFTS:
        return [median(sorted(ours)) - median(sorted(theirs))]
    return [one - other for one in ours for other in theirs]
