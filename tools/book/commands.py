"""The commands of the program, and the pages of docs/ that name each of them."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from dlcontainer.cli import help_page, main
from dlcontainer.cli.app import HelpGroup
from dlcontainer.cli.help_page import HelpRow
from tools.book.problems import Problem

# The page that lists all of them: to stand there alone is not to have a page.
LIST = "reference/commands.md"
# Logs of measurements name commands and explain none.
_LOGS = "measurements/"
_EMITS = re.compile(r'\bemit\(\s*"([a-z][a-z-]*)"')


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command by its words, what its help page says, and the JSON documents it prints."""

    words: Sequence[str]
    summary: str
    usage: str
    rows: Sequence[HelpRow]
    documents: Sequence[str]

    @property
    def name(self) -> str:
        """Return it as it is typed after `dlcontainer`."""
        return " ".join(self.words)


def every() -> list[Command]:
    """Read every command, those of groups too, in the order of the help pages; hidden ones not."""
    top = typer.main.get_command(main.app)
    return list(_below(top, typer.Context(top, info_name="dlcontainer")))


def _below(group: Any, context: typer.Context) -> Iterator[Command]:
    for name, entry in group.entries.items():
        if entry.hidden:
            continue
        command = group.commands[name]
        inner = typer.Context(command, info_name=name, parent=context)
        if isinstance(command, HelpGroup):
            yield from _below(command, inner)
        else:
            yield _read(command, inner)


def _read(command: Any, context: typer.Context) -> Command:
    code = inspect.getsource(inspect.unwrap(command.callback))
    return Command(
        words=context.command_path.split()[1:],
        summary=" ".join((command.help or "").split()),
        usage=help_page.usage(command, context),
        rows=help_page.command_rows(command, context),
        documents=tuple(dict.fromkeys(_EMITS.findall(code))),
    )


def pages_of(command: Command, texts: Mapping[str, str]) -> list[str]:
    """List the pages, by their path below docs/, that show a command or name it as code."""
    words = r"\s+".join(map(re.escape, command.words))
    named = re.compile(rf"(?:dlcontainer\s+|`){words}(?![\w-])")
    return [
        page
        for page, text in texts.items()
        if page != LIST and not page.startswith(_LOGS) and named.search(text)
    ]


def problems(commands: Sequence[Command], texts: Mapping[str, str]) -> Iterator[Problem]:
    """Find commands that no page tells of, or that the list of commands leaves out."""
    if LIST not in texts:
        step = "write it: the reference of all commands is appended to it"
        yield Problem(page=f"docs/{LIST}", what="the list of commands is missing", next_step=step)
    for command in commands:
        if not pages_of(command, texts):
            what = f"no page of docs/ names the command `dlcontainer {command.name}`"
            step = f"show it on the page of its task; {LIST} and measurements/ don't count"
            yield Problem(page=f"docs/{LIST}", what=what, next_step=step)
