"""The journal of a published tree: one JSON line a step, on the disk before the next step.

A switch writes `begin` before it and `done` after it. Where a killed run left a `begin` alone, the
next run adds `done` or `undone`, by what is live. A cut line is no reason to stop.
"""

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Literal, get_args

from dlcontainer.errors import PublishError
from dlcontainer.publish.open_folder import Folder
from dlcontainer.publish.ownership import Ownership
from dlcontainer.system import foreign_files
from dlcontainer.system.guarded_files import append as write_all
from dlcontainer.system.guarded_files import name_of

FILE = "journal.jsonl"
# 300 bytes a line: a switch every minute for years is not reached.
_MOST_BYTES = 256_000_000
State = Literal["begin", "done", "undone", "noticed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalLine:
    """One step; `noticed` is a switch that nobody wrote down. 0 is the tree before the first."""

    time: str
    who: str
    what: str
    state: State
    left: int
    entered: int

    @property
    def at(self) -> float:
        """Seconds since the epoch."""
        return datetime.fromisoformat(self.time).timestamp()


@dataclass(frozen=True, kw_only=True, slots=True)
class Journal:
    """All lines that can be read; `unreadable` counts those that can't."""

    lines: tuple[JournalLine, ...] = ()
    unreadable: int = 0

    @property
    def live(self) -> int | None:
        """The generation that the last finished switch entered."""
        entered = (line.entered for line in reversed(self.lines) if line.state in _FINISHED)
        return next(entered, None)

    @property
    def highest(self) -> int:
        """The highest number that was ever used."""
        return max((line.entered for line in self.lines), default=0)


_FINISHED = ("done", "noticed")


def stamp(clock: float) -> str:
    """Write a time as the journal has it."""
    return datetime.fromtimestamp(clock, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read(top: Folder) -> Journal:
    """Read the journal; raises OSError, and PublishError for one that is no plain file."""
    if top.info(FILE) is None:
        return Journal()
    with top.open(FILE) as file:
        texts = foreign_files.content(file, _MOST_BYTES).split(b"\n")
    parsed = [_parsed(text) for text in texts if text.strip()]
    lines = tuple(line for line in parsed if line is not None)
    return Journal(lines=lines, unreadable=len(parsed) - len(lines))


def _parsed(text: bytes) -> JournalLine | None:
    try:
        body = foreign_files.loads(text)
        if not isinstance(body, dict) or not _fits(body):
            return None
        line = JournalLine(**body)
        return line if datetime.fromisoformat(line.time).tzinfo else None
    except (ValueError, TypeError):
        return None


def _fits(body: Mapping[str, object]) -> bool:
    texts = all(isinstance(body.get(key), str) for key in ("time", "who", "what"))
    whole = all(type(body.get(key)) is int for key in ("left", "entered"))
    return texts and whole and body.get("state") in get_args(State)


def append(top: Folder, ownership: Ownership, line: JournalLine) -> None:
    """Add a line and bring it to the disk; raises OSError and PublishError."""
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        number = os.open(FILE, flags | os.O_CREAT, 0o664, dir_fd=top.number)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _refused(top, "it is a symbolic link") from None
    try:
        info = os.fstat(number)
        _require_plain(top, ownership, info)
        if info.st_uid == os.geteuid() and stat.S_IMODE(info.st_mode) != 0o664:
            ownership.give(number, 0o664, FILE)
        # A cut line stays a line of its own.
        cut = info.st_size > 0 and os.pread(number, 1, info.st_size - 1) != b"\n"
        text = json.dumps(asdict(line), ensure_ascii=True)
        write_all(number, ("\n" * cut + text + "\n").encode())
        os.fsync(number)
    finally:
        os.close(number)


def _require_plain(top: Folder, ownership: Ownership, info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise _refused(top, "it is not a regular file")
    if info.st_nlink != 1:
        raise _refused(top, "the file has a second name elsewhere")
    if not ownership.trusts(info.st_uid):
        raise _refused(top, f"it belongs to {name_of(info.st_uid)}, who does not publish here")


def _refused(top: Folder, why: str) -> PublishError:
    return PublishError(
        f"{top.path / FILE} is not a journal that dlcontainer wrote",
        why=why,
        next_step="find out who created it, then move it away",
    )


def unfinished(journal: Journal) -> list[JournalLine]:
    """List the switches that began and did not end, the oldest first."""
    begun: list[JournalLine] = []
    for line in journal.lines:
        if line.state == "begin":
            begun.append(line)
        elif line.state in ("done", "undone"):
            ended = (line.entered, line.what)
            begun = [line for line in begun if (line.entered, line.what) != ended]
    return begun


def settled(journal: Journal, live: int | None, now: str, who: str) -> Sequence[JournalLine]:
    """Return the lines that a killed run did not write, by the generation that is live."""
    missing: list[JournalLine] = []
    entered = journal.live
    for line in unfinished(journal):
        state: State = "done" if line.entered == live else "undone"
        missing.append(replace(line, state=state, time=now))
        entered = line.entered if state == "done" else entered
    if live is not None and live != entered:
        what = "a switch that the journal does not have"
        missing.append(
            JournalLine(
                time=now, who=who, what=what, state="noticed", left=entered or 0, entered=live
            )
        )
    return missing


def never_live(journal: Journal) -> set[int]:
    """Return the generations that were made and not switched to."""
    entered = {line.entered for line in journal.lines if line.state in _FINISHED}
    return {line.entered for line in journal.lines if line.state == "undone"} - entered


def left_at(journal: Journal) -> dict[int, float]:
    """Return when each generation was left for the last time, seconds since the epoch.

    One that never went live counts from when that was found. One that is not here: nobody knows.
    """
    moments: dict[int, float] = {}
    for line in journal.lines:
        if line.state in _FINISHED:
            moments[line.left] = line.at
            moments.pop(line.entered, None)
        elif line.state == "undone":
            moments[line.entered] = line.at
    live = journal.live
    return {number: at for number, at in moments.items() if number not in (0, live)}
