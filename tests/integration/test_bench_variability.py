"""Steps of real ranks, in an image and against its native side: checked, and a slow rank named."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.steps import step_times
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows import agreement
from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.test_bench import environment_with, options, other_wheel
from tests.integration.test_bench_ranks import RANK, phases, raw
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = pytest.mark.timeout(1800)

PYTHON = "/opt/pytorch/bin/python"
RANKS, SLOW, SLEEP_S = 3, 1, 0.02
# Once the probe is loaded, each step of one rank takes longer: of this side alone.
SLOWING = f"""
import os, sys, threading, time


def slow():
    kernel = None
    while kernel is None:
        time.sleep(0.001)
        kernel = getattr(sys.modules.get("probe_variability"), "KERNELS", {{}}).get("hash")
    step = kernel.step

    def sleeping(self):
        time.sleep({SLEEP_S})
        step(self)

    kernel.step = sleeping


if {RANK} == "{SLOW}":
    threading.Thread(target=slow, daemon=True).start()
"""
# The probe's check against products that are wrong by one in one place.
WRONG = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
import probe_variability, rows
kernel = probe_variability.Gemm(1, "cpu", 0)
kernel.step()
print(kernel.right())
product = torch.mm
def wrong(one, other, out):
    product(one, other, out=out)
    out[3, 5] += 1
for number, plant in enumerate((lambda one, other, out: None, wrong)):
    torch.mm = plant
    kernel.step()
    try:
        kernel.right()
    except rows.WrongError as problem:
        print(problem)
    else:
        sys.exit("wrong product {} passed".format(number))
"""


@pytest.fixture
def user(launching: World) -> World:
    return launching


def test_a_wrong_product_is_told(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, "-c", WRONG, layout.PROBE),
        mode=tried.run_mode or "plain",
        environment={"OMP_NUM_THREADS": "1"},
    )
    argv, environment = engine.run_argv(spec), apptainer.environment(world.environ)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "262144",
        "gemm: 262,144 of 262,144 values are not the known result",
        "gemm: 1 of 262,144 values are not the known result",
    ]


@pytest.mark.long
def test_a_rank_that_sleeps_is_named_on_its_side_alone(
    user: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    output, page = tmp_path / "x.jsonl", tmp_path / "x.html"
    (tmp_path / "slowing.py").write_text(SLOWING)
    module = other_wheel(tmp_path / "wheel", "1.0")
    side = environment_with(tmp_path / "side", module, tmp_path, "import slowing")
    more = ("--native", side, "--ranks", RANKS, "--threads", 1, "--timed", 100, "--quick")
    user.run("bench", "variability", *options(tiny_image, tiny, output, *more))
    series = reader.read(output)
    assert series.complete
    processes = step_times.of(series)
    named = {arm: step_times.slow_ranks(own) for arm, own in processes.items()}
    assert [one.rank for one in named["native"].stragglers] == [SLOW]
    # The others do not wait for it: their steps are theirs.
    medians = step_times.medians(processes["native"])
    assert min(medians[SLOW]) > SLEEP_S
    assert SLOW not in [one.rank for one in named["container"].stragglers]
    user.run("report", output, "-o", page)
    assert f"rank {SLOW} on {os.uname().nodename}, a straggler" in page.read_text()


@pytest.mark.long
def test_steps_of_pytorch_are_kept_one_by_one(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    output = tmp_path / "x.jsonl"
    argv = ["--site", "local", "--image", pytorch_image.image, "--ranks", 2, "-o", output]
    more = ["--quick", "--timed", 100, "--pairs", 1]
    user.run("bench", "variability", *map(str, [*argv, *more]))
    series = reader.read(output)
    assert series.complete
    plan = series.session.declared.rows
    assert plan is not None
    assert plan.rows[0]["kernel"] == "gemm"
    for sample in series.samples:
        assert agreement.problem(plan, sample.rows) == ""
        assert sample.rows[0].checked == 512 * 512
        assert phases(sample) >= {"import", "warm", "steps"}
        for rank in raw(sample):
            assert len(rank["steps_s"]) == 100
            # Row by rank: the session's figure is that of the slowest.
            assert rank["row_medians_s"][0] <= sample.rows[0].median
    for stack in series.stacks:
        assert str(stack.facts["framework"]).startswith("torch ")
        kind = stack.facts["node_type"]
        assert isinstance(kind, dict)
        assert kind["cpus"] == os.sysconf("SC_NPROCESSORS_ONLN")
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    said = json.loads(user.run("report", output, "--json").stdout)
    (session,) = said["sessions"]
    assert session["section"]["title"] == "How steps scatter"
    # One node is no baseline.
    done = user.run("bench", "nodes", output, "--write-baseline", tmp_path / "b.json", code=7)
    assert "too few nodes to find a usual range" in done.stderr
    assert not (tmp_path / "b.json").exists()
