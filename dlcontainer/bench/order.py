"""In which order to launch: balanced, seeded, decided before the first launch. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Series = Literal["pair", "joiner", "control"]

BLOCK = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two launches back to back; `number` counts from 1 within the series."""

    series: Series
    number: int
    native_first: bool


def plan_stages(
    *, looks: Sequence[int], joiners: int, controls: int, seed: int
) -> list[list[Pair]]:
    """Give all pairs of a session, one list for what comes before each look.

    `looks` are growing numbers of pairs. The series are interleaved, each one's order balanced;
    controls and joiners come in proportion. The same numbers give the same order.
    """
    draw = random.Random(f"dlcontainer/order/1:{seed}")  # noqa: S311 - an order, not a secret
    counts: dict[Series, int] = {"pair": looks[-1], "joiner": joiners, "control": controls}
    placed: list[tuple[int, float, Pair]] = []
    for series, count in counts.items():
        ends = [due(count, look, looks) for look in looks]
        for index, native_first in enumerate(balanced(count, draw)):
            pair = Pair(series=series, number=index + 1, native_first=native_first)
            stage = sum(index >= end for end in ends)
            begin = ends[stage - 1] if stage else 0
            # Spread over the whole stage, the place within each stretch drawn by lot.
            place = (index - begin + draw.random()) / (ends[stage] - begin)
            placed.append((stage, place, pair))
    placed.sort(key=lambda item: item[:2])
    return [[pair for at, _, pair in placed if at == stage] for stage in range(len(looks))]


def due(count: int, look: int, looks: Sequence[int]) -> int:
    """Give how many of a series' `count` pairs are measured when a look comes."""
    return round(count * look / looks[-1])


def balanced(count: int, draw: random.Random) -> list[bool]:
    """Draw who goes first: in each block of four, each twice, in random order."""
    drawn: list[bool] = []
    while len(drawn) < count:
        size = min(BLOCK, count - len(drawn))
        # A last block of odd length can't be balanced: lot decides who is first once more.
        block = [True] * (size // 2) + [False] * (size // 2)
        block += [draw.random() < 0.5] * (size % 2)
        draw.shuffle(block)
        drawn += block
    return drawn
