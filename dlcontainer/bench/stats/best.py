"""Which of several settings takes the least time, and which are not told apart from it. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dlcontainer.bench.stats import paired, student_t


@dataclass(frozen=True, kw_only=True, slots=True)
class BestSetting:
    """The setting with the smallest mean of logs; `tied` are not told apart from it.

    `behind` is the ratio of the next best setting to it, with the t interval of that pair alone.
    """

    setting: int
    tied: tuple[int, ...]
    next: int
    behind: paired.Interval


def of(logs: Sequence[Sequence[float]], alpha: float) -> BestSetting | None:
    """Find the best setting; `logs` has one value a launch for each, the launches in one order.

    The best is picked by the times that it is then tested with, so Holm's correction is over all
    pairs of settings. None for fewer than two.
    """
    if len(logs) < 2 or not logs[0]:
        return None
    order = sorted(range(len(logs)), key=lambda i: math.fsum(logs[i]))
    pairs = list(combinations(range(len(logs)), 2))
    adjusted = dict(
        zip(pairs, paired.holm([_p(_between(logs[i], logs[j])) for i, j in pairs]), strict=True)
    )
    first = order[0]
    tied = tuple(i for i in order[1:] if adjusted[min(i, first), max(i, first)] > alpha)
    behind = paired.mean_interval(_between(logs[order[1]], logs[first]), 1 - alpha)
    return BestSetting(setting=first, tied=tied, next=order[1], behind=behind)


def _between(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(first, second, strict=True)]


def _p(values: Sequence[float]) -> float:
    df = len(values) - 1
    if df < 1:
        return 1.0
    centre = math.fsum(values) / len(values)
    se = math.sqrt(math.fsum((value - centre) ** 2 for value in values) / df / len(values))
    if se == 0:
        return 1.0 if centre == 0 else 0.0
    return 2 * student_t.tail(abs(centre) / se, df)
