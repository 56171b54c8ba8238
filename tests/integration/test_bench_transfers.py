"""Copies by the real PyTorch in the host's memory, in an image and natively; no GPU is here."""

import json
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ProbeCell
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement, joining
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = pytest.mark.timeout(1800)

PYTHON = "/opt/pytorch/bin/python"
CELL = ProbeCell(
    values={"device": "cpu", "gpus": 0, "numa": "0", "largest": 1 << 20, "quick": True}, threads=1
)
# The probe's check against copies that are wrong by a little: each must be told.
WRONG = """
import json, sys
sys.path.insert(0, sys.argv[1])
import transfers_torch, rows
listed = json.loads(sys.argv[2])
transfers = transfers_torch.Transfers(listed, 1)
row = listed[-1]
print(transfers.check(row))
copy = transfers_torch._copy
def nothing(source, target, row):
    pass
def shifted(source, target, row):
    copy(source.roll(1024), target, row)
def off_by_one(source, target, row):
    copy(source, target, row)
    target[-1] += 1
def short(source, target, row):
    copy(source[:-1024], target[:-1024], row)
for plant in (nothing, shifted, off_by_one, short):
    transfers_torch._copy = plant
    try:
        transfers.check(row)
    except rows.WrongError as problem:
        print(problem)
    else:
        sys.exit("{} passed".format(plant.__name__))
"""


@pytest.fixture
def user(launching: World) -> World:
    return launching


def ran(
    argv: tuple[str, ...], engine: Apptainer, tried: EngineCapabilities, world: World, image: Path
) -> str:
    mode, environment = tried.run_mode or "plain", {"OMP_NUM_THREADS": "1"}
    spec = RunSpec(image=image, argv=(PYTHON, *argv), mode=mode, environment=environment)
    done = subprocess.run(
        engine.run_argv(spec),
        env=apptainer.environment(world.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copy_that_is_wrong_by_a_little_is_told(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    plan = PROBES["transfers"].rows(CELL)
    assert plan is not None
    rows = json.dumps([dict(row) for row in plan.rows])
    argv = ("-c", WRONG, layout.PROBE, rows)
    count, *said = ran(argv, engine, tried, world, pytorch_image.image).splitlines()
    assert count == str((1 << 20) // 4)
    head = "host to host, pageable, node 0 to node 0, 1,048,576 bytes: "
    assert [text.removeprefix(head).partition(" values")[0] for text in said] == [
        "262,144 of 262,144",
        "262,144 of 262,144",
        "1 of 262,144",
        "1,024 of 262,144",
    ]


def test_a_launch_says_where_its_memory_lay(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    argv = ("-S", layout.PROBE, *PROBES["transfers"].words(CELL))
    body = json.loads(ran(argv, engine, tried, world, pytorch_image.image).splitlines()[-1])
    plan = PROBES["transfers"].rows(CELL)
    assert plan is not None
    found = joining.read(body["rows"])
    assert agreement.problem(plan, found) == ""
    assert [row.checked for row in found] == [int(row["bytes"]) // 4 for row in plan.rows]
    # A kernel without NUMA does not say; one with it says what was asked for.
    assert body["stack"]["memory_places"].keys() == {"node 0"}
    assert "peer_access" not in body["stack"]


@pytest.mark.long
def test_native_and_container_are_measured_by_size(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    output, page = tmp_path / "x.jsonl", tmp_path / "x.html"
    argv = ("--site", "local", "--image", str(pytorch_image.image), "-o", str(output))
    user.run("bench", "transfers", *argv, "--quick", "--pairs", "1")
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert sample.phases.keys() >= {"import", "placed", "checked", "rows"}
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    assert section is not None
    assert len(section.rows) % 2 == 0
    said = user.run("report", output, "--json", "-o", page)
    (body,) = json.loads(said.stdout)["sessions"]
    assert [row["parameters"] for row in body["rows"]] == [dict(row) for row in plan.rows]
    assert "no device takes part" in page.read_text()
