"""From a file of packages to a recipe and an image: real resolver, real engine, made-up wheels."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import wheelhouse
from tests.integration.world import World

SITE = "example-slurm"


@pytest.fixture
def user(world: World, tmp_path: Path) -> World:
    """Give a user whose packages come from a folder, and from nowhere else."""
    folder = wheelhouse.fill(tmp_path / "wheels", tmp_path / "mark")
    modules = {"cv9/__init__.py": "__version__ = '5.0'\n"}
    wheelhouse.wheel(folder, "opencv-like", "5.0", ["einops"], modules=modules)
    return world.having(PIP_FIND_LINKS=folder, PIP_NO_INDEX="1")


def requirements(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "requirements.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def recipe(folder: Path) -> Any:
    return yaml.safe_load((folder / "recipe.yaml").read_text())


def test_a_recipe_for_two_machines(user: World, tmp_path: Path) -> None:
    file, folder = requirements(tmp_path / "sci", "marked", "opencv-like"), tmp_path / "new"
    sites = ("--site", SITE, "--site", "alps")
    said = user.run(
        *("recipe", "new", "sci", "--from", file, "--extends", "pytorch", *sites),
        *("-o", folder, "--json"),
    )
    body = json.loads(said.stdout)
    pins = {site["site"]: site["pins"] for site in body["sites"]}
    # The markers are those of the machine that the image is for.
    assert {"m-intel==1.0", "m-old==1.0"} <= set(pins[SITE])
    assert {"m-arm==1.0", "m-new==1.0"} <= set(pins["alps"])
    made = recipe(folder)
    assert made["variants"]["cuda-13-arm"]["steps"]["packages"] == {
        "add": ["m-arm==1.0", "m-new==1.0"],
        "remove": ["m-intel", "m-old"],
    }
    assert made["verify"]["imports"] == {"cv9": "5.0"}
    for site, there, absent in ((SITE, "m-intel", "m-arm"), ("alps", "m-arm", "m-intel")):
        plan = user.run("plan", folder, "--site", site).stdout
        assert f"{there}==1.0" in plan
        assert f"{absent}==1.0" not in plan
    refused = user.run("plan", folder, "--site", "lumi", code=8).stderr
    assert "packages were not chosen for it" in refused


def test_on_a_recipe_of_one_s_own(user: World, tmp_path: Path) -> None:
    below = requirements(tmp_path / "below", "m-old")
    user.run("recipe", "new", "below", "--from", below, "--site", SITE, "-o", tmp_path / "a b")
    above = requirements(tmp_path / "above", "einops")
    words = ("--extends", "../a b/recipe.yaml", "--site", SITE, "-o", tmp_path / "c")
    user.run("recipe", "new", "above", "--from", above, *words, cwd=tmp_path / "above")
    plan = json.loads(user.run("plan", tmp_path / "c", "--site", SITE, "--json").stdout)
    assert [pin["package"] for pin in plan["pins"]] == ["m-old==1.0", "einops==1.0"]


def test_a_site_with_accelerators_gets_no_image_for_cpus(user: World, tmp_path: Path) -> None:
    file = requirements(tmp_path / "sci", "einops")
    words = ("build", file, "--site", "leonardo:booster", "-o", tmp_path / "images")
    said = user.run(*words, code=8).stderr
    assert "has no code for the accelerators of site" in said
    assert not (tmp_path / "images").exists()


def test_a_conflict_names_the_line_of_the_recipe(user: World, tmp_path: Path) -> None:
    file = requirements(tmp_path / "sci", "torch>=2.14", "einops")
    said = user.run("build", file, "--site", SITE, "--explain", code=8).stderr
    assert "requirements.txt:1" in said
    assert "recipes/pytorch/recipe.yaml:" in said
    lines = [line for line in said.splitlines() if not line.startswith("[")]
    assert len(lines) <= 6


def test_two_people_at_once(user: World, tmp_path: Path) -> None:
    file, folder = requirements(tmp_path / "sci", "einops"), tmp_path / "new"
    codes: list[int] = []

    def make() -> None:
        words = ("recipe", "new", "sci", "--from", file, "--site", SITE, "-o", folder)
        codes.append(user.run(*words, code=None).returncode)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 3]
    assert {path.name for path in folder.iterdir()} == {"recipe.yaml", "verify.py"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_from_a_file_to_a_valid_image(user: World, tmp_path: Path) -> None:
    file, images = requirements(tmp_path / "Thesis", "opencv-like"), tmp_path / "images"
    words = ("build", file, "--site", "local", "-o", images, "--json")
    built = json.loads(user.run(*words).stdout)
    assert Path(built["image"]).name == "thesis-1-local.sif"
    kept = images / "thesis-local.recipe"
    assert recipe(kept)["steps"][1]["python_packages"]["packages"] == [
        *("einops==1.0", "opencv-like==5.0")
    ]
    checks = user.run("validate", built["image"], "--site", "local").stdout
    assert "import cv9: 5.0 from /opt/thesis" in checks
    assert "verify: imports of cv9" in checks
    # The recipe that was kept makes the same image, and so does the file.
    for again in (file, kept):
        said = json.loads(user.run(words[0], again, *words[2:]).stdout)
        assert (said["found"], said["sha256"]) == (True, built["sha256"])
    with (kept / "recipe.yaml").open("a") as opened:
        opened.write("# mine\n")
    refused = user.run(*words, code=3).stderr
    assert "was changed" in refused
