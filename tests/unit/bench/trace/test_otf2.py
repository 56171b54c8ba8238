"""OTF2 as its own package reads it back; `otf2-print` reads it in the integration tests."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import otf2_archive
from dlcontainer.bench.trace.matched import NodeClock
from dlcontainer.bench.trace.otf2_archive import (
    ANCHOR,
    ArchiveCounts,
    ArchiveRank,
    ArchiveWatches,
)
from dlcontainer.bench.trace.watch import watch_archive, watch_file
from tests import madewatches
from tests.madetraces import BASE_NS, MS, MadeRank, write_kineto
from tests.skips import skip


@pytest.fixture
def otf2() -> Any:
    if importlib.util.find_spec("otf2") is None:
        skip("no package otf2; type `make setup`")
    return importlib.import_module("otf2")


def ranks(folder: Path) -> list[ArchiveRank]:
    made = []
    for number in range(2):
        path = folder / f"{number}.json"
        spans = [("aten::mm", 0, 9), ("aten::add", 2, 30), ("gloo:all_reduce", 4, 20)]
        write_kineto(path, MadeRank(spans=spans))
        made.append(
            ArchiveRank(
                rank=number, node="n", kineto=path, moved_ns=number * MS,
                bound_ns=8 if number else None,
            )
        )  # fmt: skip
    return made


def test_events_are_read_back(otf2: Any, tmp_path: Path) -> None:
    counts = otf2_archive.write(tmp_path / "a", ranks(tmp_path))
    assert counts == ArchiveCounts(spans={0: 3, 1: 3}, left_out={0: 0, 1: 0})
    told = []
    with otf2.reader.open(str(tmp_path / "a" / ANCHOR)) as archive:
        for location, event in archive.events:
            sizes = list((event.attributes or {}).values())
            at = (event.time - BASE_NS) / MS
            kind = type(event).__name__
            told.append((location.group.name, at, kind, event.region.name, sizes))
        properties = {
            (one.location_group.name, one.name): one.value
            for one in archive.definitions.location_group_properties
        }
        assert archive.definitions.clock_properties.timer_resolution == 10**9
    first = [row[1:] for row in told if row[0] == "rank 0"]
    assert first == [
        (0, "Enter", "aten::mm", []),
        (2, "Enter", "aten::add", []),
        (4, "Enter", "gloo:all_reduce", [4000]),
        (9, "Leave", "aten::add", []),
        (9, "Leave", "aten::mm", []),
        (20, "Leave", "gloo:all_reduce", []),
    ]
    assert [row[1] - 1 for row in told if row[0] == "rank 1"] == [row[0] for row in first]
    assert properties["rank 0", "DLCONTAINER::CLOCK_BOUND_NS"] == "unknown"
    assert properties["rank 1", "DLCONTAINER::CLOCK_BOUND_NS"] == "8"
    assert properties["rank 1", "DLCONTAINER::CLOCK_MOVED_NS"] == str(MS)


def offsets(archive: Path, locations: int) -> list[tuple[int, int, float]]:
    """Read the clock offsets of all locations: time by the node's clock, offset, deviation."""
    low = importlib.import_module("_otf2")
    told: list[tuple[int, int, float]] = []

    def tell(_: Any, at: int, offset: int, deviation: float) -> Any:
        told.append((at, offset, deviation))
        return low.CALLBACK_SUCCESS

    reader = low.Reader_Open(str(archive))
    low.Reader_SetSerialCollectiveCallbacks(reader)
    for location in range(locations):
        low.Reader_SelectLocation(reader, location)
    low.Reader_OpenDefFiles(reader)
    for location in range(locations):
        definitions = low.Reader_GetDefReader(reader, location)
        callbacks = low.DefReaderCallbacks_New()
        low.DefReaderCallbacks_SetClockOffsetCallback(callbacks, tell)
        low.Reader_RegisterDefCallbacks(reader, definitions, callbacks, None)
        low.Reader_ReadAllLocalDefinitions(reader, definitions)
    low.Reader_Close(reader)
    return told


def test_a_clock_that_was_moved_is_an_offset_of_otf2(otf2: Any, tmp_path: Path) -> None:
    first, second = ranks(tmp_path)
    moved = replace(second, moved_ns=-500 * MS, bound_ns=9)
    otf2_archive.write(tmp_path / "a", [replace(first, bound_ns=0), moved])
    # Written by the node's own clock, from the first event of all to the last.
    begin, length = BASE_NS - 500 * MS, 520 * MS
    of_thread = [
        (begin + 500 * MS, -500 * MS, 9.0),
        (begin + 500 * MS + length, -500 * MS, 9.0),
    ]
    # Two threads of each rank.
    assert offsets(tmp_path / "a" / ANCHOR, 4) == 2 * of_thread
    with otf2.reader.open(str(tmp_path / "a" / ANCHOR)) as archive:
        clock = archive.definitions.clock_properties
        assert (clock.global_offset, clock.trace_length) == (begin, length)
        times = [event.time for location, event in archive.events]
    assert (min(times), max(times)) == (begin, begin + length)


def watched(folder: Path, **changes: Any) -> ArchiveWatches:
    """Give a watch of a rank's process: in a read, then asleep, figures at three looks."""
    runs = [(0, 400, 9, "read", madewatches.DEVICE), (450, 450, 1, "asleep", None)]
    traces = madewatches.leave(folder, 1, runs, **changes)
    clock = NodeClock(node="node", moved_ns=-10 * MS, bound_ns=3)
    return ArchiveWatches(watches=watch_file.read(traces), clocks={"one": clock})


