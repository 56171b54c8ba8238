"""The text of a user's file, or the reason that it has none; nothing but the file is opened."""

import bisect
from dataclasses import dataclass, field
from pathlib import Path

from dlcontainer.config.yaml_text.scalars import refused_in_text
from dlcontainer.config.yaml_text.yaml_files import LINE_BREAK
from dlcontainer.errors import ConfigError, Mark
from dlcontainer.system import foreign_files

MOST_BYTES = 4 << 20
# PowerShell's `>` writes these; PEP 508 has no bytes beyond UTF-8.
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceText:
    """A file's text with `\\n` at the ends of its lines, and the name that messages use."""

    path: Path
    text: str
    starts: tuple[int, ...] = field(repr=False)

    @property
    def display(self) -> str:
        """The path as it was given."""
        return str(self.path)

    def mark(self, offset: int) -> Mark:
        """Return the place of a character."""
        line = bisect.bisect_right(self.starts, offset)
        return Mark(file=self.display, line=line, column=offset - self.starts[line - 1] + 1)


def load(path: Path) -> SourceText:
    """Read a regular file of at most 4 MiB; raises ConfigError for all that is no text."""
    name = str(path)
    if not name.isprintable():
        raise ConfigError(
            f"the file's name has a control character: {name[:200]!a}",
            next_step="rename the file: its name goes into the recipe",
        )
    try:
        data = foreign_files.read(path, MOST_BYTES)
    except IsADirectoryError:
        raise ConfigError(
            "cannot be read: it is a folder",
            where=name,
            next_step="give the file in it: pyproject.toml, requirements.txt, …",
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot be read: {reason}", where=name) from error
    return of_text(path, _decoded(data, name))


def of_text(path: Path, text: str) -> SourceText:
    """Split a text into lines; raises ConfigError for a character that no text has."""
    lines = LINE_BREAK.split(text.removeprefix("\ufeff"))
    starts = [0]
    for line in lines[:-1]:
        starts.append(starts[-1] + len(line) + 1)
    source = SourceText(path=path, text="\n".join(lines), starts=tuple(starts))
    refused = refused_in_text(source.text)
    if refused:
        raise ConfigError(
            f"character U+{ord(refused[0]):04X} is not allowed in a file",
            where=source.mark(refused.start()),
            next_step="remove it; a text has no control characters",
        )
    return source


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        utf16 = data.startswith(_UTF16)
        what = "UTF-16" if utf16 else f"not UTF-8: byte 0x{data[error.start]:02x}"
        raise ConfigError(
            what if not utf16 else "the file is UTF-16, not UTF-8",
            where=Mark(file=name, line=line, column=column),
            next_step="save the file as UTF-8"
            + (" (PowerShell: `… | Out-File -Encoding utf8 FILE`)" if utf16 else ""),
        ) from error
