"""Training on samples from files, native and container, in an image's real PyTorch."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.samples import reader
from tests.integration.world import Built, World
from tests.judging import analyse

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def user(launching: World) -> World:
    return launching


def trained(user: World, image: Built, output: Path, *more: object) -> Any:
    """Measure one pair; give the table of waiting by arm, and the losses of all launches."""
    argv: list[object] = ["--site", "local", "--image", image.image, "-o", output, "--pairs", 1]
    argv += ["--threads", 1, "--device", "cpu", *more]
    user.run("bench", "train", *map(str, argv))
    series = reader.read(output)
    assert series.complete
    judged = analyse(series)
    # One pair decides nothing; that it may be compared is what the sides attest.
    assert judged.verdict.word == "INCONCLUSIVE", judged.verdict.reasons
    section = judged.traits.section
    while section.beside is not None:
        section = section.beside
    assert section.title == "Waiting for input"
    curves = {tuple(one.values["loss"]) for one in series.samples if one.role == "pair"}
    # Both sides read the very same samples in the same order: not a bit of a loss differs.
    assert len(curves) == 1
    lines = [dict(zip(section.head, row, strict=True)) for row in section.rows]
    for line in lines:
        assert 0 < float(line["input, ms"]) < float(line["step, ms"])
    return series, lines, curves.pop()


LAUNCHES = ("--unit", "launches", "--steps", 3, "--controls", 0)


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
