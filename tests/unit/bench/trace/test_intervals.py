"""Unions of intervals, held against sets of their points."""

from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.bench.trace import intervals

TIMES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8)


def points(of: list[tuple[int, int]]) -> set[int]:
    return {point for begin, end in of for point in range(begin, end)}


@given(TIMES, TIMES)
def test_unions_are_sets_of_points(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    one, other = intervals.union(left), intervals.union(right)
    assert points(one) == points(left)
    assert intervals.length(one) == len(points(left))
    assert points(intervals.both(one, other)) == points(left) & points(right)
    assert points(intervals.without(one, other)) == points(left) - points(right)
    for union in (one, intervals.both(one, other), intervals.without(one, other)):
        assert union == intervals.union(union)


@given(TIMES, st.integers(0, 30), st.integers(0, 30))
def test_a_window(times: list[tuple[int, int]], begin: int, end: int) -> None:
    cut = intervals.clipped(intervals.union(times), begin, end)
    assert points(cut) == points(times) & set(range(begin, end))
