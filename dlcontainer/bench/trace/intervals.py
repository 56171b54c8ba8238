"""Unions of intervals in nanoseconds: how long something went on, and how long beside it. Pure.

A union is a sequence of (begin, end), in order, none of which touches the next.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

Interval = tuple[int, int]
Union = Sequence[Interval]


def union(intervals: Iterable[Interval], gap: int = 0) -> list[Interval]:
    """Return the union; gaps of at most `gap` ns are closed.

    >>> union([(5, 7), (0, 4), (3, 5), (9, 9)])
    [(0, 7)]
    >>> union([(0, 1), (3, 4)], gap=2)
    [(0, 4)]
    """
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if joined and begin <= joined[-1][1] + gap:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(of: Union) -> int:
    """Return the nanoseconds of a union."""
    return sum(end - begin for begin, end in of)


def both(first: Union, second: Union) -> list[Interval]:
    """Return what two unions share.

    >>> both([(0, 5), (8, 9)], [(3, 9)])
    [(3, 5), (8, 9)]
    """
    return list(_shared(first, second))


def _shared(first: Union, second: Union) -> Iterator[Interval]:
    i = j = 0
    while i < len(first) and j < len(second):
        begin, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if begin < end:
            yield begin, end
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1


def without(first: Union, second: Union) -> list[Interval]:
    """Return what of the first union is not in the second.

    >>> without([(0, 10)], [(2, 3), (9, 12)])
    [(0, 2), (3, 9)]
    """
    rest: list[Interval] = []
    j = 0
    for begin, end in first:
        at = begin
        while j < len(second) and second[j][1] <= at:
            j += 1
        k = j
        while k < len(second) and second[k][0] < end:
            if at < second[k][0]:
                rest.append((at, second[k][0]))
            at = max(at, second[k][1])
            k += 1
        if at < end:
            rest.append((at, end))
    return rest


def clipped(of: Union, begin: int, end: int) -> list[Interval]:
    """Return what of a union lies within a window.

    >>> clipped([(0, 2), (3, 5), (7, 9)], 4, 8)
    [(4, 5), (7, 8)]
    """
    start = max(0, bisect_right(of, (begin, begin)) - 1)
    within: list[Interval] = []
    for i in range(start, len(of)):
        low, high = max(begin, of[i][0]), min(end, of[i][1])
        if of[i][0] >= end:
            break
        if low < high:
            within.append((low, high))
    return within
