"""Least squares with few columns, in plain Python: a compute node has no NumPy. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Columns are small whole numbers: less than this of a column beside the others is none of its own.
_OWN = 1e-9
_HUBER = 1.345
_ROUNDS = 12
_SD_OF_MAD = 1.4826  # the MAD of a normal sample, as its sd

Columns = Sequence[float]


@dataclass(frozen=True, slots=True)
class LinearSolution:
    """Coefficients, and the inverse of the columns' products."""

    effects: tuple[float, ...]
    inverse: tuple[tuple[float, ...], ...]

    def weights(self, row: Columns) -> tuple[float, ...]:
        """Return what a value of this row adds to each coefficient."""
        return tuple(dot(line, row) for line in self.inverse)


def dot(first: Columns, second: Columns) -> float:
    """Return the sum of products."""
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def independent(rows: Sequence[Columns], counts: Sequence[float]) -> tuple[int, ...]:
    """Name the columns that those before them do not make up, by Cholesky's pivots."""
    size = len(rows[0])
    products = [[_product(rows, counts, i, j) for j in range(size)] for i in range(size)]
    kept: list[int] = []
    factor: list[list[float]] = []
    for j in range(size):
        line: list[float] = []
        for pivots, column in zip(factor, kept, strict=True):
            line.append((products[j][column] - dot(line, pivots[: len(line)])) / pivots[-1])
        pivot = products[j][j] - dot(line, line)
        if pivot > _OWN * max(products[j][j], 1.0):
            kept.append(j)
            factor.append([*line, math.sqrt(pivot)])
    return tuple(kept)


def solve(
    rows: Sequence[Columns], counts: Sequence[float], sums: Sequence[float]
) -> LinearSolution:
    """Solve for rows that stand for `counts` values each, with these sums."""
    size = len(rows[0])
    products = [[_product(rows, counts, i, j) for j in range(size)] for i in range(size)]
    inverse = _inverse(products)
    moments = [dot([row[i] for row in rows], sums) for i in range(size)]
    return LinearSolution(tuple(dot(line, moments) for line in inverse), inverse)


def huber(rows: Sequence[Columns], values: Sequence[float], start: Columns) -> tuple[float, ...]:
    """Return coefficients that no far value moves by much: Huber's, by weighted least squares."""
    effects = tuple(start)
    for _ in range(_ROUNDS):
        residuals = [value - dot(row, effects) for row, value in zip(rows, values, strict=True)]
        scale = _SD_OF_MAD * median(sorted(map(abs, residuals)))
        if scale < 1e-12:  # most values lie on the model
            break
        bound = _HUBER * scale
        weights = [1.0 if abs(x) <= bound else bound / abs(x) for x in residuals]
        weighted = [w * value for w, value in zip(weights, values, strict=True)]
        effects = solve(rows, weights, weighted).effects
    return effects


def median(ordered: Sequence[float]) -> float:
    """Return the median of ordered values."""
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def _product(rows: Sequence[Columns], counts: Sequence[float], i: int, j: int) -> float:
    return math.fsum(count * row[i] * row[j] for row, count in zip(rows, counts, strict=True))


def _inverse(matrix: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Invert a symmetric matrix whose pivots are positive, by Gauss and Jordan."""
    size = len(matrix)
    work = [[*row, *(float(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = work[i][i]
        work[i] = [x / pivot for x in work[i]]
        for k in range(size):
            factor = work[k][i]
            if k != i and factor:
                work[k] = [a - factor * b for a, b in zip(work[k], work[i], strict=True)]
    return tuple(tuple(row[size:]) for row in work)
