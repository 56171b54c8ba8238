"""Ranges of subordinate user and group IDs, which Apptainer's --fakeroot maps into the container.

Format: subuid(5), `name-or-uid:start:count` a line.
"""

import os
import pwd
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dlcontainer.engine_setup.surroundings import note

_COUNT = 65536
_FIRST = 100000
_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))


def parse_ranges(text: str) -> list[tuple[str, int, int]]:
    """Return `(owner, start, count)` of each well-formed line."""
    ranges = []
    for line in text.splitlines():
        owner, *numbers = line.strip().split(":")
        if owner and len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            ranges.append((owner, int(numbers[0]), int(numbers[1])))
    return ranges


def free_start(ranges: Iterable[tuple[str, int, int]]) -> int:
    """Return the lowest start from 100000, in steps of 65536, that overlaps no range."""
    taken = [(start, start + count) for _, start, count in ranges]
    start = _FIRST
    while any(begin < start + _COUNT and start < end for begin, end in taken):
        start += _COUNT
    return start


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingRange:
    """The files that give a user no ids, and the line that would."""

    files: tuple[Path, ...]
    user: str
    start: int

    @property
    def line(self) -> str:
        """The line of subuid(5)."""
        return f"{self.user}:{self.start}:{_COUNT}"

    @property
    def change(self) -> str:
        """What appending it changes."""
        return f"append {self.line!r} to {self._names}"

    @property
    def advice(self) -> str:
        """What is missing, and the line that root types for it."""
        ids = f"{self.start}-{self.start + _COUNT - 1}"
        return (
            f"{self._names} hold no range for {self.user}: without one, builds map a single user.\n"
            "        An administrator types: "
            f"usermod --add-subuids {ids} --add-subgids {ids} {self.user}"
        )

    @property
    def _names(self) -> str:
        return " and ".join(map(str, self.files))

    def append(self) -> None:
        """Append the line to the files that have none."""
        for file in self.files:
            _append(file, self.line)
        note(
            f"this system was changed: added {self.line!r} to {self._names}: "
            "Apptainer's --fakeroot maps these IDs into the container"
        )


def missing_range(files: Sequence[Path] = _FILES) -> MissingRange | None:
    """Return which files give this user no range; None where all do."""
    user = pwd.getpwuid(os.geteuid())
    texts = [_read(file) for file in files]
    owners = {user.pw_name, str(user.pw_uid)}
    empty = [
        file
        for file, text in zip(files, texts, strict=True)
        if not any(owner in owners for owner, _, _ in parse_ranges(text))
    ]
    start = free_start(parse_ranges("\n".join(texts)))
    return MissingRange(files=tuple(empty), user=user.pw_name, start=start) if empty else None


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _append(file: Path, line: str) -> None:
    """Append in one write: the file may be bound into a container, where it cannot be replaced."""
    text = _read(file)
    start = "" if not text or text.endswith("\n") else "\n"
    with file.open("a", encoding="utf-8") as handle:
        handle.write(f"{start}{line}\n")
