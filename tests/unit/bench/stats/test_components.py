"""Components of variance: by hand where groups are equal, else what was planted."""

import math
import random
from statistics import fmean, variance

import pytest

from dlcontainer.bench.stats.scatter.components import Leaf, components

LEVELS = ("nodes", "processes", "steps")


def leaf(node: str, process: str, *values: float) -> Leaf:
    return Leaf(labels=(node, process), values=values)


def estimates(leaves: list[Leaf], levels: tuple[str, ...] = LEVELS) -> dict[str, float | None]:
    return {one.level: one.estimate for one in components(leaves, levels)}


def test_equal_groups_as_in_a_textbook() -> None:
    # One-way: MS between 2 groups of 3 is 3 * 2 * 2.5**2 = 37.5, MS within 1; (37.5 - 1) / 3.
    groups = [Leaf(labels=("a",), values=(1, 2, 3)), Leaf(labels=("b",), values=(6, 7, 8))]
    found = components(groups, ("groups", "values"))
    assert [(one.level, one.groups, one.df) for one in found] == [
        ("groups", 2, 1),
        ("values", 6, 4),
    ]
    assert [one.estimate for one in found] == pytest.approx([36.5 / 3, 1.0])
    assert found[0].sd == pytest.approx(math.sqrt(36.5 / 3))


def test_three_levels_of_equal_groups() -> None:
    chance = random.Random(3)
    table = [[[chance.gauss(0, 1) for _ in range(4)] for _ in range(3)] for _ in range(5)]
    leaves = [
        leaf(f"n{i}", f"p{j}", *own) for i, node in enumerate(table) for j, own in enumerate(node)
    ]
    within = fmean(variance(own) for node in table for own in node)
    process = 4 * fmean(variance([fmean(own) for own in node]) for node in table)
    nodes = 12 * variance([fmean([fmean(own) for own in node]) for node in table])
    assert estimates(leaves) == {
        "nodes": pytest.approx((nodes - process) / 12),
        "processes": pytest.approx((process - within) / 4),
        "steps": pytest.approx(within),
    }


def test_groups_of_any_size_give_what_was_planted_in_the_mean() -> None:
    chance, found = random.Random(5), {level: list[float]() for level in LEVELS}
    # Of 1 to 4 processes with 2 to 9 steps: standard deviations of 3, 2 and 1.
    sizes = [[2, 9], [3], [4, 4, 5], [2, 2, 2, 8], [6, 3]]
    for _ in range(1500):
        leaves = []
        for i, node in enumerate(sizes):
            place = chance.gauss(0, 3)
            for j, count in enumerate(node):
                own = place + chance.gauss(0, 2)
                leaves.append(
                    leaf(f"n{i}", f"p{j}", *(own + chance.gauss(0, 1) for _ in range(count)))
                )
        for level, value in estimates(leaves).items():
            assert value is not None
            found[level].append(value)
    for level, truth in zip(LEVELS, (9.0, 4.0, 1.0), strict=True):
        error = math.sqrt(variance(found[level]) / len(found[level]))
        assert abs(fmean(found[level]) - truth) < 4 * error
        # The test can tell: a tenth of the truth is more than this error.
        assert 4 * error < 0.3 * truth


def test_what_can_not_be_told() -> None:
    one_node = [leaf("n", "a", 1, 2), leaf("n", "b", 5, 6)]
    assert [one.estimate is None for one in components(one_node, LEVELS)] == [True, False, False]
    # One process on each node: their scatter is the nodes'.
    single = [leaf("n", "a", 1, 2), leaf("m", "a", 5, 6)]
    found = components(single, LEVELS)
    assert [one.estimate is None for one in found] == [False, True, False]
    assert [one.groups for one in found] == [2, 2, 4]
    # Single values: nothing within.
    assert components([leaf("n", "a", 1), leaf("n", "b", 2)], LEVELS)[2].sd is None
    for bad in ([], [leaf("n", "a")], [Leaf(labels=("n",), values=(1.0,))]):
        with pytest.raises(ValueError, match="values in groups"):
            components(bad, LEVELS)


def test_chance_about_zero_is_shown_as_none() -> None:
    # The means are closer than the values let expect.
    found = components([leaf("n", "a", 0, 10), leaf("n", "b", 1, 9)], LEVELS)
    assert found[1].estimate is not None
    assert found[1].estimate < 0
    assert found[1].sd == 0


def test_a_large_offset_does_not_drown_the_scatter() -> None:
    near = [leaf("n", "a", 1, 2, 3), leaf("m", "a", 6, 7, 8)]
    far = [Leaf(labels=one.labels, values=[v + 1e7 for v in one.values]) for one in near]
    for one, other in zip(components(near, LEVELS), components(far, LEVELS), strict=True):
        assert one.estimate == (
            other.estimate if one.estimate is None else pytest.approx(other.estimate)
        )
