import errno
import json
import os
from pathlib import Path

import pytest

from dlcontainer import config
from dlcontainer.errors import BenchDataError, ConfigError, UsageError
from dlcontainer.lab.filesystem.counting import Count
from dlcontainer.lab.slowfs.counters import METADATA
from dlcontainer.lab.storm import loads, parameters
from dlcontainer.lab.storm.loads import LoadMeasurement, Timing
from dlcontainer.lab.storm.measure import of_image, of_tree
from dlcontainer.lab.storm.repeats import MeasuringNode, ReadWaits, WarmImport
from dlcontainer.sites.facts import FileSystemSpeed
from dlcontainer.sites.site import Site

SITE = """\
schema: 1
name: lab
summary: a site
arch: x86_64
default_recipe: pytorch
sources: {guide: the centre's guide}
filesystems:
  - {path: /home, kind: nfs, purpose: home, sources: [guide]}
  - path: /work
    kind: lustre
    purpose: scratch
    speed: {operations_per_s: 30000, stripes: 4}
    sources: [guide]
"""


@pytest.fixture
def site() -> Site:
    return config.validate(config.parse(SITE, layer="site", display="lab.yaml"), Site)


def write(folder: Path, text: str) -> Path:
    path = folder / "facts.yaml"
    path.write_text(text)
    return path


def test_the_file_over_the_site_over_what_is_assumed(site: Site, tmp_path: Path) -> None:
    given = 'schema: 1\nsource: "measured on Monday"\nspeed: {operations_per_s: 500.5}\n'
    found = parameters.gather(write(tmp_path, given), site)
    by = {fact.key: fact for fact in found.facts}
    assert (by["operations_per_s"].value, by["operations_per_s"].source) == (
        500.5,
        "facts.yaml: measured on Monday",
    )
    assert (by["stripes"].value, by["stripes"].source) == (4, "site lab, /work: guide")
    assert by["latency_ms"].assumed
    assert "stripes" not in found.assumed
    system = found.system()
    assert (system.rate, system.stripes) == (500.5, 4)


def test_nothing_is_known() -> None:
    found = parameters.gather(None, None)
    assert len(found.assumed) == len(found.facts) == len(FileSystemSpeed.model_fields)


def test_a_path_of_the_site(site: Site) -> None:
    assert "stripes" in parameters.gather(None, site, "/home").assumed
    with pytest.raises(UsageError, match="/nowhere") as caught:
        parameters.gather(None, site, "/nowhere")
    assert "/home, /work" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("schema: 1\nspeed: {}\n", "source"),
        ("schema: 1\nsource: x\nspeed: {latency_ms: -1}\n", "latency_ms"),
        ("schema: 1\nsource: x\nspeed: {latency: 1}\n", "latency"),
        ("schema: 2\nsource: x\nspeed: {}\n", "schema"),
    ],
)
def test_a_wrong_file_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parameters.gather(write(tmp_path, text), None)
    assert "facts.yaml" in str(caught.value)


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    speed = FileSystemSpeed(latency_ms=0.25, operations_per_s=12345.0, stripes=2)
    path = write(tmp_path, parameters.text(speed, 'by "hand" \\ here'))
    found = parameters.gather(path, None)
    assert (found["latency_ms"], found["operations_per_s"], found["stripes"]) == (0.25, 12345, 2)
    assert 'by "hand" \\ here' in found.facts[0].source


def counted(metadata: int, reads: int = 0, size: int = 0) -> Count:
    operations = {str(name): 0 for name in METADATA} | {"lookup": metadata, "read": reads}
    return Count(operations=operations, bytes=size, files=())


def timed(reads: float, processor_s: float) -> Timing:
    run = WarmImport(processor_s=processor_s, wall_s=9.0)
    return Timing(
        runs=(run,) * 3,
        waits=ReadWaits(reads=reads, is_bound=False, prompt_s=(1.0,), late_s=(2.0,)),
    )


def test_two_counts_tell_shared_from_own() -> None:
    load = of_tree(counted(3306, 500, 10_000_000), counted(4306), timed(200.0, 1.5))
    assert (load.shared_operations, load.own_operations) == (2306, 1000)
    assert load.operations(1) == 3306
    assert load.operations(4) == 6306
    # Of the processor, not of the wall.
    assert (load.mb, load.read_waits) == (10, 200)
    assert load.cpu_s == pytest.approx(1.5)


def test_fewer_operations_of_two_than_of_one_is_noise() -> None:
    load = of_tree(counted(100), counted(98), timed(0.0, 1.0))
    assert (load.shared_operations, load.own_operations) == (100, 0)


def test_an_image_asks_the_same_whatever_the_ranks() -> None:
    loads = of_image(counted(3, 520, 60_000_000), timed(400.0, 1.3), 1.0)
    assert loads["image per node"].operations(8) == 3
    assert loads["image per rank"].operations(8) == 24
    assert loads["image per rank"].cpu_s == pytest.approx(1.3)
    assert loads["image per node"].start_s == pytest.approx(0.3)
    assert (loads["staged"].steps, loads["staged"].mb) == (0, 0)


KEPT = LoadMeasurement(
    loads=of_image(counted(3), timed(1.0, 1.0), 1.0),
    image_mb=5.0,
    profile="nfs",
    subject="x",
    node=MeasuringNode(cores=2, load_1min=9.5),
    timings={"image": timed(1.0, 1.0)},
)


def test_loads_are_kept(tmp_path: Path) -> None:
    loads.write(KEPT, tmp_path / "loads.json")
    assert loads.read(tmp_path / "loads.json") == KEPT
    with pytest.raises(BenchDataError, match="cannot be written: No such file") as caught:
        loads.write(KEPT, tmp_path / "no" / "loads.json")
    assert caught.value.next_step == "choose another path with --keep"


def test_loads_of_before_07_are_refused_with_who_reads_them(tmp_path: Path) -> None:
    load = {"shared_operations": 3, "own_operations": 0, "read_waits": 1.0, "mb": 1, "cpu_s": 2.0}
    body = {"schema": loads.SCHEMA, "loads": {"tree": load}, "image_mb": None}
    path = tmp_path / "loads.json"
    path.write_text(json.dumps({**body, "profile": "nfs", "subject": "x"}))
    with pytest.raises(BenchDataError, match=r"before 0\.7\.0") as caught:
        loads.read(path)
    assert "0.9.1 is the last version" in str(caught.value.next_step)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"node": {"cores": 2}}, "node.load_1min: field required"),
        ({"timings": {"tree": {"runs": []}}}, "timings.tree.waits: field required"),
        ({"loads": {"by foot": {}}}, "loads.by foot"),
        ({"image_mb": "5"}, "image_mb: input should be a valid number"),
        ({"extra": 1}, "extra: unexpected keyword argument"),
    ],
)
def test_what_fits_no_model_is_named(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    path = tmp_path / "loads.json"
    loads.write(KEPT, path)
    assert loads.read(path) == KEPT
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(BenchDataError, match="no measured loads") as caught:
        loads.read(path)
    assert says in str(caught.value.why)


def test_loads_that_were_kept_stay_when_the_new_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "loads.json"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BenchDataError, match="No space left"):
        loads.write(KEPT, path)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "dlcontainer/loads/2"}'])
def test_other_files_hold_no_loads(tmp_path: Path, text: str) -> None:
    path = tmp_path / "loads.json"
    path.write_text(text)
    with pytest.raises(BenchDataError, match="no measured loads"):
        loads.read(path)
