"""The model of triples: d ~ arm + place, where a launch may depend on its place of three. Pure.

In whole blocks of six (Williams' design) the arms' effect is the plain mean of d; the general
least squares are for sessions that were cut.
"""

import math
from collections.abc import Sequence

from dlcontainer.bench.stats import Difference, Fit, shift

_Row = tuple[float, float, float]
_UNORDERED = ((0, 1), (0, 2), (1, 2))


def fit(differences: Sequence[Difference]) -> Fit | None:
    """Fit d ~ arm + place by least squares, df n - 3; None where the places don't allow it.

    The order effect is that of running second, `third` that of running third, both against first.
    """
    rows = [_row(item) for item in differences]
    d = [item.d for item in differences]
    inverse = _inverse([[_dot(rows, i, j) for j in range(3)] for i in range(3)])
    df = len(d) - 3
    if inverse is None or df < 1:
        return None
    moments = [math.fsum(row[i] * x for row, x in zip(rows, d, strict=True)) for i in range(3)]
    mean, second, third = (_product(line, moments) for line in inverse)
    left = [x - mean - row[1] * second - row[2] * third for row, x in zip(rows, d, strict=True)]
    sd = math.sqrt(math.fsum(value * value for value in left) / df)
    robust = _robust(differences) or (second, third)
    return Fit(
        numbers=tuple(item.number for item in differences),
        adjusted=tuple(
            x - row[1] * robust[0] - row[2] * robust[1] for row, x in zip(rows, d, strict=True)
        ),
        mean=mean,
        order_effect=second,
        third=third,
        sd=sd,
        se=sd * math.sqrt(inverse[0][0]),
        df=df,
    )


def _row(item: Difference) -> _Row:
    reference, candidate = item.places or (0, 1)
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


def _robust(differences: Sequence[Difference]) -> tuple[float, float] | None:
    """Estimate the places' effects so that one far launch can't move them.

    Each two places give Hodges and Lehmann's shift between their two orders; the three shifts
    give two effects by least squares. None where an order did not run.
    """
    shifts = []
    for low, high in _UNORDERED:
        after = [item.d for item in differences if item.places == (low, high)]
        before = [item.d for item in differences if item.places == (high, low)]
        if not after or not before:
            return None
        shifts.append(shift(after, before) / 2)
    first_second, first_third, second_third = shifts
    return (
        (2 * first_second + first_third - second_third) / 3,
        (first_second + 2 * first_third + second_third) / 3,
    )
