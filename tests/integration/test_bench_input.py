"""Samples on their way to a training step: a real session, libraries, and a slow file system."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes.inputs.options import FORMATS
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.config.resources import PROBE
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.system.process import ProcessRunner
from tests.integration.world import Built, World
from tests.judging import analyse
from tests.skips import skip

LIBRARIES = ("h5py==3.16.0", "lmdb==3.0.0", "zarr==3.1.6", "pyarrow==26.0.1", "numpy==2.3.5")


@pytest.fixture
def user(world: World, wheels: Path) -> World:
    return world.having(PIP_FIND_LINKS=wheels)


def test_native_and_container_read_the_same_samples(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    output, far = tmp_path / "x.jsonl", tmp_path / "far"
    far.mkdir()
    argv = ["--site", "local", "--image", tiny_image.image, "--recipe", tiny, "-o", output]
    argv += ["--quick", "--samples", 64, "--sample-bytes", 1000, "--formats", "files,raw,tfrecord"]
    argv += ["--folder", far, "--tiers", "cache,folder,staged", "--pairs", 1, "--demand", 100]
    user.run("bench", "input", *map(str, argv))
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    assert len(plan.rows) == 3 * 3 * 2 * 2
    written = set()
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert {row.checked for row in sample.rows} == {64}
        assert set(sample.phases) >= {"runtime", "data", "staged", "checked", "rows"}
        counts: Any = sample.values["counts"]
        assert {one["bytes"] >= 64_000 for one in counts["rows"]} == {True}
        written.add(json.dumps(counts["formats"], sort_keys=True))
    # Made once, by the first launch: each later one, of either side, has read what that wrote.
    assert len(written) == 1
    judged = analyse(series).verdict
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.word == "INCONCLUSIVE", judged.reasons
    # Nothing is left in the user's folder.
    assert list(far.iterdir()) == []
    page = tmp_path / "x.html"
    report = json.loads(user.run("report", output, "--json", "-o", page).stdout)
    (said,) = report["sessions"]
    assert [row["parameters"] for row in said["rows"]] == [dict(row) for row in plan.rows]
    assert "Supply by tier (container)" in page.read_text()
    assert "Left out, since the image has no module for them" not in page.read_text()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """The probe under a Python of the host."""

    python: Path
    work: Path

    def rows(self, at: Path, tier: str, formats: str, **more: object) -> Any:
        """Run one launch; give its report."""
        given: dict[str, object] = {
            "at": at, "work": self.work, "formats": formats, "tiers": tier, "shuffles": "full",
            "readers": 0, "samples": 96, "size": 12288, "shards": 4, "window": 24, "batch": 16,
            "rounds": 1, "seed": 1, **more,
        }  # fmt: skip
        argv = [str(word) for name, value in given.items() for word in (f"--{name}", value)]
        done = subprocess.run(
            [str(self.python), "-S", str(PROBE), "input", *argv],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def with_libraries(user: World, tmp_path: Path) -> Probe:
    """Give a Python that has what all formats take."""
    folder = tmp_path / "environment"
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/pip"), "--quiet", "install", "--only-binary", ":all:", *LIBRARIES]
    if subprocess.run(pip, env=dict(user.environ), check=False).returncode:
        skip("no h5py, lmdb, zarr and pyarrow from the index that pip is set to")
    (tmp_path / "work").mkdir()
    return Probe(python=folder / "bin/python", work=tmp_path / "work")


def by_format(report: Any) -> dict[str, float]:
    """Give the seconds of an epoch by format."""
    return {row["parameters"]["format"]: row["median"] for row in report["rows"]}


# The short set reads with the standard library alone (test_native_and_container_read_…).
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_order_of_formats_turns_over_on_a_slow_file_system(
    with_libraries: Probe, tmp_path: Path
) -> None:
    at, point = tmp_path / "set", tmp_path / "point"
    at.mkdir()
    point.mkdir()
    names = ",".join(FORMATS)
    whole = with_libraries.rows(at, "cache", names, shuffles="full,window", readers="0,2")
    # Every format, both shuffles, by itself and by readers: every sample is the one written.
    assert {row["checked"] for row in whole["rows"]} == {96}
    assert {row["parameters"]["format"] for row in whole["rows"]} == set(FORMATS)
    random = "files,raw,tar,hdf5,hdf5-contiguous,lmdb"
    near = by_format(with_libraries.rows(at, "cache", random, rounds=5))
    # Each runs on a mount of its own: what the kernel keeps of names is no other format's.
    far, calls = dict[str, float](), dict[str, Any]()
    runner = ProcessRunner(environ=os.environ)
    for name in random.split(","):
        shown = StandIn(source=at, delay=Delay(operation_s=1e-3, read_s=1e-3))
        with shown.mounted(point, runner):
            report = with_libraries.rows(point, "folder", name)
        far |= by_format(report)
        (calls[name],) = report["counts"]["rows"]
        # The check has read it, and then the epoch, from which the page cache was taken.
        assert shown.counters.counted().bytes >= 2 * 96 * 12288
    # Mapped pages are the quickest from memory, and one by one the slowest from afar.
    assert near["lmdb"] < near["files"]
    assert near["lmdb"] < near["hdf5"]
    assert far["lmdb"] > far["files"] > far["raw"]
    # It reads by page faults: hardly a call, and many faults that wait.
    assert calls["lmdb"]["calls"] < 96 < calls["lmdb"]["major_faults"]
    # Without chunks HDF5 reads 64 KiB for each sample of 12.
    assert calls["hdf5-contiguous"]["bytes"] > 3 * calls["hdf5"]["bytes"]


# A whole session on files that lie there already (test_native_and_container_read_… makes its own).
@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_data_set_that_is_kept_is_read_through_a_slow_file_system(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    argv = ["--site", "local", "--image", tiny_image.image, "--recipe", tiny, "--pairs", 1]
    argv += ["--quick", "--samples", 32, "--sample-bytes", 1000, "--formats", "files,raw"]
    argv += ["--tiers", "folder,mixed"]
    first = [*argv, "--folder", near, "--keep", "-o", tmp_path / "near.jsonl"]
    user.run("bench", "input", *map(str, first))
    (kept,) = near.iterdir()
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    shown = StandIn(source=near, delay=Delay(operation_s=1e-3, read_s=1e-3))
    with shown.mounted(far, ProcessRunner(environ=os.environ)):
        second = [*argv, "--folder", far, "-o", tmp_path / "far.jsonl"]
        user.run("bench", "input", *map(str, second))
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before
    series = reader.read(tmp_path / "far.jsonl")
    assert series.complete
    # Both sides saw the same files through the same mount.
    assert analyse(series).verdict.word == "INCONCLUSIVE"
    best = {
        tier: min(
            row.best
            for sample in series.samples
            for row in sample.rows
            if dict(row.parameters)
            == {"tier": tier, "format": "files", "shuffle": "full", "readers": 0}
        )
        for tier in ("folder", "mixed")
    }
    # 32 files, each an open and a read of a millisecond at least; half of them from a copy.
    assert best["folder"] > 32 * 2e-3
    assert best["folder"] > best["mixed"]
