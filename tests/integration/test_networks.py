"""The published networks in an image's real PyTorch: counts, golden steps, and a session of one."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes.networks.published import NETWORKS
from dlcontainer.bench.samples import reader
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests import optimizers_by_hand
from tests.integration.networks_inside import COUNTS, SCALING, STEPS
from tests.integration.test_bench_kernels import PYTHON, ran
from tests.integration.world import Built, World
from tests.judging import analyse
from tests.networks_by_hand import BY_HAND

pytestmark = pytest.mark.timeout(1800)

# fp64, and an order of sums that is not the same.
CLOSE = 1e-13


class Inside:
    """Runs a program by the image's own Python."""

    def __init__(self, world: World, engine: Apptainer, mode: str, image: Path) -> None:
        self.world, self.engine, self.mode, self.image = world, engine, mode, image

    def said(self, program: str, *words: str) -> Any:
        spec = RunSpec(
            image=self.image,
            argv=(PYTHON, "-c", program, layout.PROBE, *words),
            mode=self.mode,
            environment={"OMP_NUM_THREADS": "1"},
        )
        return json.loads(ran(spec, self.engine, self.world).splitlines()[-1])


@pytest.fixture
def inside(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built
) -> Inside:
    return Inside(world, engine, tried.run_mode or "plain", pytorch_image.image)


@pytest.fixture
def user(launching: World) -> World:
    return launching


def given(wrong: str = "") -> str:
    settings = {
        name: {"lr": own.rate, "momentum": own.momentum}
        | ({} if name == "sgd" else {"weight_decay": own.decay, "trust": own.trust})
        for name, own in optimizers_by_hand.SETTINGS.items()
    }
    return json.dumps(
        {
            "weights": optimizers_by_hand.WEIGHTS,
            "gradients": optimizers_by_hand.GRADIENTS,
            "settings": settings,
            "wrong": wrong,
        }
    )


def test_networks_are_those_that_were_published(inside: Inside) -> None:
    said = inside.said(COUNTS)
    for name, devices in BY_HAND.items():
        for device, count in devices.items():
            assert said["counts"][name][device] == {
                "parameters": count.parameters,
                "multiply_adds": count.multiply_adds,
            }, name
    # A network that lacks one layer is refused, by its multiply-adds.
    assert set(said["refused"]) == set(NETWORKS)
    for name, text in said["refused"].items():
        assert text.startswith(f"{name}: ")
        assert "multiply-adds, and the published network has" in text


def test_golden_steps(inside: Inside) -> None:
    found = inside.said(STEPS, given())
    for name in optimizers_by_hand.SETTINGS:
        apart = optimizers_by_hand.farthest(found[name], optimizers_by_hand.golden(name))
        assert apart < CLOSE, name


@pytest.mark.parametrize("wrong", ["without decay", "upside down"])
def test_a_wrong_trust_ratio_is_told(inside: Inside, wrong: str) -> None:
    found = inside.said(STEPS, given(wrong))
    for name in ("lars", "larc"):
        apart = optimizers_by_hand.farthest(found[name], optimizers_by_hand.golden(name))
        assert apart > 1e6 * CLOSE, name


def test_a_scaled_loss_steps_as_a_plain_one_and_not_where_it_overflows(inside: Inside) -> None:
    said = inside.said(SCALING)
    assert said["scaled"] == said["plain"] == [0.75, -1.5]
    assert said["after one"] == {"loss_scale": 65536.0, "skipped_steps": 0}
    assert said["overflow"] == [1.0, -2.0]
    assert said["after two"] == {"loss_scale": 32768.0, "skipped_steps": 1}


@pytest.mark.long
@pytest.mark.parametrize("unit", ["launches", "groups"])
def test_a_published_network_is_measured(
    user: World, pytorch_image: Built, tmp_path: Path, unit: str
) -> None:
    output = tmp_path / "x.jsonl"
    argv: list[object] = ["--site", "local", "--image", pytorch_image.image, "-o", output]
    argv += ["--pairs", 1, "--threads", 1, "--device", "cpu", "--unit", unit]
    argv += ["--workload", "convnet", "--optimizer", "lars", "--batch", 8, "--peak", "0.1"]
    # Of groups the processes of one arm are each other's controls.
    more = ["--steps", "5", "--controls", "0"] if unit == "launches" else []
    user.run("bench", "train", *map(str, argv), *more)
    series = reader.read(output)
    assert series.complete
    work = series.session.declared.workload
    assert (work["workload"], work["optimizer"], work["parameters"]) == ("convnet", "lars", 145578)
    judged = analyse(series)
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    table = section.companion if section and unit == "groups" else section
    assert table is not None
    for row in table.rows:
        line = dict(zip(table.head, row, strict=True))
        assert (line["batch"], line["multiply-adds of a sample"]) == ("8", "12,354,176")
        rate = float(line["samples/s"]) * 6 * 12_354_176 / 1e9
        assert float(line["GFLOP/s"]) == pytest.approx(rate, rel=0.01)
        assert float(line["MFU, %"]) == pytest.approx(rate, rel=0.02, abs=0.06)


@pytest.mark.long
def test_an_unknown_network_starts_nothing(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    argv: list[object] = ["--site", "local", "--image", pytorch_image.image]
    argv += ["-o", tmp_path / "x.jsonl", "--workload", "resnet51"]
    done = user.run("bench", "train", *map(str, argv), code=2)
    assert "resnet51: unknown network" in done.stderr
    assert "resnet50" in done.stderr
    assert not (tmp_path / "x.jsonl").exists()
