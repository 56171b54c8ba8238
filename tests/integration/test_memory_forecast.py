"""Bytes of a rank by a real PyTorch: an image's, and each that can be installed here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer.bench.measure import bench_image
from dlcontainer.bench.measure.context import BenchContext
from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy
from dlcontainer.bench.study.forecast import memory
from dlcontainer.bench.study.forecast.memory_records import MemoryQuestion
from dlcontainer.engines import execution
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.errors import ChecksFailedError, UsageError
from dlcontainer.system.machine import read_host
from dlcontainer.system.process import ProcessRunner
from tests.fakes import Quiet
from tests.integration.world import Built, World
from tests.values import ROOT

pytestmark = pytest.mark.timeout(1800)

# The versions that dlcontainer/probe/memory_torch.py calls tried.
TORCHES = ("2.13.0+cpu",)
SCRIPT = """
import torch
from torch import nn

def made(model, sample):
    return model, torch.optim.SGD(model.parameters(), 0.1), sample, nn.functional.cross_entropy

def sample():
    return torch.randn(8, 64), torch.zeros(8, dtype=torch.long)

def build():
    # 4 TB of weights.
    return made(nn.Linear(64, 2**34), sample())

def gpu():
    return made(nn.Linear(64, 10).cuda(), sample())

def number():
    return made(nn.Linear(64, int(torch.ones(3).sum())), sample())

def reads():
    return made(nn.Linear(64, 10), torch.load("/no/such/batch.pt"))
"""
WRONG = ("gpu", "number", "reads")


def wrong_line(name: str) -> int:
    """Return the line of the script in which this function of it fails: the one below its `def`."""
    return SCRIPT.splitlines().index(f"def {name}():") + 2


def native(python: Path, path: str = "") -> memory.NativePython:
    environ = dict(os.environ) | ({"PYTHONPATH": path} if path else {})
    return memory.NativePython(
        python=python, runner=ProcessRunner(environ=environ), environment=environ
    )


def test_a_torch_without_the_private_modules_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text('__version__ = "1.13.1"\n')
    asked = MemoryQuestion(strategies=(ParallelStrategy(),), workload="convnet")
    with pytest.raises(ChecksFailedError) as failed:
        memory.of(asked, native(Path(sys.executable), str(tmp_path)))
    assert "PyTorch 1.13.1" in failed.value.what
    assert "missing torch._subclasses.fake_tensor.FakeTensorMode" in failed.value.what
    assert "tried with 2.11, 2.13" in str(failed.value.why)
    assert failed.value.exit_code == 1


def test_a_python_without_torch_is_refused() -> None:
    asked = MemoryQuestion(strategies=(ParallelStrategy(),), workload="convnet")
    with pytest.raises(ChecksFailedError, match="no torch"):
        memory.of(asked, native(Path(sys.executable)))


@pytest.fixture
def inside(
    world: World, engine: Apptainer, pytorch_image: Built, tmp_path: Path
) -> memory.ImagePython:
    host = read_host(world.environ)
    ran = execution.prepare(engine, host, ProcessRunner(environ=world.environ), tmp_path, Quiet())
    return memory.ImagePython(
        context=BenchContext(execution=ran, templates=(), work=tmp_path),
        subject=bench_image.read(pytorch_image.image, host.arch),
    )


def test_an_image_s_torch_tells(inside: memory.ImagePython, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    strategies = (ParallelStrategy(), ParallelStrategy(fsdp=1024), ParallelStrategy(tp=2))
    asked = MemoryQuestion(strategies=strategies, script=f"{script}:build")
    told = memory.of(asked, inside)
    weights = 4 * 65 * 2**34
    one, sharded = told.rows
    assert one.parameters == weights
    # At the peak a gradient that is still being made is temporary.
    assert one.gradients + one.temporary >= weights
    assert sharded.parameters == weights // 1024
    assert [refusal.strategy.tp for refusal in told.refusals] == [2]
    assert "no plan for tensor parallelism" in told.refusals[0].why


@pytest.mark.long  # each is one kind: a process with torch
@pytest.mark.parametrize("name", WRONG)
def test_a_script_s_wrong_line_is_named(
    inside: memory.ImagePython, tmp_path: Path, name: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    asked = MemoryQuestion(strategies=(ParallelStrategy(),), script=f"{script}:{name}")
    with pytest.raises(UsageError) as failed:
        memory.of(asked, inside)
    assert failed.value.where == f"{script}:{wrong_line(name)}"


@pytest.mark.long  # installs a PyTorch
@pytest.mark.parametrize("version", TORCHES)
def test_a_torch_foretells_a_real_step(tmp_path: Path, version: str) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    install = [
        str(python),
        "-m",
        "pip",
        "install",
        "-q",
        "--no-cache-dir",
        f"torch=={version}",
        "numpy",
    ]
    subprocess.run(install, check=True)
    script = ROOT / "benchmarks" / "memory_truth.py"
    rows = json.dumps([["resnet50", 2, "sgd", "dp1"], ["transformer", 2, "adamw", "dp1"]])
    peaks = []
    for what in ("predict", "measure"):
        done = subprocess.run(
            [python, script, what, rows], check=True, stdout=subprocess.PIPE, text=True
        )
        peaks.append([json.loads(line)["peak"] for line in done.stdout.splitlines()])
    assert peaks[0] == pytest.approx(peaks[1], rel=0.03)
    asked = [ParallelStrategy(fsdp=4), ParallelStrategy(tp=4), ParallelStrategy(dp=2, pp=2)]
    question = MemoryQuestion(strategies=tuple(asked), workload="transformer", batch=8)
    told = memory.of(question, native(python))
    assert told.is_tried_torch
    assert told.refusals == ()
    # Every strategy of four ranks holds less than one process does.
    assert all(0 < row.peak < 400e6 for row in told.rows)
