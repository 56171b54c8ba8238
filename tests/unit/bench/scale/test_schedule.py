"""The order of a matrix: each cell once a round, balanced, the same for the same seed."""

from collections import Counter
from itertools import pairwise

import pytest

from dlcontainer.bench.scale import matrix


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 12])
def test_over_a_block_each_stands_everywhere_and_follows_everyone(count: int) -> None:
    rows = matrix.williams(count)
    times = len(rows) // count
    assert all(sorted(row) == list(range(count)) for row in rows)
    for place in range(count):
        assert Counter(row[place] for row in rows) == dict.fromkeys(range(count), times)
    follows = Counter(pair for row in rows for pair in pairwise(row))
    assert set(follows.values()) <= {times}
    assert len(follows) == count * (count - 1)


def test_rounds_are_whole_and_drawn() -> None:
    cells = [f"cell {number}" for number in range(5)]
    found = matrix.rounds(cells, 23, 7)
    assert len(found) == 23
    assert all(sorted(order) == cells for order in found)
    assert found == matrix.rounds(cells, 23, 7)
    assert found != matrix.rounds(cells, 23, 8)
    # A longer session begins as a shorter one does.
    assert matrix.rounds(cells, 4, 7) == found[:4]
    assert matrix.rounds([], 3, 1) == []