def seen_in(otf2: Any, archive: Path) -> dict[str, dict[str, list[tuple[float, Any]]]]:
    """Read what was seen of each process: by metric or region, ms and values or events."""
    told: dict[str, dict[str, list[tuple[float, Any]]]] = {}
    with otf2.reader.open(str(archive)) as reader:
        for location, event in reader.events:
            of, at = told.setdefault(location.group.name, {}), (event.time - BASE_NS) / MS
            if isinstance(event, otf2.events.Metric):
                assert event.metric.scope == location.group
                of.setdefault(event.member.name, []).append((at, event.value))
            else:
                of.setdefault(event.region.name, []).append((at, type(event).__name__))
    return told


def test_what_was_seen_of_a_process_is_in_metrics_and_regions(otf2: Any, tmp_path: Path) -> None:
    counts = otf2_archive.write(tmp_path / "a", [], job_watches=watched(tmp_path / "trace"))
    assert isinstance(counts, ArchiveCounts)
    assert counts.unwatched == 0
    # The clock is moved by 10 ms; the last look was 2 s behind the first.
    assert seen_in(otf2, tmp_path / "a" / ANCHOR) == {
        "python, pid 2, below rank 1": {
            "seen: reading /data (slowfs)": [(-10, "Enter"), (390, "Leave")],
            "seen: asleep": [(440, "Enter"), (440, "Leave")],
            "memory": [(-10, 2**20), (490, 2**21), (990, 1.5 * 2**20)],
            "processor time, user": [(-10, 0.05), (490, 0.5), (990, 0.9), (1990, 1.25)],
            "processor time, system": [(-10, 0.01), (490, 0.1), (990, 0.2), (1990, 0.25)],
            "bytes read": [(490, 10**6), (990, 2 * 10**6), (1990, 3 * 10**6)],
            "bytes written": [(490, 10), (990, 10), (1990, 10)],
            "bytes read from devices": [(490, 0), (990, 4096), (1990, 4096)],
            "bytes written to devices": [(490, 0), (990, 0), (1990, 0)],
            "peak memory": [(1990, 2**21)],
            "processor time, ended children": [(1990, 0.0)],
        }
    }
    with otf2.reader.open(str(tmp_path / "a" / ANCHOR)) as reader:
        modes = {of.name: of.metric_mode for of in reader.definitions.metric_members}
        texts = {of.name: of.description for of in reader.definitions.metric_members}
    assert modes["memory"] == otf2.MetricMode.ABSOLUTE_POINT
    assert modes["bytes read"] == otf2.MetricMode.ACCUMULATED_START
    assert texts["peak memory"].endswith("one value, at the last look at the process")


def test_of_many_processes_and_looks_the_rest_is_left_out(
    otf2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_archive, "MOST_PROCESSES", 2)
    monkeypatch.setattr(watch_archive, "MOST_RUNS", 1)
    monkeypatch.setattr(watch_archive, "MOST_LOOKS", 2)
    several = [
        madewatches.process(2),
        madewatches.process(3, seconds=1.0, many=4, peak_kib=None, bytes=None),
        madewatches.process(4, seconds=0.5),
    ]
    seen = watched(tmp_path / "trace", processes=several)
    counts = otf2_archive.write(tmp_path / "a", [], job_watches=seen)
    assert isinstance(counts, ArchiveCounts)
    # A process, a run and a look.
    assert counts.unwatched == 3
    told = seen_in(otf2, tmp_path / "a" / ANCHOR)
    assert "seen: asleep" not in told["python, pid 2, below rank 1"]
    assert len(told["python, pid 2, below rank 1"]["memory"]) == 2
    assert set(told["4 of python, from pid 3 on, below rank 1"]) == {
        "processor time, user", "processor time, system", "processor time, ended children",
    }  # fmt: skip


def test_a_number_that_a_later_process_had_again(otf2: Any, tmp_path: Path) -> None:
    again = [madewatches.process(2), madewatches.process(2, begun=9, seconds=0.5)]
    seen = watched(tmp_path / "trace", processes=again)
    otf2_archive.write(tmp_path / "a", [], job_watches=seen)
    assert set(seen_in(otf2, tmp_path / "a" / ANCHOR)) == {
        "python, pid 2, below rank 1",
        "python, pid 2, below rank 1, begun 9",
    }


def test_a_watch_of_a_node_that_no_rank_was_on(tmp_path: Path) -> None:
    seen = watched(tmp_path / "trace")
    (watch,) = seen.watches
    assert replace(seen, clocks={}).clock(watch) == NodeClock(node="node", moved_ns=0, bound_ns=0)
    other = replace(seen, clocks={"two": seen.clocks["one"]})
    assert other.clock(watch) == NodeClock(node="node", moved_ns=0, bound_ns=None)


def test_a_folder_that_can_t_be_written_is_a_reason(otf2: Any, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    said = otf2_archive.write(tmp_path / "a", ranks(tmp_path))
    assert isinstance(said, str)
    assert said.startswith("no OTF2: ")


def test_without_the_package_there_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    gone = {"otf2"}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in gone else real(name)
    )
    assert otf2_archive.write(tmp_path / "a", ranks(tmp_path)) == otf2_archive.MISSING
    assert not (tmp_path / "a").exists()
