"""Versions against ranges: the events' order, what can't be compared, and the first fix."""

from itertools import pairwise

import pytest

from dlcontainer.vulnerabilities import orders, ranges
from dlcontainer.vulnerabilities.ranges import UndecidedError
from dlcontainer.vulnerabilities.records import AffectedPackage

# In dpkg's order: deb-version(7) has the rules.
DEBIAN = (
    *("0~~", "0~rc1", "0", "0.1~exp1-1", "0.1-1~bpo1", "0.1-1", "0.1-1+b1", "0.1-1+deb12u1~1"),
    *("0.1-1+deb12u1", "0.1-1+deb12u9", "0.1-1+deb12u10", "0.1-2", "0.1a-1", "0.1.0-1", "0.9-1"),
    *("0.10-1", "1:0.1-1", "2:0~a-1"),
)
PYTHON = (
    *("0.9", "1.0.dev1", "1.0a1.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1"),
    *("1.9", "1.10", "1!0.1"),
)


@pytest.mark.parametrize(("base", "versions"), [("Debian", DEBIAN), ("PyPI", PYTHON)])
def test_the_orders(base: str, versions: tuple[str, ...]) -> None:
    key = orders.of(base).key
    assert all(key(before) < key(after) for before, after in pairwise(versions))
    assert all(key(version) == key(version) for version in versions)


def one(*events: tuple[str, str], kind: str = "ECOSYSTEM", **more: object) -> AffectedPackage:
    spans = [{"type": kind, "events": [{name: version} for name, version in events]}]
    return AffectedPackage.model_validate({"ranges": spans if events else [], **more})


I0 = ("introduced", "0")


@pytest.mark.parametrize(
    ("version", "part", "expected"),
    [
        # Events of one range in any order, and again introduced.
        ("1.5", one(("fixed", "2.0"), I0), (True, "2.0")),
        ("2.5", one(("fixed", "2.0"), I0), (False, None)),
        # The first fix of several.
        ("1.5", one(I0, ("fixed", "2.0"), ("introduced", "3.0"), ("fixed", "4.0")), (True, "2.0")),
        ("3.5", one(I0, ("fixed", "2.0"), ("introduced", "3.0")), (True, None)),
        ("2.5", one(I0, ("fixed", "2.0"), ("introduced", "3.0")), (False, None)),
        # "0" is before all: before 0~rc1's like too. A fix in it: nothing is affected.
        ("0.dev1", one(I0, ("fixed", "0.1")), (True, "0.1")),
        ("1.0", one(I0, ("fixed", "0")), (False, None)),
        ("1.0", one(("introduced", "1.0"), ("fixed", "1.0")), (False, None)),
        # Limits: before any of them.
        ("1.0", one(I0, ("limit", "0.5"), ("limit", "2.0")), (True, None)),
        ("1.0", one(I0, ("limit", "*")), (True, None)),
        ("1.0", one(I0, ("limit", "1.0")), (False, None)),
        # A list counts beside ranges that say no, and beside commits.
        ("1.0", one(I0, ("fixed", "0.5"), versions=["1.0"]), (True, None)),
        ("1.0", one(I0, kind="GIT", versions=["1.0.0"]), (True, None)),
        ("1.1", one(I0, kind="GIT", versions=["1.0", "old-style"]), (False, None)),
        # A name of before PEP 440 that is the installed one to the letter.
        ("2004d", one(versions=["2004d"]), (True, None)),
        # Of a rebuild only another local version says more.
        ("1.0+cu12", one(I0, ("fixed", "1.0")), (False, None)),
        ("1.0+cu12", one(I0, ("fixed", "1.0+cu13")), (True, "1.0+cu13")),
        ("1.0+cu12", one(versions=["1.0"]), (True, None)),
    ],
)
def test_ranges(version: str, part: AffectedPackage, expected: tuple[bool, str | None]) -> None:
    decision = ranges.decide(version, part, orders.of("PyPI"))
    assert (decision.affected, decision.fixed) == expected


@pytest.mark.parametrize(
    ("base", "version", "part", "why"),
    [
        ("PyPI", "2004d", one(I0), "can't be compared: 2004d"),
        ("PyPI", "1.0", one(I0, ("fixed", "next")), "next"),
        ("PyPI", "1.0", one(I0, kind="SEMVER"), "SemVer"),
        ("PyPI", "1.0", one(I0, kind="GIT"), "commits alone"),
        ("PyPI", "1.0", one(), "no versions at all"),
        ("Debian", "1.0-1", one(I0, ("fixed", "v2:nonsense")), "v2:nonsense"),
        ("Debian", "1.0-1", one(I0, ("fixed", "1²-1")), "not a version"),
        ("Debian", "1.0-1\n", one(I0, ("fixed", "1")), "can't be compared"),
        ("Debian", "1." * 200, one(I0, ("fixed", "1")), "can't be compared"),
    ],
)
def test_what_is_not_decided(base: str, version: str, part: AffectedPackage, why: str) -> None:
    with pytest.raises(UndecidedError, match=why):
        ranges.decide(version, part, orders.of(base))


def test_a_range_that_fits_decides_beside_one_that_can_t_be_read() -> None:
    spans = [
        {"type": "ECOSYSTEM", "events": [{"introduced": "nonsense"}]},
        {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.0"}]},
    ]
    part = AffectedPackage.model_validate({"ranges": spans})
    assert ranges.decide("1.0", part, orders.of("PyPI")).affected
    with pytest.raises(UndecidedError):
        ranges.decide("3.0", part, orders.of("PyPI"))


@pytest.mark.parametrize("version", ["1.0-1\n", "", "a", "1:", "1:a", "-1", "1 0", "é1"])
def test_no_versions(version: str) -> None:
    with pytest.raises(ValueError, match="version"):
        orders.of("Debian").key(version)


@pytest.mark.parametrize(
    ("kind", "version", "than", "older"),
    [
        ("deb", "1.0-1~deb12u1", "1.0-1", True),
        ("deb", "1.0-1", "1.0-1", False),
        ("pypi", "1.9", "1.10", True),
        ("pypi", "1.0+cpu", "1.0", False),
        ("pypi", "1.0", "soon", None),
        ("deb", "soon", "1.0-1", None),
        ("rpm", "1.0", "2.0", None),
        ("unknown", "1.0", "2.0", None),
    ],
)
def test_older(kind: str, version: str, than: str, older: bool | None) -> None:
    assert orders.is_older(kind, version, than) is older
