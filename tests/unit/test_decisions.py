"""docs/why/decisions: numbered pages of three short parts, all of them in the list."""

import re

import pytest

from tests.values import ROOT

FOLDER = ROOT / "docs/why/decisions"
INDEX = FOLDER / "index.md"
PAGES = sorted(page for page in FOLDER.iterdir() if page != INDEX)
PARTS = ["Context", "Decision", "Consequences"]
MOST_WORDS = 250


def faults(number: int, name: str, text: str) -> list[str]:
    """Say what a page breaks of its form."""
    title, _, body = text.partition("\n")
    return [
        message
        for message, holds in (
            ("its file has another number", name.startswith(f"{number:03d}-")),
            ("its title has another number", title.startswith(f"# {number}. ")),
            ("its parts", re.findall(r"^\*\*(\w+)\.\*\* \S", body, re.MULTILINE) == PARTS),
            ("it is too long", len(text.split()) <= MOST_WORDS),
        )
        if not holds
    ]


@pytest.mark.parametrize("number", range(1, len(PAGES) + 1))
def test_a_decision_is_a_numbered_page(number: int) -> None:
    page = PAGES[number - 1]
    assert faults(number, page.name, page.read_text()) == []


def test_a_page_of_another_form_is_seen() -> None:
    good = "# 1. A\n\n**Context.** a\n\n**Decision.** b\n\n**Consequences.** c\n"
    assert faults(1, "001-a.md", good) == []
    assert len(faults(2, "001-a.md", good)) == 2
    assert faults(1, "001-a.md", good.replace("Decision", "Choice")) == ["its parts"]
    assert faults(1, "001-a.md", good + "word " * MOST_WORDS) == ["it is too long"]


def test_the_index_lists_them_in_their_order() -> None:
    lines = re.findall(r"^\d+\. \[(.+)\]\((.+)\)$", INDEX.read_text(), re.MULTILINE)
    titles = [page.read_text().partition("\n")[0].split(". ", 1)[1] for page in PAGES]
    assert lines == [(title, page.name) for title, page in zip(titles, PAGES, strict=True)]
