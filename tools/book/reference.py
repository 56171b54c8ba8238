"""The command reference as Markdown for MyST: a page for each command, or each group. Pure."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence

from dlcontainer import errors
from dlcontainer.cli.help_page import HelpRow
from tools.book import commands, markdown
from tools.book.commands import Command

FOLDER = "reference/commands"
# The site alone has these pages, so they may use MyST's lists of definitions.
_HEAD = '---\nmyst:\n  enable_extensions: ["deflist"]\n---\n'
_CODE = re.compile(r"(`[^`]+`)")
_MARKUP = re.compile(r"([\\*_<>\[\]|#~$])")
_NOT_RAISED = {
    0: "It worked.",
    errors.InterruptedByUserError.exit_code: "Interrupted, by Ctrl-C or by a signal.",
    errors.DlcontainerError.exit_code: "A bug in dlcontainer.",
}


def pages(every: Sequence[Command], texts: Mapping[str, str]) -> dict[str, str]:
    """Write the pages by their path below docs/; `texts` are the pages that name commands."""
    return {
        f"{FOLDER}/{name}.md": _page(name, list(members), texts)
        for name, members in _grouped(every)
    }


def listing(every: Sequence[Command]) -> str:
    """Write what ends the list of commands: each with its page, and the exit codes."""
    lines = ["## Each command and its options", ""]
    for name, members in _grouped(every):
        for command in members:
            anchor = f"#dlcontainer-{'-'.join(command.words)}" if len(command.words) > 1 else ""
            link = f"[`dlcontainer {command.name}`](commands/{name}.md{anchor})"
            lines.append(f"- {link}: {escaped(command.summary)}")
    return "\n".join([*lines, "", "## What an exit code says", "", *_exit_codes(), ""])


def _grouped(every: Sequence[Command]) -> Iterator[tuple[str, Iterator[Command]]]:
    return itertools.groupby(every, key=lambda command: command.words[0])


def _exit_codes() -> Iterator[str]:
    classes = errors.DlcontainerError.__subclasses__()
    meaning = {kind.exit_code: re.split("[:\n]", kind.__doc__ or "")[0] for kind in classes}
    yield "| code | meaning |"
    yield "|---|---|"
    for code, text in sorted({**meaning, **_NOT_RAISED}.items()):
        yield f"| {code} | {escaped(text).removesuffix('.')} |"


def _page(name: str, members: Sequence[Command], texts: Mapping[str, str]) -> str:
    parts = [_HEAD, f"# dlcontainer {name}\n"]
    for command in members:
        if len(command.words) > 1:
            parts.append(f"## dlcontainer {command.name}\n")
        parts += _command(command, texts)
    parts.append("[Exit codes](../commands.md#what-an-exit-code-says) are the same everywhere.\n")
    return "\n".join(parts)


def _command(command: Command, texts: Mapping[str, str]) -> Iterator[str]:
    yield f"{escaped(command.summary)}\n"
    yield f"```text\n{command.usage}\n```\n"
    links = [
        f"[{escaped(markdown.read(texts[page]).title)}]({os.path.relpath(page, FOLDER)})"
        for page in commands.pages_of(command, texts)
    ]
    yield f"Pages that use it: {', '.join(links)}\n"
    for panel, rows in itertools.groupby(command.rows, key=lambda row: row.panel):
        yield f"**{panel}**\n"
        yield from map(_definition, rows)
    if command.documents:
        named = ", ".join(f"`dlcontainer/{name}/1`" for name in command.documents)
        yield f"Documents that `--json` prints: {named}.\n"


def _definition(row: HelpRow) -> str:
    text = escaped(" ".join((row.text or "").split()))
    return f"`{row.name}`\n: {text or 'No description.'}\n"


def escaped(text: str) -> str:
    """Show a text as it is: what is code stays code, and nothing else of it is markup."""
    parts = _CODE.split(text)
    return "".join(part if part.startswith("`") else _MARKUP.sub(r"\\\1", part) for part in parts)
