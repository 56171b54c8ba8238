"""The command blocks of README and docs, with the marker of those that can't be run."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.values import ROOT

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"<!-- not run: (.+) -->\n$")
_LANGUAGES = ("", "sh", "console")
_PROMPT = re.compile(r"^(?:\w*)\$ ")
# The first word of a line that somebody types.
_TYPED = re.compile(r"^(?:dlcontainer|module|make|mkdir|cp|mount|sbatch|torchrun|reframe) ")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Commands as they are typed, and why they are not run where they are not."""

    page: Path
    line: int
    heading: str
    commands: tuple[str, ...]
    excuse: str | None

    @property
    def name(self) -> str:
        """Where it stands."""
        return f"{self.page.name}:{self.line}"

    def of_ours(self) -> list[list[str]]:
        """Give the words of each command that is dlcontainer's."""
        words = [shlex.split(line, comments=True) for line in self.commands]
        return [line for line in words if line and Path(line[0]).name == "dlcontainer"]


def pages() -> list[Path]:
    """List README and the pages of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks() -> Iterator[Block]:
    """Give every block that holds something to type."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            commands = _commands(match[1], match[2])
            if not commands:
                continue
            before = text[: match.start()]
            marker = _MARKER.search(before)
            headings = re.findall(r"^#+ (.+)$", before, re.MULTILINE)
            yield Block(
                page=page,
                line=before.count("\n") + 1,
                heading=headings[-1] if headings else "",
                commands=tuple(commands),
                excuse=marker[1] if marker else None,
            )


def _commands(language: str, body: str) -> list[str]:
    if language not in _LANGUAGES:
        return []
    lines = body.replace("\\\n", " ").splitlines()
    if language == "console":
        return [_PROMPT.sub("", line) for line in lines if _PROMPT.match(line)]
    typed = [line for line in lines if line.strip()]
    # Without a language it may be a drawing or a message: what begins as none is none.
    ours = re.search(r"^(?:\S+=\S+ )*\S*(?:dlcontainer|python|make) \S", body, re.MULTILINE)
    if language == "" and (not ours or not re.match(r"[\w.$/=\"]", body) or ": " in typed[0][:30]):
        return []
    return typed
