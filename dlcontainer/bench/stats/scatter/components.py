"""Where scatter comes from: components of variance, of values in groups within groups. Pure.

The estimate is the analysis of variance of a nested random model (Henderson's first method), for
groups of any sizes; where all are of one size it is the textbook's. Unbiased whatever the
distribution, but not robust: one far value counts in full. A component from few groups is known
badly: of g groups its relative standard error is at least sqrt(2 / (g - 1)).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """Values of one innermost group; `labels` name the groups around it, the outermost first.

    A label counts within the group around it. All leaves have as many labels.
    """

    labels: tuple[str, ...]
    values: Sequence[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class VarianceComponent:
    """The variance between the groups of one level; the last level is that of single values.

    `groups` and `df` are what it is drawn from. `estimate` is None where there is nothing to tell:
    one group, or one in each group of the level above. It may be negative: chance, about zero.
    """

    level: str
    groups: int
    df: int
    estimate: float | None

    @property
    def sd(self) -> float | None:
        """The standard deviation, zero for a negative estimate, in the unit of the values."""
        return None if self.estimate is None else math.sqrt(max(0.0, self.estimate))


@dataclass(slots=True)
class _Group:
    """Number of values, and their sum about the mean of all."""

    above: str
    count: int = 0
    total: float = 0.0


def components(leaves: Sequence[Leaf], levels: Sequence[str]) -> tuple[VarianceComponent, ...]:
    """Estimate the variance of each level, the outermost first, and that within the leaves last.

    `levels` names the labels, and after them the single values. Raises ValueError without values.
    """
    count = sum(len(leaf.values) for leaf in leaves)
    if not count or any(len(leaf.labels) + 1 != len(levels) for leaf in leaves):
        raise ValueError("values in groups, with a label for each level, are needed")
    centre = math.fsum(value for leaf in leaves for value in leaf.values) / count
    tables = _tables(leaves, centre, len(levels))
    squares = math.fsum((value - centre) ** 2 for leaf in leaves for value in leaf.values)
    between = [*(math.fsum(_square(group) for group in t.values()) for t in tables), squares]
    sizes = [*(len(table) for table in tables), count]
    shares = _shares(tables, count)
    estimates: dict[int, float] = {}
    # The innermost first: each level's sum of squares holds those within it too.
    for level in range(len(levels), 0, -1):
        if sizes[level] > sizes[level - 1]:
            outer = math.fsum(
                estimate * (shares[level][inner] - shares[level - 1][inner])
                for inner, estimate in estimates.items()
            )
            share = shares[level][level] - shares[level - 1][level]
            estimates[level] = (between[level] - between[level - 1] - outer) / share
    return tuple(
        VarianceComponent(
            level=name,
            groups=sizes[number],
            df=sizes[number] - sizes[number - 1],
            estimate=estimates.get(number),
        )
        for number, name in enumerate(levels, start=1)
    )


def _tables(leaves: Sequence[Leaf], centre: float, depth: int) -> list[dict[str, _Group]]:
    """Sum the groups of each level, from all values as one group to the leaves."""
    tables: list[dict[str, _Group]] = [{} for _ in range(depth)]
    for leaf in leaves:
        total, above = math.fsum(value - centre for value in leaf.values), ""
        for level, table in enumerate(tables):
            # A label counts within the group around it.
            name = repr(leaf.labels[:level])
            group = table.setdefault(name, _Group(above=above))
            group.count += len(leaf.values)
            group.total += total
            above = name
    return [{name: group for name, group in table.items() if group.count} for table in tables]


def _square(group: _Group) -> float:
    return group.total**2 / group.count


def _shares(tables: Sequence[dict[str, _Group]], count: int) -> list[list[float]]:
    """Return how often a component is in the sum of squares of each level's means, expected.

    Row: the level of the means, column: that of the component. Around a group: all of its values;
    within it: the sum over its parts of their squared size, by its own size.
    """
    depth = len(tables)
    shares = [[float(count)] * (depth + 1) for _ in range(depth + 1)]
    for inner in range(1, depth + 1):
        for outer in range(inner):
            shares[outer][inner] = _within(tables, outer, inner)
    return shares


def _within(tables: Sequence[dict[str, _Group]], outer: int, inner: int) -> float:
    if inner == len(tables):
        # Single values: each group has as many parts as values.
        return float(len(tables[outer]))
    parts = 0.0
    for group in tables[inner].values():
        above = group.above
        for level in range(inner - 1, outer, -1):
            above = tables[level][above].above
        parts += group.count**2 / tables[outer][above].count
    return parts
