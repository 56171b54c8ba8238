"""A trace in OTF2, the format of Score-P's tools and Vampir; by the package `otf2`, an extra.

A rank is a location group, a thread or stream a location; times are nanoseconds since the epoch by
the first rank's node. A collective's begin carries its bytes as an attribute; how far the clock of
a rank's node was moved, and within what it is right, are properties of its group.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlcontainer import __version__
from dlcontainer.bench.trace import rank_spans
from dlcontainer.bench.trace.rank_spans import RankSpans, SpanThread

FOLDER, ANCHOR = "otf2", "traces.otf2"
BYTES = "bytes"
MISSING = (
    "no OTF2: the package otf2 is missing; install dlcontainer's extra `trace` and trace again"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveRank:
    """A rank of an archive: its Kineto file, and its node's clock, ns; None: not known."""

    rank: int
    node: str
    kineto: Path
    moved_ns: int
    bound_ns: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveCounts:
    """What an archive has of each rank, and spans that were left out."""

    spans: Mapping[int, int]
    left_out: Mapping[int, int]


def write(folder: Path, ranks: Sequence[ArchiveRank]) -> ArchiveCounts | str:
    """Write an archive into a new folder; return what is in it, or why there is none.

    Raises BenchDataError for a Kineto file that is damaged.
    """
    if importlib.util.find_spec("otf2") is None:
        return MISSING
    otf2: Any = importlib.import_module("otf2")
    # Of the C library, and of the package itself.
    errors = (importlib.import_module("_otf2.ErrorCodes").Error, otf2.error.Error)
    try:
        # The package's own writer fails later, and twice.
        folder.mkdir()
        return _written(otf2, folder, ranks)
    except (OSError, *errors) as error:
        return f"no OTF2: {str(error)[:300]}"


def _written(otf2: Any, folder: Path, ranks: Sequence[ArchiveRank]) -> ArchiveCounts:
    # One that could not be opened or closed is not closed again as it is forgotten.
    writer = type("ArchiveWriter", (otf2.writer.Writer,), {"__del__": lambda _: None})
    archive: Any = writer(str(folder), timer_resolution=1_000_000_000)
    counts = _write_ranks(_Definitions(otf2, archive), ranks)
    first = archive._first_timestamp
    if first is not None:
        # The writer takes the moment of writing for that of the first event, and has no setter.
        archive._realtime_timestamp = first / 1e9
    archive.close()
    _require_open(otf2, folder / ANCHOR)
    return counts


def _require_open(otf2: Any, anchor: Path) -> None:
    """Open an archive once: the library is silent about an anchor that it could not write."""
    error = importlib.import_module("_otf2.ErrorCodes").Error
    reader = importlib.import_module("otf2.reader")
    try:
        with reader.open(str(anchor)):
            pass
    except (error, otf2.error.Error):
        raise OSError(f"{anchor} was not written whole: is the disk full?") from None


def _write_ranks(definitions: "_Definitions", ranks: Sequence[ArchiveRank]) -> ArchiveCounts:
    definitions.archive.creator = f"dlcontainer {__version__}"
    spans, left_out = {}, {}
    for rank in ranks:
        read = rank_spans.read(rank.kineto, rank.moved_ns)
        _write_rank(definitions, rank, read)
        spans[rank.rank], left_out[rank.rank] = read.count, read.left_out
    return ArchiveCounts(spans=spans, left_out=left_out)


class _Definitions:
    """What an archive's events refer to; equal ones are one."""

    def __init__(self, otf2: Any, archive: Any) -> None:
        self.otf2, self.archive = otf2, archive
        self._made = archive.definitions
        self._machine = self._made.system_tree_node("machine", class_name="machine")
        self._nodes: dict[str, Any] = {}
        self._regions: dict[str, Any] = {}
        self.bytes = self._made.attribute(BYTES, "what the rank puts in", type=otf2.Type.UINT64)

    def group(self, rank: ArchiveRank) -> Any:
        node = self._nodes.get(rank.node)
        if node is None:
            node = self._made.system_tree_node(rank.node, class_name="node", parent=self._machine)
            self._nodes[rank.node] = node
        group = self._made.location_group(f"rank {rank.rank}", system_tree_parent=node)
        bound = "unknown" if rank.bound_ns is None else str(rank.bound_ns)
        for name, value in (("MOVED_NS", str(rank.moved_ns)), ("BOUND_NS", bound)):
            self._made.location_group_property(
                group, f"DLCONTAINER::CLOCK_{name}", self.otf2.Type.STRING, value
            )
        return group

    def location(self, thread: SpanThread, group: Any) -> Any:
        kinds = self.otf2.LocationType
        kind = kinds.GPU if thread.is_device else kinds.CPU_THREAD
        return self._made.location(thread.name, type=kind, group=group)

    def region(self, name: str) -> Any:
        region = self._regions.get(name)
        if region is None:
            region = self._regions[name] = self._made.region(name)
        return region


def _write_rank(definitions: _Definitions, rank: ArchiveRank, read: RankSpans) -> None:
    group = definitions.group(rank)
    for thread in read.threads:
        location = definitions.location(thread, group)
        events = definitions.archive.event_writer_from_location(location)
        for event in rank_spans.events(thread.spans):
            region, size = definitions.region(event.span.name), event.span.bytes
            if not event.is_begin:
                events.leave(event.at, region)
            elif event.span.is_collective and size is not None:
                events.enter(event.at, region, attributes={definitions.bytes: size})
            else:
                events.enter(event.at, region)
