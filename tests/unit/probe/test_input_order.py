"""The orders of the input probe: every sample once, and how well they are mixed."""

from typing import Any

import pytest

SAMPLES, SHARDS = 1000, 10


def delivered(probe: Any, shuffle: str, window: int, parts: int, batch: int = 32) -> list[int]:
    order = probe("input_order")
    layout = order.Layout(SAMPLES, 8, SHARDS, 7)
    numbers: list[int] = order.Order(layout, shuffle, window, batch, parts).delivered()
    return numbers


@pytest.mark.parametrize("shuffle", ["full", "window"])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 11, 64])
def test_every_sample_comes_once(probe: Any, shuffle: str, parts: int) -> None:
    assert sorted(delivered(probe, shuffle, 100, parts)) == list(range(SAMPLES))


def test_readers_change_nothing_of_the_full_shuffle(probe: Any) -> None:
    assert delivered(probe, "full", 1, 1) == delivered(probe, "full", 1, 4)


def test_what_is_measured_of_orders_that_are_known(probe: Any) -> None:
    order = probe("input_order")
    layout = order.Layout(SAMPLES, 8, SHARDS, 7)
    stored = list(range(SAMPLES))
    assert order.correlation(stored) == 1
    assert order.correlation(stored[::-1]) == pytest.approx(-1)
    assert order.neighbours(stored) == 1
    assert order.mixing(stored, layout) == 0
    # One sample of each shard in turn: of each stretch as many of every shard.
    dealt = [shard * 100 + at for at in range(100) for shard in range(SHARDS)]
    assert order.mixing(dealt, layout) == pytest.approx(1)
    # Two shards half and half: one of log2(10) bits.
    halves = [n for at in range(0, 1000, 200) for i in range(100) for n in (at + i, at + 100 + i)]
    assert order.mixing(halves, layout) == pytest.approx(0.30103, abs=1e-4)


def test_a_permutation_mixes_and_a_window_mixes_less(probe: Any) -> None:
    order = probe("input_order")
    layout = order.Layout(SAMPLES, 8, SHARDS, 7)
    full = delivered(probe, "full", 1, 1)
    assert order.mixing(full, layout) > 0.95
    assert abs(order.correlation(full)) < 0.1
    mixed = [order.mixing(delivered(probe, "window", w, 1), layout) for w in (1, 50, 200, 1000)]
    assert mixed == sorted(mixed)
    assert mixed[0] == 0
    assert mixed[-1] > 0.95
    # Shards in an order of their own alone: no correlation, and nothing is mixed.
    assert abs(order.correlation(delivered(probe, "window", 1, 1))) < 0.6


def test_shards_of_unequal_length(probe: Any) -> None:
    order = probe("input_order")
    layout = order.Layout(10, 8, 4, 0)
    assert [list(layout.numbers(shard)) for shard in range(layout.shards)] == [
        [0, 1, 2], [3, 4, 5], [6, 7, 8], [9]
    ]  # fmt: skip
    assert layout.place(9) == (3, 0)
    few = order.Layout(5, 8, 4, 0)
    assert few.shards == 3
    assert sorted(order.Order(few, "window", 2, 2, 2).delivered()) == list(range(5))
