"""In which order to launch: balanced, seeded, decided before the first launch. Pure."""

import random
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


def plan_pairs(*, pairs: int, joiners: int, controls: int, seed: int) -> list[Pair]:
    """Give all pairs of a session: the series interleaved, each one's order balanced.

    The same numbers give the same order.
    """
    draw = random.Random(f"dlcontainer/order/1:{seed}")  # noqa: S311 - an order, not a secret
    counts: dict[Series, int] = {"pair": pairs, "joiner": joiners, "control": controls}
    placed: list[tuple[float, Pair]] = []
    for series, count in counts.items():
        for index, native_first in enumerate(balanced(count, draw)):
            pair = Pair(series=series, number=index + 1, native_first=native_first)
            # Spread over the whole session, the place within each stretch drawn by lot.
            placed.append(((index + draw.random()) / count, pair))
    return [pair for _, pair in sorted(placed, key=lambda item: item[0])]


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
