"""Ranges of subordinate user and group IDs, which Apptainer's --fakeroot maps into the container.

Format: subuid(5), `name-or-uid:start:count` a line.
"""

import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from tools.console import note

_COUNT = 65536
_FIRST = 100000
_FILES = (Path("/etc/subuid"), Path("/etc/subgid"))


def parse_ranges(text: str) -> list[tuple[str, int, int]]:
    """Return `(owner, start, count)` of each well-formed line."""
    found = []
    for line in text.splitlines():
        owner, *numbers = line.strip().split(":")
        if owner and len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            found.append((owner, int(numbers[0]), int(numbers[1])))
    return found


def free_start(ranges: Iterable[tuple[str, int, int]]) -> int:
    """Return the lowest start from 100000, in steps of 65536, that overlaps no range."""
    taken = [(start, start + count) for _, start, count in ranges]
    start = _FIRST
    while any(begin < start + _COUNT and start < end for begin, end in taken):
        start += _COUNT
    return start


def ensure_ranges(files: tuple[Path, Path] = _FILES, *, tells: bool = True) -> None:
    """Give root a range where it has none; else tell what must be typed.

    Without `tells`, somebody else tells that: `dlcontainer doctor`.
    """
    user = pwd.getpwuid(os.geteuid())
    texts = [_read(file) for file in files]
    owners = {user.pw_name, str(user.pw_uid)}
    lacking = [
        file
        for file, text in zip(files, texts, strict=True)
        if not any(owner in owners for owner, _, _ in parse_ranges(text))
    ]
    if not lacking:
        return
    start = free_start(parse_ranges("\n".join(texts)))
    names = " and ".join(map(str, lacking))
    if os.geteuid() == 0:
        for file in lacking:
            _append(file, f"{user.pw_name}:{start}:{_COUNT}")
        note(
            f"this system was changed: added '{user.pw_name}:{start}:{_COUNT}' to {names}: "
            "Apptainer's --fakeroot maps these IDs into the container"
        )
    elif tells:
        ids = f"{start}-{start + _COUNT - 1}"
        note(
            f"{names} hold no range for {user.pw_name}: without one, builds map a single user.\n"
            "        An administrator types: "
            f"usermod --add-subuids {ids} --add-subgids {ids} {user.pw_name}"
        )


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _append(file: Path, line: str) -> None:
    """Append in one write: the file may be bound into a container, where it cannot be replaced."""
    text = _read(file)
    start = "" if not text or text.endswith("\n") else "\n"
    with file.open("a", encoding="utf-8") as handle:
        handle.write(f"{start}{line}\n")
