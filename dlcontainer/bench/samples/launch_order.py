"""In which order to launch: balanced, seeded, decided before the first launch. Pure.

Two arms: pairs in blocks of four, each order twice. Three arms: triples in the six sequences of
Williams' design (1949) for three treatments, each once in a block of six; so each arm stands at
each place twice, and follows each other arm twice.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal, cast

from dlcontainer.bench.samples.records import Order

Series = Literal["pair", "triple", "joiner", "control", "candidate_control"]

BLOCK = 4
TRIPLES = 6  # a block of them
SEQUENCES = tuple(cast("Order", "".join(letters)) for letters in permutations("nuc"))


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledPair:
    """Two launches back to back; `number` counts from 1 within the series."""

    series: Series
    number: int
    native_first: bool

    @property
    def order(self) -> Order:
        """The order as it stands in the file."""
        return "nc" if self.native_first else "cn"


@dataclass(frozen=True, kw_only=True, slots=True)
class Triple:
    """Three launches back to back, one of each arm; `number` counts from 1."""

    number: int
    order: Order

    @property
    def series(self) -> Series:
        """The series that it is part of."""
        return "triple"


Group = ScheduledPair | Triple


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchCounts:
    """How many of each series at most; the pairs (triples) themselves are as many as the looks."""

    joiners: int = 0
    controls: int = 0
    candidate_controls: int = 0
    triples: bool = False


def plan_stages(*, looks: Sequence[int], counts: LaunchCounts, seed: int) -> list[list[Group]]:
    """Return all pairs and triples of a session, one list for what comes before each look.

    `looks` are growing numbers of pairs, or of triples. The series are interleaved, each one's
    order balanced; controls and joiners come in proportion. The same numbers give the same order.
    """
    draw = random.Random(f"dlcontainer/order/1:{seed}")  # noqa: S311 - an order, not a secret
    placed: list[tuple[int, float, Group]] = []
    for series, count in _series(looks[-1], counts).items():
        ends = [due(count, look, looks) for look in looks]
        for index, group in enumerate(_groups(series, count, draw)):
            stage = sum(index >= end for end in ends)
            begin = ends[stage - 1] if stage else 0
            # Spread over the whole stage, the place within each stretch drawn by lot.
            place = (index - begin + draw.random()) / (ends[stage] - begin)
            placed.append((stage, place, group))
    placed.sort(key=lambda item: item[:2])
    return [[group for at, _, group in placed if at == stage] for stage in range(len(looks))]


def _series(most: int, counts: LaunchCounts) -> dict[Series, int]:
    return {
        "triple" if counts.triples else "pair": most,
        "joiner": counts.joiners,
        "control": counts.controls,
        "candidate_control": counts.candidate_controls,
    }


def _groups(series: Series, count: int, draw: random.Random) -> list[Group]:
    if series == "triple":
        return [
            Triple(number=number, order=order)
            for number, order in enumerate(sequences(count, draw), start=1)
        ]
    return [
        ScheduledPair(series=series, number=number, native_first=first)
        for number, first in enumerate(balanced(count, draw), start=1)
    ]


def sequences(count: int, draw: random.Random) -> list[Order]:
    """Draw the sequences of triples: in each block of six all six, in random order."""
    drawn: list[Order] = []
    while len(drawn) < count:
        drawn += draw.sample(SEQUENCES, len(SEQUENCES))
    return drawn[:count]


def due(count: int, look: int, looks: Sequence[int]) -> int:
    """Return how many of a series' `count` pairs are measured when a look comes."""
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
