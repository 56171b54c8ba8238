"""What the watches saw in an OTF2 archive: of each process its figures, and its first thread.

Figures are metrics, at the looks that read them; what is known at the last look alone has one
value. What the first thread was at is a region from the first of equal looks in a row to the last.
Beyond a number of processes, runs and looks the rest is left out, and counted: processes that were
there the shortest, of the others what came late.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlcontainer.bench.trace.archive_definitions import ArchiveDefinitions
from dlcontainer.bench.trace.matched import NodeClock
from dlcontainer.bench.trace.watch import watch_text
from dlcontainer.bench.trace.watch.watch_file import ProcessWatch, SeenFigures, WatchedProcess

# Of the whole job. A process has up to two locations, which are files, and at a look seven values.
MOST_PROCESSES, MOST_RUNS, MOST_LOOKS = 500, 100_000, 50_000
_S = 1_000_000_000
_REGION = "by looks: from the first look that saw it to the last one in a row"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Figure:
    """A figure as a metric; a sum grows from the process's begin on."""

    name: str
    description: str
    unit: str
    is_sum: bool = True


_MEMORY = _Figure(name="memory", description="resident (VmRSS)", unit="bytes", is_sum=False)
_USER = _Figure(name="processor time, user", description="of all its threads", unit="s")
_SYSTEM = _Figure(name="processor time, system", description="of all its threads", unit="s")
_BYTES = (
    _Figure(name="bytes read", description="by calls, with its ended children's", unit="bytes"),
    _Figure(name="bytes written", description="by calls, with its ended children's", unit="bytes"),
    _Figure(name="bytes read from devices", description="or from servers", unit="bytes"),
    _Figure(name="bytes written to devices", description="or to servers", unit="bytes"),
)
_LAST = "one value, at the last look at the process"
_PEAK = _Figure(
    name="peak memory", description=f"resident (VmHWM); {_LAST}", unit="bytes", is_sum=False
)
_CHILDREN = _Figure(
    name="processor time, ended children", description=f"those waited for; {_LAST}", unit="s"
)
_QUEUED = _Figure(
    name="queued", description=f"its first thread was ready, without a processor; {_LAST}", unit="s"
)
_Values = tuple[int, Mapping[_Figure, float | None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SeenProcess:
    """A process, the watch that saw it, and that node's clock."""

    watch: ProcessWatch
    row: WatchedProcess
    clock: NodeClock

    @property
    def key(self) -> tuple[int, int]:
        """What tells a process of a watch."""
        return self.row.pid, self.row.begun

    @property
    def name(self) -> str:
        """Return its name; a number may come again."""
        row, rank = self.row, self.watch.head.rank
        if row.many > 1:
            return f"{row.many} of {row.name}, from pid {row.pid} on, below rank {rank}"
        return f"{row.name}, pid {row.pid}, below rank {rank}"

    def values(self, most: int) -> Iterator[_Values]:
        """Yield the figures of its first looks, and what is known at the last one."""
        for figures in self.watch.figures.get(self.key, ())[:most]:
            yield figures.at, _at_look(figures)
        row = self.row
        last: dict[_Figure, float | None] = {
            _USER: row.user_s,
            _SYSTEM: row.system_s,
            _PEAK: None if row.peak_kib is None else 1024 * row.peak_kib,
            _CHILDREN: row.children_s,
            _QUEUED: row.queued_s,
            **dict(zip(_BYTES, row.bytes or [None] * 4, strict=True)),
        }
        yield self.watch.began_ns + round(row.last_s * _S), last


def _at_look(figures: SeenFigures) -> dict[_Figure, float | None]:
    return {
        _MEMORY: figures.resident_bytes,
        _USER: figures.user_s,
        _SYSTEM: figures.system_s,
        **dict(zip(_BYTES, figures.bytes or [None] * 4, strict=True)),
    }


def write(
    definitions: ArchiveDefinitions,
    watches: Sequence[ProcessWatch],
    clock: Callable[[ProcessWatch], NodeClock],
) -> int:
    """Write what all watches saw; return how many processes, runs and looks were left out."""
    processes = [
        _SeenProcess(watch=watch, row=row, clock=clock(watch))
        for watch in watches
        for row in watch.head.processes
    ]
    processes.sort(key=lambda of: (-of.row.seconds, of.watch.head.rank, of.key))
    kept = processes[:MOST_PROCESSES]
    runs = [len(of.watch.runs.get(of.key, ())) for of in kept]
    looks = [len(of.watch.figures.get(of.key, ())) for of in kept]
    most_runs, most_looks = _most(runs, MOST_RUNS), _most(looks, MOST_LOOKS)
    writer = _ProcessWriter(definitions)
    for of in kept:
        writer.write(of, most_runs, most_looks)
    left_out = sum(max(0, count - most_runs) for count in runs)
    left_out += sum(max(0, count - most_looks) for count in looks)
    return left_out + len(processes) - len(kept)


def _most(counts: Sequence[int], most: int) -> int:
    """Return how many each may have at most, so that all together have no more than `most`.

    >>> _most([1, 9, 9], 11)
    5
    """
    rest = most
    for place, count in enumerate(sorted(counts)):
        remaining = len(counts) - place
        if count * remaining > rest:
            return rest // remaining
        rest -= count
    return most


class _ProcessWriter:
    """Writes processes; metrics and regions are defined once."""

    def __init__(self, definitions: ArchiveDefinitions) -> None:
        self._definitions = definitions
        self._classes: dict[_Figure, Any] = {}
        self._names = set[tuple[str, str]]()

    def write(self, of: _SeenProcess, most_runs: int, most_looks: int) -> None:
        """Write a process: at most so many of its runs, and the figures of so many looks."""
        clock, node, name = of.clock, of.watch.head.node, of.name
        if (node, name) in self._names:
            name = f"{name}, begun {of.row.begun}"
        self._names.add((node, name))
        group = self._definitions.group(name, node, clock.moved_ns, clock.bound_ns)
        if of.key in of.watch.runs:
            self._runs(of, group, most_runs)
        location = self._definitions.figures("figures", group)
        events, last = self._definitions.events(location), 0
        instances: dict[_Figure, Any] = {}
        for at, values in of.values(most_looks):
            last = max(last, at)
            for figure, value in values.items():
                if value is None:
                    continue
                if figure not in instances:
                    instances[figure] = self._definitions.made.metric_instance(
                        self._class(figure), recorder=location, scope=group
                    )
                events.metric(last, instances[figure], value)

    def _runs(self, of: _SeenProcess, group: Any, most: int) -> None:
        events = self._definitions.events(self._definitions.thread("first thread", group))
        names, last = of.watch.device_names(), 0
        for run in of.watch.runs[of.key][:most]:
            state = watch_text.state(run.doing, names.get(run.device))
            region = self._definitions.region(f"seen: {state}", _REGION)
            begin = max(last, run.begin)
            last = max(begin, run.end)
            events.enter(begin, region)
            events.leave(last, region)

    def _class(self, figure: _Figure) -> Any:
        if figure not in self._classes:
            otf2, registry = self._definitions.otf2, self._definitions.made
            member = registry.metric_member(
                figure.name,
                description=figure.description,
                metric_mode=(
                    otf2.MetricMode.ACCUMULATED_START
                    if figure.is_sum
                    else otf2.MetricMode.ABSOLUTE_POINT
                ),
                value_type=otf2.Type.DOUBLE if figure.unit == "s" else otf2.Type.UINT64,
                unit=figure.unit,
            )
            self._classes[figure] = registry.metric_class(
                (member,), recorder_kind=otf2.RecorderKind.ABSTRACT
            )
        return self._classes[figure]
