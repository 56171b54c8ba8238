"""The files that the watch of a rank's processes leaves; the writer's rules stand in
`probe/process_watch.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from dlcontainer.bench.trace.watch.watch_records import Doing
from dlcontainer.errors import BenchDataError
from dlcontainer.system import foreign_files

SUFFIX, RUNS, FIGURES = ".watch", ".runs", ".figures"
_MOST_BYTES = 64 * 2**20
_MS = 1_000_000
_OURS = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
_Seconds = Annotated[float, Field(ge=0, lt=1e9)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]
_Text = Annotated[str, Field(max_length=300)]
_Looks = tuple[Doing, _Text | None, _Count]
_Run = tuple[_Count, _Count, Annotated[int, Field(ge=1)], Doing, _Text | None]
_Bytes = tuple[_Count, _Count, _Count, _Count] | None
_Figures = tuple[_Count, _Count | None, _Count, _Count, _Bytes]
_Runs = TypeAdapter[tuple[int, int, tuple[_Run, ...]]](tuple[int, int, tuple[_Run, ...]])
_Series = TypeAdapter[tuple[int, int, tuple[_Figures, ...]]](tuple[int, int, tuple[_Figures, ...]])
_Row = TypeVar("_Row")


class WatchedProcess(BaseModel):
    """A process, or several of a name; `inner_pid` is what it has for itself."""

    model_config = _OURS

    pid: _Count
    inner_pid: _Count
    begun: _Count
    parent: _Count
    name: _Text
    many: Annotated[int, Field(ge=1)]
    first_s: _Seconds
    last_s: _Seconds
    user_s: _Seconds
    system_s: _Seconds
    children_s: _Seconds
    queued_s: _Seconds | None
    peak_kib: _Count | None
    bytes: _Bytes
    threads: _Count
    seconds: _Seconds
    main: tuple[_Looks, ...]
    others: Mapping[Doing, _Count]
    calls_closed: bool


class WatchedFileSystem(BaseModel):
    """A file system: where it is mounted on the node and in other views, and what it cost."""

    model_config = _OURS

    device: _Text | None
    point: _Text | None
    within: tuple[_Text, ...]
    type: _Text
    source: _Text
    read_bytes: _Count
    written_bytes: _Count
    waits: Mapping[Doing, tuple[_Count, _Seconds, _Seconds]]

    @property
    def name(self) -> str:
        """Return where it is, and of which type."""
        if self.device is None:
            return ""
        if self.point is not None:
            return f"{self.point} ({self.type})"
        place = min(self.within, key=len) if self.within else self.device
        return f"{place} in the container ({self.type})"


class WatchHead(BaseModel):
    """What one clock's watch wrote last."""

    model_config = _OURS

    form: Literal["dlcontainer/watch/1"] = Field(alias="schema")
    node: _Text
    boot: _Text
    rank: _Count
    command: _Count
    began: Annotated[float, Field(gt=0, lt=1e10)]
    seconds: _Seconds
    looks: _Count
    own_cpu_s: _Seconds
    is_over: bool
    is_adopting: bool
    calls_told: bool
    runs_left_out: _Count
    figures_left_out: _Count
    processes: tuple[WatchedProcess, ...]
    file_systems: tuple[WatchedFileSystem, ...]
    notes: tuple[_Text, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenRun:
    """Equal looks in a row at a process's first thread, ns since the epoch."""

    begin: int
    end: int
    looks: int
    doing: Doing
    device: str | None

    def moments(self) -> Iterator[int]:
        """Yield when the looks were: evenly between the first and the last."""
        step = (self.end - self.begin) / max(1, self.looks - 1)
        return (self.begin + round(number * step) for number in range(self.looks))


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenFigures:
    """A process's figures at a look, ns since the epoch; bytes as `WatchedProcess` has them."""

    at: int
    resident_bytes: int | None
    user_s: float
    system_s: float
    bytes: tuple[int, int, int, int] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessWatch:
    """One clock's watch; the runs and figures of each process by pid and begin."""

    head: WatchHead
    runs: Mapping[tuple[int, int], Sequence[SeenRun]]
    figures: Mapping[tuple[int, int], Sequence[SeenFigures]]

    @property
    def boot(self) -> str:
        """Return its node's boot; a node that does not tell it is one by its name."""
        return self.head.boot or self.head.node

    @property
    def began_ns(self) -> int:
        """Return when it began, since the epoch."""
        return round(self.head.began * 1e9)

    def device_names(self) -> dict[str | None, str]:
        """Return the file systems' names by their devices, where both are known."""
        systems = self.head.file_systems
        return {system.device: system.name for system in systems if system.device and system.name}


def read(folder: Path) -> tuple[ProcessWatch, ...]:
    """Read what the watches of a job left; raises BenchDataError for a file that is damaged."""
    return tuple(_read(path) for path in sorted(folder.glob(f"*{SUFFIX}")))


def _read(path: Path) -> ProcessWatch:
    try:
        text = foreign_files.read(path, _MOST_BYTES).decode()
        head = WatchHead.model_validate(foreign_files.loads(text))
        began = round(head.began * 1e9)
        runs = _by_process(path.with_suffix(RUNS), _Runs)
        figures = _by_process(path.with_suffix(FIGURES), _Series)
    except (OSError, ValueError, ValidationError) as error:
        raise BenchDataError(
            "what was seen of a rank's processes can't be read",
            where=str(path),
            why=str(error)[:300],
        ) from None
    return ProcessWatch(
        head=head,
        runs={key: [_run(row, began) for row in rows] for key, rows in runs.items()},
        figures={key: [_figures(row, began) for row in rows] for key, rows in figures.items()},
    )


def _by_process(
    path: Path, form: TypeAdapter[tuple[int, int, tuple[_Row, ...]]]
) -> dict[tuple[int, int], list[_Row]]:
    """Read a file of rows by process; none where there is no file."""
    rows: dict[tuple[int, int], list[_Row]] = {}
    try:
        text = foreign_files.read(path, _MOST_BYTES).decode()
    except FileNotFoundError:
        return rows
    # Behind the last line end stands nothing, or a line that was cut.
    for line in text.split("\n")[:-1]:
        pid, begun, of = form.validate_python(foreign_files.loads(line))
        rows.setdefault((pid, begun), []).extend(of)
    return rows


def _run(row: _Run, began: int) -> SeenRun:
    begin, end, looks, doing, device = row
    return SeenRun(
        begin=began + begin * _MS, end=began + end * _MS, looks=looks, doing=doing, device=device
    )


def _figures(row: _Figures, began: int) -> SeenFigures:
    at, resident, user, system, counts = row
    return SeenFigures(
        at=began + at * _MS,
        resident_bytes=None if resident is None else 1024 * resident,
        user_s=user / 1e3,
        system_s=system / 1e3,
        bytes=counts,
    )
