"""CHANGELOG.md: short entries, below versions with their days."""

import re

from dlcontainer import __version__
from tests.values import ROOT

MOST_WORDS = 30
_RELEASE = re.compile(r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", re.MULTILINE)
# An entry, with the lines that it goes on in; a row of a table; a paragraph.
_ENTRY = re.compile(r"^(?:- |\||\w|\*).*(?:\n(?![-#|\n]).+)*", re.MULTILINE)


def page() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def long_entries(text: str) -> list[str]:
    """List the entries of more than 30 words; signs alone are none."""
    return [
        entry
        for entry in _ENTRY.findall(text)
        if sum(bool(re.search(r"\w", word)) for word in entry.split()) > MOST_WORDS
    ]


def test_entries_are_short() -> None:
    assert len(_ENTRY.findall(page())) > 300
    assert long_entries(page()) == []


def test_a_long_entry_is_seen() -> None:
    long = "- " + "word " * 20 + "\n  " + "word " * 11
    assert long_entries(f"## 1.0.0\n\n{long}\n- short\n") == [long]
    assert long_entries(long.strip()[:-5]) == []
    assert len(long_entries("word " * 31 + "\n\n| " + "cell | " * 31)) == 2


def test_releases_stand_newest_first() -> None:
    headings = re.findall(r"^## (.+)$", page(), re.MULTILINE)
    releases = _RELEASE.findall(page())
    assert len(releases) == len(headings) - 1
    assert headings[0] == "Unreleased"
    numbers = [tuple(map(int, version.split("."))) for version, _day in releases]
    assert numbers == sorted(set(numbers), reverse=True)
    days = [day for _version, day in releases]
    assert days == sorted(days, reverse=True)
    assert __version__ in {version for version, _day in releases}
