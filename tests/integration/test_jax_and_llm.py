"""The recipes jax and llm: built, validated, and proofs that find what is planted."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from tests.integration.test_frameworks import Inside
from tests.integration.world import Built, World

if TYPE_CHECKING:
    import subprocess

# As the frameworks' recipes in test_frameworks.py, whose road this is.
pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

# A gradient of twice the size: the loss falls all the same.
TWICE = """\
import jax
real = jax.grad
jax.grad = lambda *given, **more: (
    lambda *points: jax.tree.map(lambda part: 2 * part, real(*given, **more)(*points)))
"""
# An optimizer that moves nothing.
STILL = """\
import torch
torch.optim.AdamW.step = lambda self, *given: None
"""


@pytest.fixture(scope="module")
def patient(world: World) -> World:
    return replace(world, patience_s=3600)


@pytest.fixture(scope="module")
def jax(patient: World) -> Built:
    return patient.build("jax", patient.folder / "jax image")


@pytest.fixture(scope="module")
def llm(patient: World) -> Built:
    return patient.build("llm", patient.folder / "llm image")


@pytest.fixture(scope="module")
def inside(world: World, engine: Apptainer, tried: EngineCapabilities) -> Inside:
    return Inside(world, engine, str(tried.run_mode))


def planted(
    inside: Inside, built: Built, prefix: str, folder: Path, text: str
) -> "subprocess.CompletedProcess[str]":
    (folder / "sitecustomize.py").write_text(text)
    argv = (f"{prefix}/bin/python", "/opt/dlcontainer/verify.py")
    return inside.run(built, *argv, env={"PYTHONPATH": "/mnt"}, bind=folder)


def test_jax_is_valid_and_its_import_is_measured(
    jax: Built, patient: World, tmp_path: Path
) -> None:
    checks = patient.checks(jax.image)
    assert all(ok for ok, _ in checks.values())
    assert "a gradient as NumPy's" in checks["verify"][1]
    assert "devices not tried: jax sees no device" in checks["verify"][1]
    output = tmp_path / "x.jsonl"
    words: list[str | Path] = ["--site", "local", "--image", jax.image, "--pairs", "2"]
    patient.run("bench", "import", *words, "--controls", "1", "-o", output)
    series = reader.read(output)
    assert series.complete
    assert {str(stack.facts["framework"])[:4] for stack in series.stacks} == {"jax "}


def test_a_wrong_gradient_is_found(jax: Built, inside: Inside, tmp_path: Path) -> None:
    done = planted(inside, jax, "/opt/jax", tmp_path, TWICE)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ok"] is False
    assert said["gradient_apart"] > 0.5
    assert said["loss_last"] < said["loss_first"] - 0.05


def test_jax_computes_the_same_twice(jax: Built, inside: Inside) -> None:
    argv = ("/opt/jax/bin/python", "/opt/dlcontainer/verify.py")
    said = [inside.run(jax, *argv).stdout.splitlines()[-1] for _ in range(2)]
    assert said[0] == said[1]


def test_llm_is_valid(llm: Built, patient: World) -> None:
    checks = patient.checks(llm.image)
    assert all(ok for ok, _ in checks.values())
    assert {"verify pytorch", "verify", "import transformers", "import peft"} <= set(checks)
    assert "30 LoRA steps of a tiny Llama under FSDP, one rank" in checks["verify"][1]


def test_adapters_that_do_not_train_are_found(llm: Built, inside: Inside, tmp_path: Path) -> None:
    done = planted(inside, llm, "/opt/pytorch", tmp_path, STILL)
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ok"] is False
    assert said["loss_first"] - said["loss_last"] < 0.05
