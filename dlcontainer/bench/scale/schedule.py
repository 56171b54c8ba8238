"""The order of cells: every round has each cell once, balanced over rounds, drawn by a seed. Pure.

Rows of Williams' design: over a whole block each cell stands at each place and follows each other
cell equally often. Fewer rounds than cells take a drawn part of a block.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def rounds(cells: Sequence[T], count: int, seed: int) -> list[list[T]]:
    """Give `count` orders of all cells."""
    draw = random.Random(seed)  # noqa: S311 - it draws an order
    labels = list(cells)
    draw.shuffle(labels)
    orders: list[list[int]] = []
    while labels and len(orders) < count:
        block = williams(len(labels))
        draw.shuffle(block)
        orders += block
    return [[labels[place] for place in row] for row in orders[:count]]


def williams(count: int) -> list[list[int]]:
    """Give a design of `count` rows, twice as many where `count` is odd."""
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    rows = [[(value + row) % count for value in zigzag] for row in range(count)]
    return rows if count % 2 == 0 else [*rows, *(row[::-1] for row in rows)]
