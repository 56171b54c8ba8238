"""README and docs: each command that they show is one, and each block is run or says why not."""

import pytest
import typer

from dlcontainer.cli import main
from dlcontainer.cli.app import HelpGroup
from dlcontainer.errors import DlcontainerError
from tests.docs_blocks import blocks, pages

# Commands of code that the reader of the page writes first; its own test has it.
NOT_YET = {("bench", "hash"), ("render", "requirements")}
FIRST_DAY = "Your first day at a centre"


def parse(words: list[str]) -> str | None:
    """Parse a command line as the program would, and run nothing; give what is wrong with it."""
    command: object = typer.main.get_command(main.app)
    rest = words[1:]
    try:
        while isinstance(command, HelpGroup):
            _, command, rest = command.resolve_command(_Top(command), rest)
        command.make_context("dlcontainer", list(rest))  # type: ignore[attr-defined]
    except typer.Exit:
        return None
    except typer.TyperException as problem:
        return problem.format_message()
    except DlcontainerError as error:
        return str(error)
    return None


class _Top(typer.Context):
    def __init__(self, command: object) -> None:
        super().__init__(command)  # type: ignore[arg-type]


def test_pages_are_read() -> None:
    found = list(blocks())
    assert len(found) > 25
    assert sum(len(block.of_ours()) for block in found) > 55
    assert {block.page.name for block in found} > {"README.md", "bench.md", "locks.md", "storm.md"}
    assert len(pages()) > 25


def test_each_command_line_exists_with_its_options() -> None:
    wrong = []
    for block in blocks():
        for words in block.of_ours():
            if any(command in words and value in words for command, value in NOT_YET):
                continue
            problem = parse(words)
            if problem:
                wrong.append(f"{block.name}: {' '.join(words)}: {problem}")
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "dlcontainer plna",
        "dlcontainer plan --nope",
        "dlcontainer validate",
        "dlcontainer plan --format x",
    ],
)
def test_a_wrong_line_is_seen(line: str) -> None:
    assert parse(line.split()) is not None


def test_what_is_not_run_says_why() -> None:
    for block in blocks():
        assert block.excuse is None or len(block.excuse) > 20, block.name


def test_the_first_day_is_ten_commands_and_is_run() -> None:
    (block,) = [block for block in blocks() if block.heading == FIRST_DAY]
    lines = block.of_ours()
    assert (len(lines), block.excuse) == (10, None)
    assert (lines[0][1], lines[-1][1]) == ("doctor", "report")
