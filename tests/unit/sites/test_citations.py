"""What a site's sources name: repository, commit, files, day."""

import datetime

import pytest

from dlcontainer.sites import citations
from dlcontainer.sites.citations import Citation

TODAY = datetime.date(2026, 11, 27)


@pytest.mark.parametrize(
    ("text", "repository", "commit", "paths", "day"),
    [
        ("a/b@1234567 docs/x.md", "a/b", "1234567", ("docs/x.md",), None),
        ("a/b@1234567^ docs/x/ (all of it)", "a/b", "1234567^", ("docs/x",), None),
        ("a/b@12345678 README.md and containers/", "a/b", "12345678",
         ("README.md", "containers"), None),
        ("a/b@1234567 x.rst, y.rst (of 2026-05-05)", "a/b", "1234567",
         ("x.rst", "y.rst"), "2026-05-05"),
        ("a/b@1234567 x.md (a table; of 2024-11-11, the same on 2026-04-24)", "a/b", "1234567",
         ("x.md",), "2026-04-24"),
        ("job scripts; with Shifter desi/spec@b8b133e bin/x.sh", "desi/spec", "b8b133e",
         ("bin/x.sh",), None),
        ("a/b@1234567", "a/b", "1234567", (), None),
        ("https://docs.example.org/x (read 2025-01-31)", "", "", (), "2025-01-31"),
        ("a page of 2025-02-31", "", "", (), None),
        ("ada@login.example.org", "", "", (), None),
    ],
)  # fmt: skip
def test_a_source(
    text: str, repository: str, commit: str, paths: tuple[str, ...], day: str | None
) -> None:
    assert citations.read("n", text) == Citation(
        name="n",
        text=text,
        repository=repository,
        commit=commit,
        paths=paths,
        day=datetime.date.fromisoformat(day) if day else None,
    )


def test_old_sources_come_oldest_first() -> None:
    sources = {
        "new": "a/b@1234567 x.md (of 2026-01-01)",
        "old": "a/b@1234567 x.md (of 2025-11-26)",
        "older": "https://example.org (read 2019-05-02)",
        "unknown": "a/b@1234567 x.md",
    }
    assert [one.name for one in citations.old(sources, TODAY)] == ["older", "old"]
    # A year and no day more.
    assert citations.old({"n": "x (of 2025-11-27)"}, TODAY) == ()
