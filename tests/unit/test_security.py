"""docs/security.md: each statement names a test, and each test that is named exists."""

import re

import pytest

from tests.values import ROOT

PAGE = (ROOT / "docs/security.md").read_text()
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NAMED = sorted({(match[1], match[2] or "") for match in _TEST.finditer(PAGE)})


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_named_test_exists(file: str, name: str) -> None:
    text = (ROOT / file).read_text()
    assert re.search(rf"^def {name}\(" if name else r"^def test_", text, re.MULTILINE)


def test_each_row_of_a_boundary_names_its_test() -> None:
    sections = dict(part.split("\n", 1) for part in PAGE.split("\n## ")[1:])
    for title in ("Boundaries", "Secrets"):
        rows = [line for line in sections[title].splitlines() if line.startswith("| ")]
        assert len(rows) > 5
        assert [row for row in rows[1:] if not _TEST.search(row)] == []


def test_who_reads_it_finds_what_they_look_for() -> None:
    titles = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert titles[:3] == ["Trusted", "Not trusted", "Boundaries"]
    assert titles[-1] == "Counts"
