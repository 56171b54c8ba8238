"""A real trace of two ranks in a forecast: the bytes of the gradients are the program's own."""

import json
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests import forecasts
from tests.integration.test_bench_trace import ALL_STEPS, GRADIENT_BYTES, PROGRAM
from tests.integration.world import World

# What fully_shard does over gloo: parameters gathered twice a step, gradients reduced whole.
SHARDED = """\
import torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
for step in range(STEPS):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
dist.barrier()
dist.destroy_process_group()
""".replace("STEPS", str(ALL_STEPS + 3))


@pytest.fixture
def running(launching: World, engine: Apptainer) -> World:
    path = f"{engine.program.parent}:{launching.environ['PATH']}"
    return launching.having(PATH=path, APPTAINER_USERNS="1")


def test_a_forecast_takes_what_a_program_sent(running: World, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "sharded.py").write_text(SHARDED)
    forecasts.write(tmp_path)
    programs = {
        "dp": ("train.py", "plain", str(ALL_STEPS + 3)),
        "fsdp": ("sharded.py",),
    }
    for strategy, command in programs.items():
        begin = ("bench", "trace", "--site", "local", "--ranks", "2", "--steps", "6")
        words = ("-o", strategy, "--time", "0:05:00", "--", "python", *command)
        # How a program ends is not what is looked at: the trace is kept.
        running.run(*begin, *words, cwd=tmp_path, code=None)
        asked = ("bench", "forecast", "facts.yaml", "--nodes", "2", "--parallel", strategy)
        trace = ("--trace", f"{strategy}/trace.json", "--json")
        body = json.loads(running.run(*asked, *trace, cwd=tmp_path).stdout)
        inputs = {each["key"]: each for each in body["inputs"]}
        assert inputs["trace.gradient_bytes"]["low"] == GRADIENT_BYTES
        assert inputs["trace.messages"]["low"] == (1 if strategy == "dp" else 2)
        assert body["subject"]["trace"]["side"] == "native"
        assert any(f"gradients of {strategy}: 0.5469 MB" in note for note in body["notes"])
