"""Every probe's path over an accelerator, in an image's real PyTorch; the device is a fake."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes.convergence import DATA
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.test_bench_kernels import PYTHON, ran
from tests.integration.world import Built, World

FAKE = Path(__file__).with_name("fake_accelerator.py")
TYPES = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "tpu": "xla"}
LIBRARIES = {"cuda": "nccl", "rocm": "rccl"}


def said_of(run: Any, name: str) -> list[dict[str, Any]]:
    return [one for one in run["launches"] if one["probe"] == name]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "kind",
    [
        "rocm",  # CUDA's words, and its own
        *(
            pytest.param(kind, marks=pytest.mark.long)  # the same road by another kind's words
            for kind in ("cuda", "xpu", "tpu")
        ),
    ],
)
def test_every_probe_runs_on_a_fake_accelerator(
    kind: str, world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> None:
    spec = RunSpec(
        image=pytorch_image.image,
        argv=(PYTHON, "-c", FAKE.read_text(), layout.PROBE, kind, "/mnt"),
        mode=tried.run_mode or "plain",
        environment={"OMP_NUM_THREADS": "1"},
        binds=((DATA.parent, "/mnt"),),
    )
    run = json.loads(ran(spec, engine, world).splitlines()[-1])
    # What was timed was waited for, and what trains counts its memory.
    for name in ("kernels", "transfers", "variability", "convergence", "train", "collectives"):
        for one in said_of(run, name):
            assert one["asked"]["placed"] > 0, name
            assert one["asked"]["synchronize"] > 0, name
    trained = said_of(run, "train")
    assert {one["said"]["workload"]["device"] for one in trained} == {TYPES[kind]}
    assert {one["said"]["counts"]["device_memory_mb"] for one in trained} == {5.0}
    assert [one["asked"].get("met", 0) for one in trained] == [0, 0, 0, 1]
    (devices,) = said_of(run, "devices")
    assert (devices["said"]["state"], devices["said"]["count"]) == ("ok", 2)
    (proved,) = said_of(run, "prove")
    assert proved["said"]["off"] == 0
    for one in said_of(run, "kernels"):
        stack = one["said"]["stack"]
        assert len(stack["devices"]) == 2
        library = LIBRARIES.get(kind)
        assert {name: stack.get(name) for name in ("nccl", "rccl")} == {
            "nccl": "2.28.9" if library == "nccl" else None,
            "rccl": "2.28.9" if library == "rccl" else None,
        }
        assert stack.get("hip") == ("6.3.42131" if kind == "rocm" else None)
