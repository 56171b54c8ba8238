"""The input probe: rows of real epochs, the gates before a time counts, the session's side."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.measure.arms import Native, Workload
from dlcontainer.bench.probes import PROBES, input_
from dlcontainer.bench.probes.inputs import options as input_options
from dlcontainer.bench.probes.inputs import place as input_place
from dlcontainer.bench.probes.inputs import supply as input_supply
from dlcontainer.bench.probes.lending import SharedFolder, SharedStorage
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject, Values
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.bench.samples.rows.row_records import SampleRow
from dlcontainer.config.resources import PROBE
from dlcontainer.errors import ChecksFailedError, UsageError
from tests import rowseries
from tests.benchrunner import ProbeRunner

INPUT = PROBES["input"]
BARE = ProbeSubject(image="x.sif", recipe="demo", modules=("torch", "numpy"))
WHOLE = replace(BARE, modules=("torch", "h5py", "lmdb", "zarr", "pyarrow"))


def values(contents: ProbeSubject = BARE, **typed: Any) -> Values:
    return INPUT.values(typed, ParameterContext(contents=contents))


def settled(contents: ProbeSubject = BARE, **typed: Any) -> ProbeCell:
    return ProbeCell(values=values(contents, **typed), threads=1)


def words(cell: ProbeCell, work: Path, at: Path | None = None) -> list[str]:
    return [*INPUT.words(cell), "--work", str(work), "--at", str(at or work / "at")]


def launch(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", str(PROBE), *argv], capture_output=True, text=True, check=False
    )


def said(argv: Sequence[str]) -> Any:
    done = launch(argv)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work/at").mkdir(parents=True)
    return tmp_path / "work"


def measured(probe: Any, cell: ProbeCell, work: Path, at: Path | None = None) -> Any:
    """Make or find the data set, as a launch does, in this process."""
    inside = probe("probe_input")
    return inside.Measured(inside.options(words(cell, work, at)[1:]), str(work / "copies"))


SMALL: dict[str, Any] = {"quick": True, "samples": 48, "sample_bytes": 300}


def test_session_and_probe_have_the_same_lists(probe: Any) -> None:
    inside, libraries = probe("probe_input"), probe("input_libraries")
    assert inside.TIERS == input_.TIERS
    assert inside.input_order.SHUFFLES == input_.SHUFFLES
    assert inside.input_data.OWN == input_.OWN
    assert inside.input_data.MADE == input_place.MADE
    known = {**probe("input_formats").FORMATS, **libraries.FORMATS}
    assert {name: one.module for name, one in known.items()} == dict(input_options.FORMATS)
    assert tuple(name for name, one in known.items() if not one.alone) == input_options.STREAMED


@pytest.mark.parametrize("contents", [BARE, WHOLE])
@pytest.mark.parametrize("typed", [{}, {"quick": True}, {"folder": "/x"}, {"readers": "3"}])
def test_session_and_probe_list_the_same_rows(
    probe: Any, contents: ProbeSubject, typed: dict[str, Any]
) -> None:
    cell = settled(contents, **typed)
    inside = probe("probe_input")
    wanted = inside.options(words(cell, Path("/w"))[1:])
    plan = INPUT.rows(cell)
    assert plan is not None
    assert inside.declared(wanted) == [dict(row) for row in plan.rows]
    assert wanted.rounds == plan.rounds
    assert not any(row["format"] == "parquet" and row["shuffle"] == "full" for row in plan.rows)


@pytest.mark.usefixtures("real_processes")
def test_epochs_of_every_format(probe: Any, work: Path) -> None:
    cell = settled(**SMALL)
    body = said(words(cell, work))
    plan = INPUT.rows(cell)
    assert plan is not None
    found = joining.read(body["rows"])
    assert agreement.problem(plan, found) == ""
    assert {(row.n, row.checked) for row in found} == {(2, 48)}
    counted = body["counts"]["rows"]
    for row, counts in zip(found, counted, strict=True):
        assert counts["bytes"] >= 48 * 300, row
        if row.parameters["format"] == "files":
            # What reads the counts, and what lets readers go on, is not in them.
            assert (counts["calls"], counts["bytes"]) == (48, 48 * 300)
    assert body["counts"]["formats"]["files"]["files"] == 48
    assert set(body["counts"]["orders"]) == {"full 0", "full 2", "window 0", "window 2"}
    stamps = body["stamps_ns"]
    assert stamps["data"] <= stamps["staged"] <= stamps["checked"] <= stamps["rows"]
    # The next launch, of whichever side, reads the same bytes.
    before = {path: path.stat().st_mtime_ns for path in (work / "at").rglob("*")}
    again = measured(probe, cell, work)
    assert {path: path.stat().st_mtime_ns for path in (work / "at").rglob("*")} == before
    assert again.check(body["rows"][0]["parameters"]) == 48


def test_two_tiers_and_a_staged_copy(probe: Any, tmp_path: Path, work: Path) -> None:
    (tmp_path / "far").mkdir()
    more: dict[str, Any] = {"formats": "raw,files", "tiers": "folder,staged,mixed", "readers": "0"}
    cell = settled(**SMALL, folder=str(tmp_path), **more)
    whole = measured(probe, cell, work, tmp_path / "far")
    whole.stage()
    assert set(whole.staged) == {"raw", "files"}
    plan = INPUT.rows(cell)
    assert plan is not None
    for row in plan.rows:
        assert whole.check(row) == 48
        (seconds,) = whole.visit(row)
        assert seconds > 0
        if row["format"] == "files":
            assert whole.counted(row)["bytes"] == 48 * 300
    # What is read in a tier is its own copy: without the far one only `staged` is left.
    shutil.rmtree(tmp_path / "far/raw")
    row = {"format": "raw", "shuffle": "full", "readers": 0}
    assert whole.visit({**row, "tier": "staged"})
    for tier in ("folder", "mixed"):
        with pytest.raises(FileNotFoundError):
            whole.visit({**row, "tier": tier})


@pytest.mark.parametrize(("hits", "shards"), [(0, []), (50, [0, 2, 4, 6]), (100, list(range(8)))])
def test_a_share_of_the_shards_is_near(
    probe: Any, work: Path, hits: int, shards: list[int]
) -> None:
    cell = settled(**SMALL, formats="raw", folder="/x", tiers="mixed", hits=hits)
    whole = measured(probe, cell, work)
    row = {"tier": "mixed", "format": "raw", "shuffle": "full", "readers": 0}
    folders = whole.folders(row)
    near = [shard for shard, folder in enumerate(folders) if folder.startswith(f"{work}/copies")]
    assert near == shards


@pytest.mark.parametrize("shuffle", ["full", "window"])
@pytest.mark.parametrize("name", ["files", "tar", "raw", "npz", "tfrecord"])
def test_a_corrupt_shard_is_named(probe: Any, work: Path, name: str, shuffle: str) -> None:
    cell = settled(**SMALL, formats=name, tiers="cache")
    whole = measured(probe, cell, work)
    row = {"tier": "cache", "format": name, "shuffle": shuffle, "readers": 0}
    assert whole.check(row) == 48
    end = "" if name == "files" else f".{'bin' if name == 'raw' else name}"
    path = work / f"at/{name}/shard-00005{end}"
    damaged = path / "000002.bin" if name == "files" else path
    data = bytearray(damaged.read_bytes())
    # In a sample of each format.
    data[150 if name == "files" else 700] ^= 0x40
    damaged.write_bytes(data)
    with pytest.raises(probe("rows").WrongError, match=re.escape(str(path))) as caught:
        measured(probe, cell, work).check(row)
    assert f"{name}, {shuffle} shuffle, cache" in str(caught.value)


@pytest.mark.usefixtures("real_processes")
def test_a_launch_ends_with_a_wrong_sample(probe: Any, work: Path) -> None:
    cell = settled(**SMALL, formats="raw", tiers="cache")
    measured(probe, cell, work)
    path = work / "at/raw/shard-00005.bin"
    path.write_bytes(bytes(path.stat().st_size))
    done = launch(words(cell, work))
    assert done.returncode == 1
    assert done.stdout == ""
    assert re.search(f"WrongError: raw, full shuffle, cache, {path}: sample", done.stderr)


@pytest.mark.usefixtures("real_processes")
def test_a_reader_that_dies_is_named(probe: Any, work: Path, tmp_path: Path) -> None:
    cell = settled(**SMALL, formats="raw", tiers="cache", readers="2", shuffles="full")
    argv = words(cell, work)
    measured(probe, cell, work)
    (tmp_path / "kill.py").write_text(
        f"import os, sys\nsys.path.insert(0, {str(PROBE)!r})\nimport input_formats, probe_input\n"
        "main, read = os.getpid(), input_formats.Raw.read\n"
        "def dies(self, at):\n"
        "    os.getpid() == main or os.kill(os.getpid(), 9)\n"
        "    return read(self, at)\n"
        "input_formats.Raw.read = dies\n"
        f"probe_input.run({argv[1:]!r}, {{'python': 1}})\n"
    )
    done = subprocess.run(
        [sys.executable, str(tmp_path / "kill.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ReaderError: reader 0 ended (-9)" in done.stderr


@pytest.mark.usefixtures("real_processes")
def test_a_reader_that_fails_says_why(probe: Any, work: Path) -> None:
    cell = settled(**SMALL, formats="raw", tiers="cache", readers="2", shuffles="full")
    argv = words(cell, work)
    measured(probe, cell, work)
    # After the check: what is read then is cut off.
    program = (
        f"import os, sys; sys.path.insert(0, {str(PROBE)!r}); import probe_input\n"
        "visit = probe_input.Measured.visit\n"
        "def cut(self, row):\n"
        f"    os.truncate({str(work / 'at/raw/shard-00003.bin')!r}, 10)\n"
        "    return visit(self, row)\n"
        "probe_input.Measured.visit = cut\n"
        f"probe_input.run({argv[1:]!r}, {{'python': 1}})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "ReaderError: reader" in last
    assert "shard-00003.bin: it ends within" in last


def test_your_own_files_as_they_are(probe: Any, tmp_path: Path, work: Path) -> None:
    own = tmp_path / "own"
    for number in range(30):
        path = own / f"class {number % 3}/{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * (100 + number))
    (own / "link").symlink_to("/etc/passwd")
    more: dict[str, Any] = {"tiers": "cache,folder,staged,mixed", "readers": "0"}
    cell = settled(quick=True, data=str(own), **more)
    assert cell.values["total"] == sum(100 + n for n in range(30))
    assert cell.values["samples"] == 30
    before = {path: path.lstat().st_mtime_ns for path in own.rglob("*")}
    whole = measured(probe, cell, work, own)
    whole.stage()
    plan = INPUT.rows(cell)
    assert plan is not None
    for row in plan.rows:
        assert whole.check(row) == 30
        assert len(whole.visit(row)) == 1
        assert whole.counted(row)["calls"] >= 30
    assert {path: path.lstat().st_mtime_ns for path in own.rglob("*")} == before
    # Other bytes than the session's first launch saw, then a file less.
    (own / "class 0/3.bin").write_bytes(bytes(103))
    with pytest.raises(probe("rows").WrongError, match="is not the one that was written"):
        measured(probe, cell, work, own).check(plan.rows[0])
    (own / "class 0/3.bin").unlink()
    with pytest.raises(probe("input_data").DataError, match=r"29 files of .* it has changed"):
        measured(probe, cell, work, own)


def test_a_data_set_of_other_samples_is_refused(probe: Any, work: Path) -> None:
    measured(probe, settled(**SMALL, formats="raw", tiers="cache"), work)
    other = settled(**{**SMALL, "sample_bytes": 301}, formats="raw", tiers="cache")
    with pytest.raises(probe("input_data").DataError, match="a data set of other samples"):
        measured(probe, other, work)


def test_formats_without_a_module_are_left_out_and_named() -> None:
    found = values()
    assert found["formats"] == "files,tar,raw,npz,tfrecord"
    assert found["left_out"] == "hdf5,hdf5-contiguous,lmdb,zarr,parquet"
    assert values(WHOLE)["left_out"] == ""
    with pytest.raises(ChecksFailedError, match="does not verify h5py") as caught:
        values(formats="raw,hdf5")
    assert "variant io" in str(caught.value.next_step)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"formats": "raw,cd"}, "'cd' is not possible here"),
        ({"shuffles": "some"}, "'some' is not possible here"),
        ({"tiers": "folder"}, "'folder' is not possible here"),
        ({"readers": "0,x"}, "numbers separated by commas"),
        ({"readers": "65"}, "at most 64 readers"),
        ({"hits": 101, "folder": "/x"}, "0 to 100"),
        ({"keep": True}, "--keep requires --folder"),
        ({"folder": "/x", "data": "/y"}, "--folder and --data"),
        ({"data": "/no/such"}, "no such folder"),
        ({"data": "/x", "formats": "raw"}, "read unchanged"),
    ],
)
def test_bad_input(typed: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        values(**typed)


def test_ranks_are_refused() -> None:
    with pytest.raises(UsageError, match="no ranks"):
        INPUT.values({}, ParameterContext(contents=BARE, ranks=2))


def test_only_a_format_that_is_streamed_and_a_full_shuffle() -> None:
    with pytest.raises(UsageError, match="nothing is left to measure"):
        INPUT.rows(settled(WHOLE, formats="parquet", shuffles="full"))


def lending_of(folder: Path, notes: list[str]) -> SharedStorage:
    folder.mkdir(exist_ok=True)
    return SharedStorage(work=folder, runner=ProbeRunner(), note=notes.append)


def test_every_arm_is_handed_the_same_folders(tmp_path: Path) -> None:
    cell = settled(quick=True)
    with INPUT.lends(cell.values, lending_of(tmp_path / "w", [])) as lent:
        load = Workload(probe=INPUT, cell=cell, environment={}, lent=tuple(lent))
        assert load.binds == (
            (tmp_path / "w/input", "/mnt"), (tmp_path / "w/input/at", "/mnt/at")
        )  # fmt: skip
        assert load.argv("python", "x", contained=True)[-4:] == (
            "--work",
            "/mnt",
            "--at",
            "/mnt/at",
        )
        side = Native(prefix=Path("/n"), probe=Path("/p"), home=Path("/h")).launch(load)
        assert side.argv[-4:] == (
            "--work", str(tmp_path / "w/input"), "--at", str(tmp_path / "w/input/at")
        )  # fmt: skip
    lending = lending_of(tmp_path / "w", [])
    # Those that read samples of a file are handed it.
    lends = {"input", "convergence"}
    others = [probe.lends({}, lending) for name, probe in PROBES.items() if name not in lends]
    assert others
    assert all(isinstance(one, nullcontext) for one in others)


def test_samples_that_do_not_fit_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    lending = INPUT.lends(values(samples=1 << 40), lending_of(tmp_path / "w", []))
    with pytest.raises(ChecksFailedError, match="GB are free"), lending:
        pass
    far = tmp_path / "far"
    far.mkdir()
    typed: dict[str, Any] = {"samples": 1 << 40, "folder": str(far), "tiers": "folder"}
    with (
        pytest.raises(ChecksFailedError, match="--folder: the samples need"),
        INPUT.lends(values(**typed), lending_of(tmp_path / "v", [])),
    ):
        pass
    assert list(far.iterdir()) == []


def placed(found: Sequence[SharedFolder]) -> Path:
    return next(one.source for one in found if one.option == "at")


def test_a_folder_of_the_user_is_left_as_it_was(tmp_path: Path) -> None:
    far, notes = tmp_path / "far", list[str]()
    far.mkdir()
    with INPUT.lends(values(folder=str(far)), lending_of(tmp_path / "w", notes)) as lent:
        assert placed(lent).parent.parent == far
        (placed(lent) / "raw").mkdir()
    assert list(far.iterdir()) == []


def test_a_data_set_that_is_kept_is_found_again(tmp_path: Path) -> None:
    far, notes = tmp_path / "far", list[str]()
    far.mkdir()
    with INPUT.lends(values(folder=str(far), keep=True), lending_of(tmp_path / "w", notes)) as lent:
        first = placed(lent)
        (first / input_place.MADE).write_text(json.dumps({"formats": {"raw": {}}}))
    assert first.is_dir()
    assert any(str(first) in note for note in notes)
    with INPUT.lends(values(folder=str(far)), lending_of(tmp_path / "v", notes)) as lent:
        assert placed(lent) == first
    assert first.is_dir()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = tmp_path / "far"
    far.mkdir()
    # Root may write anywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    lending = INPUT.lends(values(folder=str(far)), lending_of(tmp_path / "w", []))
    with pytest.raises(ChecksFailedError, match="is not writable"), lending:
        pass
    kept = far / "dlcontainer-input-1024x12288-16"
    kept.mkdir()
    (kept / input_place.MADE).write_text(json.dumps({"formats": {"raw": {}}}))
    lending = INPUT.lends(values(folder=str(far)), lending_of(tmp_path / "v", []))
    with pytest.raises(ChecksFailedError, match="no samples in files, tar, npz") as caught, lending:
        pass
    assert "--formats raw" in str(caught.value.next_step)


TIER_ROWS = tuple(
    {"tier": tier, "format": name, "shuffle": "full", "readers": 0}
    for tier in ("cache", "folder", "staged")
    for name in ("files", "raw", "tar")
)
# Seconds of an epoch: the order of the formats turns over between the tiers.
TRUE_S = {
    ("cache", "files"): 0.4,
    ("cache", "raw"): 0.1,
    ("cache", "tar"): 0.2,
    ("folder", "files"): 10.0,
    ("folder", "raw"): 4.0,
    ("folder", "tar"): 2.0,
    ("staged", "files"): 2.0,
    ("staged", "raw"): 1.0,
    ("staged", "tar"): 1.0,
}


def session(path: Path, monkeypatch: pytest.MonkeyPatch, **work: Any) -> Any:
    """Give a session of 8 pairs with these times."""
    plan = replace(rowseries.PLAN, rows=TIER_ROWS, rounds=2, curve="readers")
    monkeypatch.setattr(rowseries, "PLAN", plan)

    def true(number: int) -> float:
        row = TIER_ROWS[number]
        return TRUE_S[str(row["tier"]), str(row["format"])]

    monkeypatch.setattr(rowseries, "truth", true)

    def row(number: int, seconds: float) -> SampleRow:
        return SampleRow(
            parameters=TIER_ROWS[number], n=2, best=seconds, median=seconds, cpu_s=0.1,
            steal_s=0.0, checked=100,
        )  # fmt: skip

    monkeypatch.setattr(rowseries, "row", row)
    counts: dict[str, Any] = {
        "formats": {"files": {"write_s": 3.0}, "raw": {"write_s": 5.0}, "tar": {"write_s": 1.0}},
        "stage_s": {"files": 12.0, "raw": 6.0, "tar": 6.0},
        "orders": {"full 0": {"mixing": 0.97}},
        "rows": [
            {"bytes": 2e6, "calls": 300.0, "device_bytes": None, "major_faults": 0.0}
            for _ in TIER_ROWS
        ],
    }
    plain = rowseries.session

    def changed(plant: rowseries.Plant) -> Any:
        found = plain(plant)
        given = {"samples": 100, "sample_bytes": 10_000, "left_out": "lmdb,zarr", **work}
        return replace(found, declared=replace(found.declared, probe="input", workload=given))

    monkeypatch.setattr(rowseries, "session", changed)
    plant = rowseries.Plant(
        change=lambda one: replace(
            one, wall_s=60.0, values={**one.values, "counts": {**counts, "max_rss_mb": 30.0}}
        )
    )
    from dlcontainer.bench.samples import reader

    return reader.read(rowseries.write(path / "x.jsonl", plant))


def test_the_report_advises_by_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = input_supply.section(session(tmp_path, monkeypatch, demand=60))
    assert found is not None
    lines = {line[:3:2]: dict(zip(found.head, line, strict=True)) for line in found.rows}
    assert [line[2] for line in found.rows if line[0] == "cache"] == ["raw", "tar", "files"]
    assert [line[2] for line in found.rows if line[0] == "folder"] == ["tar", "raw", "files"]
    assert lines["cache", "raw"]["reading"] == "quickest"
    assert lines["staged", "raw"]["reading"] in {"quickest", "not told apart"}
    assert lines["staged", "files"]["reading"].endswith("x")
    # (10 + 5) s for the conversion, 6 s gained in each epoch; of the cache (0.4 + 5) / 0.3.
    assert lines["folder", "raw"]["converting pays after"] == "3"
    assert lines["cache", "raw"]["converting pays after"] in {"18", "19"}
    assert lines["folder", "files"]["converting pays after"] == "-"
    # 12 s for the copy, 8 s gained in each epoch.
    assert lines["folder", "files"]["staging pays after"] == "2"
    assert lines["cache", "files"]["staging pays after"] == "-"
    assert lines["cache", "files"]["enough"] == "yes"
    assert lines["folder", "files"]["enough"] == "no"
    assert lines["folder", "files"]["calls a sample"] == "3"
    assert lines["folder", "files"]["bytes a byte"] == "2"
    assert lines["folder", "files"]["from the device, %"] == "-"
    assert lines["folder", "files"]["mixing"] == "0.97"
    assert "cache, full: raw; folder, full: tar;" in found.note
    assert "60 samples/s needs 0.6 MB/s" in found.note
    assert "148 MB/s" in found.note
    assert "lmdb, zarr" in found.note


def test_a_report_of_a_file_that_says_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = session(tmp_path, monkeypatch, samples="many", sample_bytes=None)
    found = input_supply.section(series)
    assert found is not None
    assert {line[4] for line in found.rows} == {"0"}
    assert "needs" not in found.note
