"""What is wrong with a user's file: all of it in one error, in at most six lines."""

from dataclasses import dataclass, field

from dlcontainer.config.suggestions import cut
from dlcontainer.errors import ConfigError, Mark

_MOST_LINES = 6
_LONGEST_LINE = 600
# What to do instead, where many kinds of files say the same.
RELEASE_NEXT = "write NAME==VERSION of a release, or add a folder with its wheel (routing.wheels)"
INDEX_NEXT = "remove it: indexes are the site's (routing.pip in its config)"


@dataclass(frozen=True, kw_only=True, slots=True)
class FileFault:
    """One refusal: its place, what is refused, and what to write instead."""

    where: Mark | str
    what: str
    next_step: str | None = None

    @property
    def file(self) -> str:
        """The file's name as messages have it."""
        return self.where.file if isinstance(self.where, Mark) else self.where.rpartition(":")[0]

    @property
    def line(self) -> int:
        """The line; 0 for the whole file."""
        if isinstance(self.where, Mark):
            return self.where.line
        number = self.where.rpartition(":")[2]
        return int(number) if number.isdecimal() else 0

    def __str__(self) -> str:
        step = f"; {self.next_step}" if self.next_step else ""
        return cut(" ".join(f"{self.where}: {self.what}{step}".split()), _LONGEST_LINE)


@dataclass(kw_only=True, slots=True)
class FaultList:
    """Refusals in the order of the file."""

    faults: list[FileFault] = field(default_factory=list)

    def add(self, where: Mark | str, what: str, next_step: str | None = None) -> None:
        """Note a refusal."""
        self.faults.append(FileFault(where=where, what=what, next_step=next_step))

    def require_none(self) -> None:
        """Raise one ConfigError for all that was noted; none where nothing was."""
        if not self.faults:
            return
        if len(self.faults) == 1:
            only = self.faults[0]
            raise ConfigError(only.what, where=only.where, next_step=only.next_step)
        files = list(dict.fromkeys(fault.file for fault in self.faults))
        order = sorted(self.faults, key=lambda fault: (files.index(fault.file), fault.line))
        lines = list(dict.fromkeys(map(str, order)))
        if len(lines) > _MOST_LINES:
            lines = [*lines[: _MOST_LINES - 1], f"… and {len(lines) - _MOST_LINES + 1} more"]
        raise ConfigError("\n".join(lines))
