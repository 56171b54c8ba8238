"""Versions as numbers: what is read, what is compared, what is left open."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlcontainer.planning.versions import compare, numbers, release, written


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("11.7.1", (11, 7, 1)),
        ("450.36.06", (450, 36, 6)),
        ("12", (12,)),
        ("12.x", (12,)),
        ("4.18.0-193.el8", (4, 18, 0)),
        ("2.13.0+cu126", (2, 13, 0)),
        ("weird", None),
        ("12rc1", None),
        ("", None),
        ("١٢", None),
    ],
)
def test_reading(text: str, read: tuple[int, ...] | None) -> None:
    assert numbers(text) == read


@pytest.mark.parametrize(
    ("found", "limit", "order"),
    [
        ("12.4", "12.4", 0),
        ("12.4.1", "12.4", 0),
        ("12.5", "12.4", 1),
        ("12.10", "12.9", 1),
        ("12.3.9", "12.4", -1),
        ("13", "12.4", 1),
        ("11", "12.4", -1),
        ("12", "12.4", None),
        ("450.36", "450.36.06", None),
        ("450.35", "450.36.06", -1),
    ],
)
def test_comparing(found: str, limit: str, order: int | None) -> None:
    left, right = numbers(found), numbers(limit)
    assert left is not None
    assert right is not None
    assert compare(left, right) == order


VERSIONS = st.lists(st.integers(0, 999), min_size=1, max_size=5).map(tuple)


@given(VERSIONS)
def test_what_is_written_is_read_again(version: tuple[int, ...]) -> None:
    assert numbers(written(version)) == version


@given(VERSIONS, VERSIONS)
def test_newer_one_way_is_older_the_other(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    there, back = compare(one, other), compare(other, one)
    if there in (1, -1):
        assert back == -there
    else:
        assert back in (0, None)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("2.13.0+cpu", "2.13.0"),
        ("2.8.0a0+5228986c39.nv25.06", "2.8.0"),
        ("1.0", "1.0"),
        ("2.21.0", "2.21.0"),
        ("nightly", "nightly"),
    ],
)
def test_the_release_of_a_version(text: str, given: str) -> None:
    assert release(text) == given
