"""Text in the width of a terminal: cells, wrapped sentences, tables."""

import unicodedata

import pytest

from dlcontainer.cli import layout
from dlcontainer.cli.output import printable

DIGEST = f"sha256:{'ab' * 32}"
PATH = "/a very/long/" + "folder/" * 14 + "image.sif"


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("plain", 5),
        ("漢字", 4),
        ("e\u0301te\u0301", 3),  # accents that join the letter before them
        ("\u05e9\u05dc\u05d5\u05dd", 4),
        ("\u1100\u1161\u11a8", 2),  # one Korean syllable, in three parts
        ("", 0),
    ],
)
def test_cells(text: str, cells: int) -> None:
    assert layout.cells(text) == cells
    assert layout.cells(layout.padded(text, 9)) == 9
    assert layout.cells(layout.cut(text, 3)) <= 3


def fits(text: str, width: int) -> bool:
    """Tell whether all lines fit; a word alone may be longer."""
    return all(layout.cells(x) <= width or len(x.split()) == 1 for x in text.split("\n"))


@pytest.mark.parametrize("width", [1, 20, 80, 300])
def test_sentences_wrap_and_lose_nothing(width: int) -> None:
    for text in ("some words " * 40, f"see {DIGEST} of it", "漢字" * 60, "\tby tabs\t" * 20):
        shown = layout.fitted(text, width)
        assert fits(shown, max(width, 22))
        assert "".join(shown.split()) == "".join(text.split())
    assert layout.fitted("a  b", 80) == "a  b"
    assert layout.fitted("x" * 99, None) == "x" * 99


def test_a_mark_stays_with_its_letter() -> None:
    shown = layout.fitted("字\u0301" * 60, 20)
    assert all(not unicodedata.combining(line.strip()[0]) for line in shown.split("\n"))


@pytest.mark.parametrize(
    "command",
    [
        f"dlcontainer modules history --root '{PATH}'",
        f"$ apptainer build {PATH} x.def",
        f"sudo sysctl -w kernel.setting.{'x' * 60}=1",
    ],
)
def test_a_command_stands_alone(command: str) -> None:
    first, *others = layout.fitted(f"  next: see what is there: {command}", 60).split("\n")
    assert first == "  next: see what is there:"
    assert [line.strip() for line in others] == [command]
    after = layout.fitted(f"  next: {command}; or ask somebody who knows about it", 60)
    if not command.startswith("$"):
        assert command in [line.strip() for line in after.split("\n")]
        assert after.endswith("or ask somebody who knows about it")


def test_a_sentence_about_a_command_is_none() -> None:
    text = f"{'word ' * 14}: dlcontainer bench scale measures it, {'and so on ' * 9}."
    assert fits(layout.fitted(text, 60), 60)


def test_one_row_that_does_not_fit_stands_below_itself() -> None:
    rows = [(f"key{number}", f"value {number}") for number in range(8)]
    rows[3] = ("key3", f"{DIGEST}{DIGEST}")
    shown = layout.table(rows, ("key", "value"), 80).split("\n")
    assert shown[0] == "key   value"
    assert shown[4:6] == ["key3", f"  {DIGEST}{DIGEST}"]
    assert shown[6] == "key4  value 4"


def test_many_rows_that_do_not_fit_are_stacked_by_name() -> None:
    rows = [(f"key{number}", DIGEST, DIGEST) for number in range(4)]
    shown = layout.table(rows, ("key", "one", "other"), 80)
    assert shown.split("\n")[:3] == ["key0", f"  one: {DIGEST}", f"  other: {DIGEST}"]
    assert fits(shown, 80)


def test_columns_of_wide_characters_are_straight() -> None:
    rows = [("漢字", "one"), ("e\u0301", "two"), ("plain", "three")]
    lines = layout.table(rows, ("name", "what"), 80).split("\n")
    starts = {
        layout.cells(line[: line.index(word)])
        for line, (_, word) in zip(lines[1:], rows, strict=True)
    }
    assert starts == {7}


def test_no_rows_and_no_words() -> None:
    assert layout.table([], ("a", "b"), 20) == "a  b"
    assert layout.table([], (), 20) == ""
    assert layout.table([("", "")], (), 20).strip() == ""


def test_controls_of_direction_are_seen_and_counted() -> None:
    evil = printable("a\u202eb\u2066c")
    assert evil == r"a\u202eb\u2066c"
    assert layout.table([(evil, "x")], (), 80) == r"a\u202eb\u2066c  x"


@pytest.mark.parametrize("columns", ["0", "-5", "wide", "1", "99999"])
def test_odd_columns(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.terminals import Terminal

    monkeypatch.setenv("COLUMNS", columns)
    width = layout.columns(Terminal())
    assert width is not None
    assert width > 0
    assert layout.fitted("some words " * 40, width)
