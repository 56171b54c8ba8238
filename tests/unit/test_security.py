"""docs/why/security.md: each statement names a test, and each test that is named exists."""

import re
from functools import cache

from tests.values import ROOT

_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


@cache
def page() -> str:
    return (ROOT / "docs/why/security.md").read_text()


def exists(file: str, name: str | None) -> bool:
    path = ROOT / file
    pattern = rf"^def {name}\(" if name else r"^def test_"
    return path.is_file() and bool(re.search(pattern, path.read_text(), re.MULTILINE))


def test_the_named_tests_exist() -> None:
    named = sorted({(match[1], match[2]) for match in _TEST.finditer(page())}, key=str)
    assert len(named) > 30
    assert [one for one in named if not exists(*one)] == []


def test_each_statement_of_a_boundary_names_its_test() -> None:
    sections = dict(part.split("\n", 1) for part in page().split("\n## ")[1:])
    for title in ("Boundaries", "Secrets", "One tree, one trust domain", "Signatures and evidence"):
        statements = re.findall(r"^- \*\*.*(?:\n  .*)*", sections[title], re.MULTILINE)
        assert len(statements) > 4
        assert [text for text in statements if not _TEST.search(text)] == []


def test_who_reads_it_finds_what_they_look_for() -> None:
    titles = re.findall(r"^## (.*)$", page(), re.MULTILINE)
    assert titles[:3] == ["Trusted", "Not trusted", "Boundaries"]
    assert titles[-1] == "Counts"
