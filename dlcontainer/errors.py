"""Every error a user can meet: what, where, why, the next step, and one exit code a class."""

import re
from dataclasses import dataclass
from typing import ClassVar

# Of a value that somebody else wrote, its start is enough to find it. Paths have no such limit:
# they are copied from the screen.
_LONGEST_WORD, _LONGEST_LINE = 200, 2000
_LONG_WORD = re.compile(rf"(?<!\S)([^\s/]{{{_LONGEST_WORD}}})[^\s/]{{2,}}(?!\S)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place in a file that a human wrote: `FILE:LINE:COL`, both counted from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class DlcontainerError(Exception):
    """Base of all errors; never raised itself."""

    exit_code: ClassVar[int] = 70

    def __init__(
        self,
        what: str,
        *,
        where: Mark | str | None = None,
        why: str | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(_cut(what))
        self.what = _cut(what)
        self.where = where
        self.why = why and _cut(why)
        self.next_step = next_step and _cut(next_step)

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where is not None else self.what
        lines = [head]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.next_step:
            lines.append(f"  next: {self.next_step}")
        return "\n".join(lines)


def _cut(text: str) -> str:
    """Shorten long words and lines; what a message is made of may come from anybody."""
    if len(text) <= _LONGEST_WORD:
        return text
    lines = _LONG_WORD.sub(r"\1…", text).split("\n")
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in lines
    )


class ChecksFailedError(DlcontainerError):
    """A check said no (`validate`, `doctor`)."""

    exit_code = 1


class UsageError(DlcontainerError):
    """The command line itself is wrong."""

    exit_code = 2


class ConfigError(DlcontainerError):
    """A site config, a recipe or an override is wrong."""

    exit_code = 3


class MisfitError(DlcontainerError):
    """A recipe and a site that are incompatible: no error in either; `brief` is the reason."""

    exit_code = 8

    def __init__(
        self,
        what: str,
        *,
        where: Mark | str | None = None,
        why: str | None = None,
        next_step: str | None = None,
        brief: str | None = None,
    ) -> None:
        super().__init__(what, where=where, why=why, next_step=next_step)
        self.brief = brief or why or what


class EngineError(DlcontainerError):
    """No container engine, or none of its modes works here."""

    exit_code = 4


class BuildError(DlcontainerError):
    """An image could not be built."""

    exit_code = 5


class PublishError(DlcontainerError):
    """A module could not be published."""

    exit_code = 6


class BenchDataError(DlcontainerError):
    """Samples are missing, cut, edited or of another version."""

    exit_code = 7


class InterruptedByUserError(DlcontainerError):
    """Ctrl-C, SIGTERM or SIGHUP ended the run; everything started was ended and removed."""

    exit_code = 130
