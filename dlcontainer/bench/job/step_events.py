"""The files of named events that the processes of a job leave; the writer's rules stand in
`probe/event_stamps.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dlcontainer.config.resources import PROBE
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

EVENTS, HOOK = "events", "hook"
# As the programs that run on compute nodes name them.
MARK, STEP, NO_HOOK = "mark", "optimizer-step/", "no-optimizer-hook"
# What the hook's folder holds, by the probe's files: Python runs the one, which imports the other.
HOOK_FILES: Mapping[str, Path] = {
    "sitecustomize.py": PROBE / "step_hook.py",
    "event_stamps.py": PROBE / "event_stamps.py",
}
_MOST_BYTES = 64 * 2**20


class EventHead(BaseModel):
    """The first line: whose events these are, and when the file began by the node's clock."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    form: Literal["dlcontainer/events/1"] = Field(alias="schema")
    node: str
    pid: int
    rank: int | None
    mono: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessEvents:
    """One process: the moments of each kind of its events, s since its file began."""

    node: str
    pid: int
    rank: int | None
    moments: Mapping[str, Sequence[float]]

    def steps(self) -> Sequence[float]:
        """Return the moments at which its steps ended.

        Of several optimizers those of the one that stepped most often, of equals the first: two
        that step in turn are one step.
        """
        kinds = [name for name in self.moments if name == MARK or name.startswith(STEP)]
        most = max(kinds, key=lambda name: len(self.moments[name]), default=None)
        return () if most is None else self.moments[most]


def read(folder: Path) -> tuple[ProcessEvents, ...]:
    """Read the events of a job's processes; raises BenchDataError for a file that is damaged."""
    return tuple(sorted(map(_read, folder.glob("*.events")), key=_place))


def _place(events: ProcessEvents) -> tuple[bool, int, str, int]:
    return (events.rank is None, events.rank or 0, events.node, events.pid)


def _read(path: Path) -> ProcessEvents:
    try:
        head, *lines = foreign_files.read(path, _MOST_BYTES).decode().split("\n")
        body = foreign_files.loads(head)
        begin = EventHead.model_validate(body)
        moments: dict[str, list[float]] = {}
        # Behind the last line end stands nothing, or a line that was cut.
        for at, name in _lines(lines[:-1]):
            moments.setdefault(name, []).append(at)
    except (OSError, ValueError, ValidationError) as error:
        raise BenchDataError(f"the stamps of a process can't be read: {error}") from None
    if any(later < sooner for times in moments.values() for sooner, later in pairwise(times)):
        raise BenchDataError("the stamps of a process can't be read: its clock went back")
    return ProcessEvents(node=begin.node, pid=begin.pid, rank=begin.rank, moments=moments)


def _lines(lines: Sequence[str]) -> Iterator[tuple[float, str]]:
    for line in lines:
        moment, _, name = line.partition(" ")
        at = float(moment)
        if not 0 <= at < 1e9 or not name:
            raise ValueError(f"no event: {line[:40]!r}")
        yield at, name
