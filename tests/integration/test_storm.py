"""`lab storm` and `lab probe-fs` on real mounts: what is measured, kept and predicted from."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem import counting
from dlcontainer.lab.slowfs import mounting
from dlcontainer.lab.slowfs.passthrough import Delay
from dlcontainer.lab.slowfs.server import StandIn
from dlcontainer.lab.slowfs.server_queue import ServerRates
from dlcontainer.lab.storm import repeats
from dlcontainer.system.machine import find_program
from dlcontainer.system.process import ProcessRunner
from tests.integration.test_site_surroundings import site
from tests.integration.world import Built, World, isolated, missing

JOB = ("--site", "example-slurm", "--nodes", "64", "--ranks-per-node", "4")
# Of no processor, however busy the machine is.
WAITED_S = 0.5
FACTS = """\
schema: 1
source: "a test's own"
speed: {latency_ms: 1, operations_per_s: 1000, read_latency_ms: 1, client_mb_s: 100}
"""


@pytest.fixture(autouse=True)
def tools() -> None:
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    for name in ("fusermount3", "mksquashfs", "squashfuse"):
        if find_program(name, os.environ) is None:
            missing(name)


@pytest.fixture
def user(tmp_path: Path) -> World:
    return isolated(tmp_path / "user", tmp_path / "user/cache")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """Give an environment with a package of a hundred modules."""
    folder = tmp_path / "an environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    package = next(folder.glob("lib/python3*/site-packages")) / "many"
    package.mkdir()
    names = [f"part{number}" for number in range(100)]
    for name in names:
        (package / f"{name}.py").write_text(f"VALUE = {name!r}\n")
    (package / "__init__.py").write_text("".join(f"from many import {name}\n" for name in names))
    subprocess.run([folder / "bin/python", "-m", "compileall", "-q", package], check=True)
    return folder


def test_a_folder_is_measured_kept_and_predicted_from(
    user: World, prefix: Path, tmp_path: Path
) -> None:
    facts, kept = tmp_path / "facts.yaml", tmp_path / "loads.json"
    facts.write_text(FACTS)
    argv: list[str | Path] = ["lab", "storm", prefix, "--module", "many", *JOB, "--json"]
    argv += ["--fs", facts]
    body = json.loads(user.run(*argv, "--keep", kept).stdout)
    tree, image = (body["measured"]["loads"][way] for way in ("tree", "image per node"))
    # A look-up, an open of each module's byte code; the second rank opens them again.
    assert tree["shared_operations"] + tree["own_operations"] >= 300
    assert 100 <= tree["own_operations"] <= 200
    assert image["shared_operations"] <= 6
    # The processor's time, not the wall's: with what was repeated, and how busy the machine was.
    times = body["measured"]["timings"]["tree"]
    assert min(run["processor_s"] for run in times["runs"]) <= tree["cpu_s"]
    assert len(times["runs"]) >= 3
    assert body["measured"]["node"]["load_1min"] >= 0
    waited = times["waits"]
    assert tree["read_waits"] == waited["reads"]
    # A hundred files of byte code, each read by the one rank after the other.
    assert 100 <= waited["reads"] <= 400 or not waited["is_bound"]
    assert len(waited["late_s"]) >= 2
    rows = {row["way"]: row for row in body["rows"]}
    assert list(rows) == ["tree", "image per rank", "image per node", "staged"]
    assert rows["tree"]["seconds"] > 3 * rows["image per node"]["seconds"]
    assert rows["staged"]["staging"][1] > 0
    assert body["nodes_until_it_pays"]["image per node"] is not None
    by = {fact["key"]: fact for fact in body["facts"]}
    assert not by["operations_per_s"]["assumed"]
    assert by["network_mb_s"]["assumed"]

    again = json.loads(
        user.run("lab", "storm", "--loads", kept, *JOB, "--fs", facts, "--json").stdout
    )
    assert again["rows"] == body["rows"]
    said = user.run("lab", "storm", "--loads", kept, *JOB).stdout
    assert "8 of these values are assumed" in said
    assert "processor time by rusage, of repeated warm imports" in said
    assert "longer than predicted" in said
    # Written for the report, which reads it; a server that never fills is null there.
    target, page = tmp_path / "storm.json", tmp_path / "page.html"
    again = user.run("lab", "storm", "--loads", kept, "--fs", facts, *JOB, "-o", target)
    assert f"wrote {target}" in again.stdout
    body = json.loads(target.read_text(), parse_constant=pytest.fail)
    assert body["rows"][-1]["saturates_at"] is None
    user.run("report", target, "-o", page)
    assert "Break-even" in page.read_text()


def spinning(count: int) -> list[subprocess.Popen[bytes]]:
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]


def test_processor_time_leaves_waiting_out_on_a_busy_machine_too(prefix: Path) -> None:
    """Beside processes that spin: it settles, or is refused by its words.

    How much they change it is the machine's own, and no test's (docs/measurements/storm.md).
    """
    runner = ProcessRunner(environ=dict(os.environ))
    line = f"import time, many, json, asyncio, unittest, email, ssl; time.sleep({WAITED_S})"
    argv = [str(prefix / "bin/python"), "-c", line]
    node = repeats.MeasuringNode(cores=len(os.sched_getaffinity(0)), load_1min=os.getloadavg()[0])
    runs: list[repeats.WarmImport] = []

    def once() -> repeats.WarmImport:
        done = counting.run_one(argv, runner)
        runs.append(repeats.WarmImport(processor_s=done.processor_s, wall_s=done.elapsed))
        return runs[-1]

    others = spinning(2 * node.cores)
    try:
        settled = repeats.settled(once, node)
    except BenchDataError as error:
        assert f"too busy to measure an import: {node}" in error.what  # noqa: PT017 - may settle
        assert "--loads" in str(error.next_step)  # noqa: PT017
    else:
        assert settled == tuple(runs)
        least = sorted(run.processor_s for run in settled)[: repeats.AGREEING]
        assert least[-1] - least[0] <= max(repeats.WITHIN * least[0], 0.05)
        assert least[0] <= repeats.processor_s(settled) <= least[-1]
    finally:
        for process in others:
            process.kill()
            process.wait()
    assert len(runs) >= repeats.AGREEING
    for run in runs:
        assert 0 < run.processor_s <= run.wall_s - 0.9 * WAITED_S


def test_the_probe_finds_a_known_speed(tmp_path: Path) -> None:
    from dlcontainer.lab.filesystem import microbenchmark

    source, point = tmp_path / "source", tmp_path / "point"
    for folder in (source, point, *(source / str(number) for number in range(8))):
        folder.mkdir()
    (source / "big").write_bytes(os.urandom(2 << 20))
    shown = StandIn(
        source=source,
        delay=Delay(operation_s=0.02, read_s=0.02),
        speed=ServerRates(rate=200, service="constant"),
    )
    near = []
    for _ in range(3):  # other work on the machine may delay one
        with shown.mounted(point, ProcessRunner(environ=dict(os.environ))):
            found = microbenchmark.probe(point)
        assert found.speed.latency_ms is not None
        assert found.speed.operations_per_s is not None
        assert found.speed.read_latency_ms is not None
        # Never quicker than it is: the delay and the server's 5 ms.
        assert min(found.samples_ms) >= 24
        assert found.speed.operations_per_s <= 210
        assert found.speed.read_latency_ms >= 20
        is_near = 19 <= found.speed.latency_ms <= 40 and found.speed.operations_per_s >= 100
        # By the last two of its rates, one of which may have been delayed.
        near.append(is_near and found.saturated)
        if near[-1]:
            break
    assert near[-1], found


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        ([], 2, "--loads FILE.json"),
        (["/no/such/image.sif"], 2, "no such image or folder"),
        (["/usr"], 2, "--module"),
        (["/tmp", "--module", "os"], 7, "no bin/python"),
        (["--loads", "/etc/hostname"], 7, "no measured loads"),
        (["/usr", "--module", "os", "--path", "/nowhere"], 2, "no such file system"),
        (["/usr", "--module", "os", "--fs", "/no/facts.yaml"], 3, "facts.yaml"),
    ],
)
def test_bad_input(user: World, argv: list[str], code: int, says: str) -> None:
    done = user.run("lab", "storm", *argv, *JOB, code=code)
    assert says in done.stderr


@pytest.mark.long  # test_scale.py measures an image too
def test_an_image_is_measured_through_its_engine_in_its_site_s_surroundings(
    world: World, tiny_image: Built, tmp_path: Path
) -> None:
    """What is imported is in the site's bind alone, which the other side of the image has too."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "dlcofsite.py").write_text("import json\n")
    made_up = site(tmp_path, binds=["$OWN:/data:ro"], inside={"PYTHONPATH": "/data"})
    job = ("--site", made_up, "--nodes", "8", "--ranks-per-node", "2", "--json")
    argv = ("lab", "storm", tiny_image.image, "--module", "dlcofsite", *job)
    body = json.loads(world.having(OWN=own).run(*argv).stdout)
    assert body["measured"]["image_mb"] == pytest.approx(
        tiny_image.image.stat().st_size / 1e6, rel=1e-6
    )
    tree, image = (body["measured"]["loads"][way] for way in ("tree", "image per node"))
    # The image is one file; of the tree Python itself and its libraries are asked for one by one.
    assert 0 < image["shared_operations"] <= 50
    assert tree["shared_operations"] + tree["own_operations"] > 2 * image["shared_operations"]
