"""OTF2 as its own package reads it back; `otf2-print` reads it in the integration tests."""

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.trace import otf2_archive
from dlcontainer.bench.trace.otf2_archive import ANCHOR, ArchiveCounts, ArchiveRank
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
