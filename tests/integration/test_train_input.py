"""Training on samples from files, native and container, in an image's real PyTorch."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples import reader
from dlcontainer.engines.apptainer import Apptainer
from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.engines.engine import RunSpec
from dlcontainer.image import layout
from tests.integration.test_bench_kernels import PYTHON, ran
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def user(launching: World) -> World:
    return launching


def trained(user: World, image: Built, output: Path, *more: object) -> Any:
    """Measure one pair; give the series, the table of waiting by arm, the losses of both."""
    argv: list[object] = ["--site", "local", "--image", image.image, "-o", output, "--pairs", 1]
    argv += ["--threads", 1, "--device", "cpu", *more]
    user.run("bench", "train", *map(str, argv))
    series = reader.read(output)
    assert series.complete
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    while section and section.companion:
        section = section.companion
    assert section is not None
    assert section.title == "Waiting for input"
    found = [one.values["loss"] for one in series.samples if one.role == "pair"]
    curves = {tuple(curve) for curve in found if isinstance(curve, list)}
    # Both sides read the very same samples in the same order: not a bit of a loss differs.
    assert len(curves) == 1
    lines = [dict(zip(section.head, row, strict=True)) for row in section.rows]
    for line in lines:
        assert 0 < float(line["input, ms"]) < float(line["step, ms"])
    return series, lines, curves.pop()


def test_the_image_trains_on_samples_in_two_formats(
    world: World, engine: Apptainer, tried: EngineCapabilities, pytorch_image: Built, tmp_path: Path
) -> None:
    setting = ParameterContext(
        contents=ProbeSubject(image="x.sif", recipe="pytorch", modules=("torch",))
    )
    curves = []
    for name in ("tar", "npz"):
        typed = {"input": name, "samples": 64, "device": "cpu", "batch": 8}
        cell = ProbeCell(values=PROBES["train"].values(typed, setting), threads=1, steps=3)
        spec = RunSpec(
            image=pytorch_image.image,
            argv=(PYTHON, "-S", layout.PROBE, *PROBES["train"].words(cell), "--at", "/mnt"),
            mode=tried.run_mode or "plain",
            binds=((tmp_path, "/mnt"),),
        )
        said = json.loads(ran(spec, engine, world).splitlines()[-1])
        assert 0 < said["values"]["input_s_per_step"] < said["values"]["wall_s"] / 3
        curves.append(said["losses"])
    assert curves[0] == curves[1]
    assert len(curves[0]) == 8
    # What an image's launch has written is there for the host: the very same files.
    assert {path.name for path in tmp_path.iterdir()} == {"tar", "npz", "made.json", "lock"}


LAUNCHES = ("--unit", "launches", "--steps", 3, "--controls", 0)


# The short set trains in the image alone (test_the_image_trains_…).
@pytest.mark.long
def test_both_sides_train_on_the_same_samples(
    user: World, pytorch_image: Built, tmp_path: Path
) -> None:
    more = ("--input", "tar", "--samples", 64, *LAUNCHES)
    series, lines, _ = trained(user, pytorch_image, tmp_path / "x.jsonl", *more)
    work = series.session.declared.workload
    assert (work["input"], work["shuffle"], work["sample_bytes"]) == ("tar", "full", 3074)
    assert [line["arm"] for line in lines] == ["native", "container"]
    assert "input" in series.samples[-1].phases


# The road of the test above, in other formats, groups and ranks.
@pytest.mark.long
@pytest.mark.parametrize("workload", ["convnet", "tiramisu", "transformer"])
def test_every_kind_of_sample_and_format(
    user: World, pytorch_image: Built, tmp_path: Path, workload: str
) -> None:
    found = []
    for name in ("raw", "npz"):
        more = ("--input", name, "--samples", 32, "--workload", workload, "--batch", 1, *LAUNCHES)
        _, _, curve = trained(user, pytorch_image, tmp_path / f"{name}.jsonl", *more)
        found.append(curve)
    assert found[0] == found[1]


@pytest.mark.long
def test_groups_and_ranks(user: World, pytorch_image: Built, tmp_path: Path) -> None:
    more = ("--input", "tfrecord", "--shuffle", "window", "--samples", 320, "--unit", "groups")
    trained(user, pytorch_image, tmp_path / "groups.jsonl", *more)
    ranks = ("--input", "files", "--samples", 64, "--ranks", 2, "--steps", 3, "--controls", 0)
    series, _, _ = trained(user, pytorch_image, tmp_path / "ranks.jsonl", *ranks)
    each = [rank["losses"] for one in series.samples for rank in one.ranks]
    # Each rank has samples of its own.
    assert each[0] != each[1]
