"""A trace in OTF2, the format of Score-P's tools and Vampir; by the package `otf2`, an extra.

A rank is a location group, a thread or stream a location; times are nanoseconds since the epoch by
the node's clock, and clock offsets bring them to that of the first rank's node. A collective's
begin carries its bytes as an attribute.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dlcontainer import __version__
from dlcontainer.bench.trace import rank_spans
from dlcontainer.bench.trace.archive_definitions import ArchiveDefinitions
from dlcontainer.bench.trace.matched import NodeClock
from dlcontainer.bench.trace.mpi_calls import mpi_archive
from dlcontainer.bench.trace.mpi_calls.call_worlds import CallWorld
from dlcontainer.bench.trace.rank_spans import RankSpans
from dlcontainer.bench.trace.watch import watch_archive
from dlcontainer.bench.trace.watch.watch_file import ProcessWatch

FOLDER, ANCHOR = "otf2", "traces.otf2"
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
class ArchiveWatches:
    """The watches of an archive, and the clocks of all nodes by their boots."""

    watches: Sequence[ProcessWatch] = ()
    clocks: Mapping[str, NodeClock] = field(default_factory=dict)

    def clock(self, watch: ProcessWatch) -> NodeClock:
        """Return a watch's clock: where nothing else was traced, the first watch's is right."""
        unknown = NodeClock(node=watch.head.node, moved_ns=0, bound_ns=None)
        if not self.clocks and watch.boot == self.watches[0].boot:
            return replace(unknown, bound_ns=0)
        return self.clocks.get(watch.boot, unknown)


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchiveCounts:
    """What an archive has of each rank, and spans that were left out."""

    spans: Mapping[int, int]
    left_out: Mapping[int, int]
    # Calls of MPI, by world and rank.
    calls: Mapping[tuple[int, int], int] = field(default_factory=dict)
    # Of watches: processes, runs and looks.
    unwatched: int = 0


def write(
    folder: Path,
    ranks: Sequence[ArchiveRank],
    worlds: Sequence[CallWorld] = (),
    job_watches: ArchiveWatches | None = None,
) -> ArchiveCounts | str:
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
        return _written(otf2, folder, ranks, worlds, job_watches or ArchiveWatches())
    except (OSError, *errors) as error:
        return f"no OTF2: {str(error)[:300]}"


def _written(
    otf2: Any,
    folder: Path,
    ranks: Sequence[ArchiveRank],
    worlds: Sequence[CallWorld],
    job_watches: ArchiveWatches,
) -> ArchiveCounts:
    archive = _opened(otf2, folder)
    definitions = ArchiveDefinitions(otf2, importlib.import_module("_otf2"), archive)
    counts = _write_ranks(definitions, ranks)
    counts = replace(
        counts,
        calls=mpi_archive.write(definitions, worlds),
        unwatched=watch_archive.write(definitions, job_watches.watches, job_watches.clock),
    )
    definitions.write_clocks()
    first = archive._first_timestamp
    if first is not None:
        # The writer takes the moment of writing for that of the first event, and has no setter.
        archive._realtime_timestamp = first / 1e9
    archive.close()
    _require_open(otf2, folder / ANCHOR)
    return counts


def _opened(otf2: Any, folder: Path) -> Any:
    """Open a new archive, whose begin and end are told by the common clock."""
    parent = otf2.writer.Writer
    changes = {
        # One that could not be opened or closed is not closed again as it is forgotten.
        "__del__": lambda _: None,
        # Of the events that are being written: see `ArchiveDefinitions.events`.
        "moved_ns": 0,
        "_update_timestamps": lambda self, at: parent._update_timestamps(self, at + self.moved_ns),
    }
    return type("ArchiveWriter", (parent,), changes)(str(folder), timer_resolution=1_000_000_000)


def _require_open(otf2: Any, anchor: Path) -> None:
    """Open an archive once: the library is silent about an anchor that it could not write."""
    error = importlib.import_module("_otf2.ErrorCodes").Error
    reader = importlib.import_module("otf2.reader")
    try:
        with reader.open(str(anchor)):
            pass
    except (error, otf2.error.Error):
        raise OSError(f"{anchor} was not written whole: is the disk full?") from None


def _write_ranks(definitions: ArchiveDefinitions, ranks: Sequence[ArchiveRank]) -> ArchiveCounts:
    definitions.archive.creator = f"dlcontainer {__version__}"
    spans, left_out = {}, {}
    for rank in ranks:
        read = rank_spans.read(rank.kineto)
        _write_rank(definitions, rank, read)
        spans[rank.rank], left_out[rank.rank] = read.count, read.left_out
    return ArchiveCounts(spans=spans, left_out=left_out)


def _write_rank(definitions: ArchiveDefinitions, rank: ArchiveRank, read: RankSpans) -> None:
    group = definitions.group(f"rank {rank.rank}", rank.node, rank.moved_ns, rank.bound_ns)
    for thread in read.threads:
        define = definitions.stream if thread.is_device else definitions.thread
        location = define(thread.name, group)
        events = definitions.events(location)
        for event in rank_spans.events(thread.spans):
            region, size = definitions.region(event.span.name), event.span.bytes
            if not event.is_begin:
                events.leave(event.at, region)
            elif event.span.is_collective and size is not None:
                events.enter(event.at, region, attributes={definitions.bytes: size})
            else:
                events.enter(event.at, region)
