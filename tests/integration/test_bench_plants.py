"""Plants of a written list on the native side of real sessions: none may pass for a verdict."""

import os
import sys
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from tests.integration.planting import linked_copy
from tests.integration.test_bench import environment_with, twin_packages
from tests.integration.truth import bench
from tests.integration.world import Built, World, missing
from tests.plants import planting
from tests.plants.planting import FIRST, NAMED, SECOND, Plant

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
OPTIONS = {
    "train": ("--steps", 3, "--threads", 1, "--device", "cpu", "--controls", 0),
    "import": ("--controls", 0),
}
PLANTS = {plant.name: plant for file in (FIRST, SECOND) for plant in planting.load(file)}


@pytest.fixture(scope="module")
def packages(world: World, pytorch_image: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the packages of the image's native twin."""
    return twin_packages(world, pytorch_image, tmp_path_factory.mktemp("twin"))


def made(packages: Path, folder: Path) -> Path:
    """Make a native side whose packages are the twin's, start files and all, and its own."""
    tree = environment_with(folder)
    own = planting.packages(tree)
    (own / "side.pth").unlink()
    own.rmdir()
    linked_copy(packages, own)
    return tree


def session(
    world: World, image: Built, tree: Path, output: Path, plant: Plant | None = None
) -> Analysis:
    # What only figures can tell takes as many pairs as a verdict.
    pairs = 1 if plant is None or plant.by == "attestation" else 8
    probe = plant.session if plant else "train"
    more = (*OPTIONS[probe], "--pairs", pairs, "--native", tree)
    return bench(world, probe, image.image, output, *more)


def test_nothing_planted_is_not_refused(
    world: World, pytorch_image: Built, packages: Path, tmp_path: Path
) -> None:
    tree = made(packages, tmp_path / "side")
    found = session(world, pytorch_image, tree, tmp_path / "x.jsonl")
    assert found.verdict.word == "INCONCLUSIVE", found.verdict.reasons


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_not_comparable(
    world: World, pytorch_image: Built, packages: Path, tmp_path: Path, name: str
) -> None:
    plant = PLANTS[name]
    if plant.cgroup and not (planting.CGROUPS / plant.cgroup.controller / "tasks").exists():
        missing(f"version 1 of the cgroup controller {plant.cgroup.controller}")
    tree = made(packages, tmp_path / "side")
    with planting.planted(plant, tree) as around:
        planting.wrap(tree, around)
        found = session(world, pytorch_image, tree, tmp_path / "x.jsonl", plant)
    reasons = found.verdict.reasons
    sys.stdout.write(f"{name}: {found.verdict.word} at load {os.getloadavg()[0]:.0f}\n")
    sys.stdout.writelines(f"  {reason}\n" for reason in reasons)
    # The container is never blamed.
    assert found.verdict.word not in {"SLOWER", "FASTER"}, found.verdict
    assert found.verdict.word == "NOT COMPARABLE", reasons
    named = NAMED.get(name)
    assert named is None or any(reason.startswith(f"{named} differs") for reason in reasons), (
        reasons
    )
