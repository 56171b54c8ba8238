"""Plants of a written list on the native side of real sessions: none may pass for a verdict."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from tests.integration import standin
from tests.integration.planting import linked_copy
from tests.integration.test_bench import environment_with, twin_packages
from tests.integration.truth import bench, native_prefix, packages_of
from tests.integration.world import Built, World, missing
from tests.plants import planting
from tests.plants.planting import FIRST, NAMED, SECOND, Plant

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
OPTIONS = {
    "train": ("--steps", 3, "--threads", 1, "--device", "cpu", "--controls", 0),
    "import": ("--controls", 0),
}
PLANTS = {plant.name: plant for file in (FIRST, SECOND) for plant in planting.load(file)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """An image, whoever runs sessions of it, and the packages of its native twin."""

    world: World
    image: Path
    recipe: str | Path
    packages: Path


@pytest.fixture(scope="module")
def pytorch(
    world: World, pytorch_image: Built, tmp_path_factory: pytest.TempPathFactory
) -> Subject:
    """Give what plants within a framework take."""
    packages = twin_packages(world, pytorch_image, tmp_path_factory.mktemp("twin"))
    return Subject(world=world, image=pytorch_image.image, recipe="pytorch", packages=packages)


@pytest.fixture(scope="module")
def small(world: World, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Give what all others take: a launch of PyTorch is seconds longer, and says no more."""
    folder = tmp_path_factory.mktemp("small")
    recipe, wheels = standin.write(folder / "standin", standin.AT_WORK)
    return standing_in(world.having(PIP_FIND_LINKS=wheels), recipe, folder)


def standing_in(world: World, recipe: Path, folder: Path) -> Subject:
    image = world.build(recipe, folder / "image").image
    more = ("--recipe", recipe, "--pairs", 1, "--controls", 0)
    bench(world, "import", image, folder / "twin.jsonl", *more)
    packages = packages_of(native_prefix(folder / "twin.jsonl"))
    return Subject(world=world, image=image, recipe=recipe, packages=packages)


def made(packages: Path, folder: Path) -> Path:
    """Make a native side whose packages are the twin's, start files and all, and its own."""
    tree = environment_with(folder)
    own = planting.packages(tree)
    (own / "side.pth").unlink()
    own.rmdir()
    linked_copy(packages, own)
    return tree


def session(subject: Subject, tree: Path, output: Path, plant: Plant | None = None) -> Analysis:
    # What only figures can tell takes as many pairs as a verdict.
    pairs = 1 if plant is None or plant.by == "attestation" else 8
    probe = plant.session if plant else "train"
    more = (*OPTIONS[probe], "--pairs", pairs, "--native", tree, "--recipe", subject.recipe)
    return bench(subject.world, probe, subject.image, output, *more)


def planted(subject: Subject, plant: Plant, folder: Path) -> Analysis:
    """Run a session with a plant on its native side."""
    tree = made(subject.packages, folder / "side")
    with planting.planted(plant, tree) as around:
        planting.wrap(tree, around)
        return session(subject, tree, folder / "x.jsonl", plant)


def test_nothing_planted_is_not_refused(small: Subject, tmp_path: Path) -> None:
    found = session(small, made(small.packages, tmp_path / "side"), tmp_path / "x.jsonl")
    assert found.verdict.word == "INCONCLUSIVE", found.verdict.reasons


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_not_comparable(
    request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    plant = PLANTS[name]
    if plant.cgroup and not (planting.CGROUPS / plant.cgroup.controller / "tasks").exists():
        missing(f"version 1 of the cgroup controller {plant.cgroup.controller}")
    subject = request.getfixturevalue("pytorch" if plant.category == "framework" else "small")
    found = planted(subject, plant, tmp_path)
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
