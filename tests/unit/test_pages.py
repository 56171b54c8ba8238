"""The pages stay short: words by page, and no line wider than a reader's window.

`make golden` writes the counts; a page that grew gets a line with its reason.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.values import ROOT

# COUNT PAGE, and below it, where it grew since: +COUNT PAGE REASON.
KEPT = Path(__file__).with_name("words.txt")
WIDEST = 160
# Of all pages outside measurements; it grows by a new subject alone.
MOST_WORDS = 61_500
_NO_REASON = "WHY?"


def pages() -> list[Path]:
    return sorted((ROOT / "docs").rglob("*.md"))


def words_now() -> dict[str, int]:
    """Count the words of each page; what was measured is a log, of any length."""
    names = {path.relative_to(ROOT).as_posix(): path for path in pages()}
    return {
        name: len(path.read_text(encoding="utf-8").split())
        for name, path in names.items()
        if not name.startswith("docs/measurements/")
    }


def wide(page: Path) -> list[str]:
    """List the lines of a page that are too wide, by their place."""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    return [f"{page}:{number}" for number, line in lines if len(line) > WIDEST]


def allowed(text: str) -> Counter[str]:
    """Read the counts: of each page the first one, and what was added to it since."""
    sums: Counter[str] = Counter()
    for line in text.splitlines():
        count, name, *_reason = line.split(maxsplit=2)
        sums[name] += int(count)
    return sums


def without_reason(text: str) -> list[str]:
    rows = [line.split(maxsplit=2) for line in text.splitlines() if line.startswith("+")]
    return [row[1] for row in rows if len(row) < 3 or row[2].startswith(_NO_REASON)]


def rewritten(text: str, now: dict[str, int]) -> str:
    """Write the counts again: lower where a page fell, with a line to fill in where it grew."""
    known = allowed(text)
    lines = []
    for name, count in sorted(now.items()):
        old = [line for line in text.splitlines() if line.split()[1] == name]
        if name not in known or count < known[name]:
            lines.append(f"{count} {name}")
        elif count == known[name]:
            lines += old
        else:
            lines += [*old, f"+{count - known[name]} {name} {_NO_REASON}"]
    return "\n".join([*lines, ""])


def test_words_by_page(request: pytest.FixtureRequest) -> None:
    now = words_now()
    if request.config.getoption("--update-golden"):
        KEPT.write_text(rewritten(KEPT.read_text() if KEPT.exists() else "", now))
    known = allowed(KEPT.read_text())
    changed = {
        name: f"{count} words, {known[name]} in {KEPT.name}"
        for name, count in now.items()
        if count != known[name]
    }
    gone = sorted(known.keys() - now.keys())
    assert (changed, gone) == ({}, []), "make golden, then give the reason where a page grew"
    assert without_reason(KEPT.read_text()) == [], f"write why they grew, in {KEPT.name}"


def test_words_of_all_pages() -> None:
    assert sum(words_now().values()) <= MOST_WORDS


def test_lines_are_not_too_wide(tmp_path: Path) -> None:
    outer = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")]
    assert [line for page in (*outer, *pages()) for line in wide(page)] == []
    page = tmp_path / "a.md"
    page.write_text(f"{'x' * WIDEST}\n{'x' * (WIDEST + 1)}\n")
    assert wide(page) == [f"{page}:2"]


def test_a_page_that_grew_says_why() -> None:
    first = rewritten("", {"a.md": 10, "b.md": 5})
    assert first == "10 a.md\n5 b.md\n"
    grown = rewritten(first, {"a.md": 12, "b.md": 4, "c.md": 7})
    assert grown == "10 a.md\n+2 a.md WHY?\n4 b.md\n7 c.md\n"
    assert allowed(grown) == {"a.md": 12, "b.md": 4, "c.md": 7}
    assert without_reason(grown) == ["a.md"]
    told = grown.replace("WHY?", "a new trap")
    assert without_reason(told) == []
    assert rewritten(told, {"a.md": 12, "b.md": 4}) == "10 a.md\n+2 a.md a new trap\n4 b.md\n"
    assert rewritten(told, {"a.md": 11}) == "11 a.md\n"
