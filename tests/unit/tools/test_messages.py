"""The table of messages: it sees what is said, and draws the same again."""

import ast
from pathlib import Path

import pytest

from tools import messages


def seen(text: str, *, is_command: bool = False) -> list[tuple[str, str]]:
    return [
        pair
        for node in ast.walk(ast.parse(text))
        for pair in messages._texts(node, is_command=is_command)
    ]


def test_errors_with_their_parts() -> None:
    text = 'raise PlanError(f"no site {name!r}", where="f.py", why="gone" + why, next_step=step)'
    assert seen(text) == [("what", "no site {name}"), ("why", "gone{…}")]


def test_notes_and_help() -> None:
    assert seen('console.note("built before"); x("no words")') == [("note", "built before")]
    assert seen('typer.Option("--a", help="A way.")') == [("help", "A way.")]


@pytest.mark.parametrize("is_command", [True, False])
def test_commands(*, is_command: bool) -> None:
    text = 'def plan(as_json: bool) -> None:\n    """Show it."""'
    found = [("command", "Show it.")] if is_command else []
    assert seen(text, is_command=is_command) == found


def test_all_of_the_package() -> None:
    table = list(messages.messages())
    assert len(table) > 1000
    assert {one.kind for one in table} >= {"what", "why", "next_step", "help", "note", "command"}
    assert all(Path(messages.ROOT, one.place.partition(":")[0]).is_file() for one in table)


def test_the_same_are_drawn_again() -> None:
    first = messages.drawn(60, "a commit")
    assert len(first) == len({(one.place, one.text) for one in first}) == 60
    assert messages.drawn(60, "a commit") == first
    assert messages.drawn(60, "another") != first
