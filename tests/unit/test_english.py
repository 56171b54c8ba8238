"""Plain English: words of CONTRIBUTING's glossary, in messages, docstrings, docs and texts."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.values import ROOT

# What is written -> what a native engineer writes. CONTRIBUTING.md has the same list.
GLOSSARY = {
    r"mend(?:s|ed|ing)?": "fix",
    r"whole paths?": "absolute path",
    r"can't be had|can be had": "is available, is not available",
    r"anew": "again",
    r"throw-away|thrown away": "warm-up (of a launch), discarded",
    r"no whole": "incomplete: X is missing",
    r"makes? no sense": "unsupported combination",
    r"do not go together|does not go together": "incompatible",
    r"the way out": "egress (of a network), fix (of a problem)",
    r"goes with \w+ alone|go with \w+ alone": "takes exactly",
    r"[Ww]ho (?:wants|holds|builds|compiles|begins|publishes|looks|measures)": "a noun",
    r"lacks?": "is missing",
}
_WORDS = re.compile("|".join(rf"\b(?:{words})\b" for words in GLOSSARY), re.IGNORECASE)
# Files that still use other words, with the number of places: it only goes down. Sentences of the
# report, of doctor and of option help change with the work that rebuilds them.
KEPT = Path(__file__).with_name("english.txt")


def sources() -> Iterator[Path]:
    """List what people read."""
    for folder, pattern in (
        ("dlcontainer", "**/*.py"), ("docs", "**/*.md"), ("templates", "**/*.j2"),
        ("recipes", "**/*.yaml"), ("site-configs", "*.yaml"), (".", "README.md"),
    ):  # fmt: skip
        for path in sorted((ROOT / folder).glob(pattern)):
            # What was measured is a log, in its own words.
            if "measurements" not in path.relative_to(ROOT).parts:
                yield path


def places(path: Path) -> list[str]:
    """List the words of a file that the glossary replaces: in Python those of its strings."""
    text = path.read_text()
    if path.suffix == ".py":
        strings = [
            node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        # A key of an interface is no English: it has no spaces around it.
        text = "\n".join(string for string in strings if " " in string)
    return [hit.group() for hit in _WORDS.finditer(text)]


def counted() -> dict[str, int]:
    """Count the places by file."""
    counts = {path.relative_to(ROOT).as_posix(): len(places(path)) for path in sources()}
    return {name: count for name, count in counts.items() if count}


def kept() -> dict[str, int]:
    """Read the counts that are known."""
    lines = (line.split() for line in KEPT.read_text().splitlines())
    return {name: int(count) for count, name in lines}


def test_the_words_of_the_glossary() -> None:
    now, known = counted(), kept()
    more = {name: count for name, count in now.items() if count > known.get(name, 0)}
    assert not more, {name: Counter(places(ROOT / name)) for name in more}
    fewer = {name: now.get(name, 0) for name, count in known.items() if now.get(name, 0) < count}
    assert not fewer, f"lower these in {KEPT.name}"


def test_contributing_has_the_glossary() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    assert [term for term in GLOSSARY.values() if term not in text] == []


def test_a_word_is_seen(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('"""Mends a thing."""\nA = "the mend"\nB = {"mend": 1}\nC = "mending it"\n')
    assert places(bad) == ["Mends", "mend", "mending"]
