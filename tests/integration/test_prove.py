"""Ranks of the real PyTorch prove themselves inside an image, and the host judges their file."""

import json
import subprocess
from pathlib import Path

import pytest

from dlcontainer.engines import apptainer
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.world import Built, World

RANKS = 3
PYTHON = "/opt/pytorch/bin/python"


@pytest.mark.timeout(900)
def test_ranks_of_pytorch_meet_by_env(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built, tmp_path: Path
) -> None:
    started = []
    for rank in range(RANKS):
        spec = RunSpec(
            image=pytorch_image.image,
            argv=(PYTHON, layout.PROBE, "prove", "--out", "/mnt", "--minutes", "5"),
            mode=tried.run_mode or "plain",
            environment={
                "RANK": str(rank),
                "WORLD_SIZE": str(RANKS),
                "LOCAL_RANK": str(rank),
                "LOCAL_WORLD_SIZE": str(RANKS),
                "OMP_NUM_THREADS": "1",
            },
            binds=((tmp_path, "/mnt"),),
            together=True,
        )
        started.append(
            subprocess.Popen(
                engine.run_argv(spec),
                env=apptainer.environment(world.environ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    ended = [(one.communicate()[0], one.returncode) for one in started]
    assert [code for _, code in ended] == [0] * RANKS, ended
    done = world.run("prove", tmp_path, "--image", pytorch_image.image, "--json")
    findings = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    states = {name: finding["state"] for name, finding in findings.items()}
    assert (states["image"], states["site"]) == ("ok", "ok")
    assert findings["ranks"]["detail"].startswith(f"{RANKS} of {RANKS} ranks on ")
    assert (states["sums"], findings["sums"]["detail"]) == ("ok", "each value right over gloo")
    assert (states["network"], states["bandwidth"]) == ("not tried", "not tried")
    shown = world.run("site", "show", "local", "--proof", tmp_path).stdout
    assert "ran on its nodes: 20" in shown
    assert "ran on several nodes over its fabric: not shown" in shown
    body = (tmp_path / "proof.json").read_text()
    (tmp_path / "proof.json").write_text(body.replace('"off": 0.0', '"off": 0.5', 1))
    refused = world.run("prove", tmp_path, code=1)
    assert "changed after the job wrote it" in refused.stderr
