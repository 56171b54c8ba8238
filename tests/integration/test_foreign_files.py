"""From a Dockerfile and a definition to a recipe and an image: real resolver, parser and engine."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import wheelhouse
from tests.integration.world import World

DOCKERFILE = """\
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends tree
WORKDIR /app
COPY requirements.txt .
RUN pip install -r requirements.txt && echo kept > /etc/own-mark
ENV GREETING="good day"
CMD ["python"]
"""


@pytest.fixture
def user(world: World, tmp_path: Path) -> World:
    """Give a user whose packages come from a folder, and from nowhere else."""
    folder = wheelhouse.fill(tmp_path / "wheels", tmp_path / "mark")
    return world.having(PIP_FIND_LINKS=folder, PIP_NO_INDEX="1")


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "requirements.txt").write_text("einops\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    return folder / "Dockerfile"


def test_the_lines_that_are_taken(user: World, tmp_path: Path) -> None:
    file, folder = project(tmp_path / "sci"), tmp_path / "new"
    words = ("recipe", "new", "sci", "--from", file, "--site", "example-slurm", "-o", folder)
    said = json.loads(user.run(*words, "--json").stdout)
    assert said["image"]["base"] == "python:3.11-slim"
    assert [(line["line"], line["text"]) for line in said["image"]["lines"]] == [
        (3, "WORKDIR /app"),
        (5, "echo kept > /etc/own-mark"),
        (7, 'CMD ["python"]'),
    ]
    made = (folder / "recipe.yaml").read_text()
    assert '# not taken, line 7: CMD ["python"] (images run what a job names)' in made
    assert [step["name"] for step in yaml.safe_load(made)["steps"]] == [
        *("system", "os-packages", "packages")
    ]
    plan = user.run("plan", folder, "--site", "example-slurm").stdout
    assert "einops==1.0" in plan


def test_a_definition_on_a_recipe(user: World, tmp_path: Path) -> None:
    file = tmp_path / "x.def"
    file.write_text(
        "Bootstrap: docker\nFrom: ollama/ollama\n%post\n  pip install einops\n  ollama serve\n"
    )
    words = (
        "recipe",
        "new",
        "sci",
        "--from",
        file,
        "--site",
        "example-slurm",
        "-o",
        tmp_path / "n",
    )
    refused = user.run(*words, code=3).stderr
    assert f"{file}:2:1: no recipe stands for the base 'ollama/ollama'" in refused
    said = user.run(*words, "--extends", "pytorch").stderr
    assert "not taken, line 5: ollama serve (neither pip nor apt)" in said
    assert "in place of the base ollama/ollama: the recipe pytorch" in said
    assert yaml.safe_load((tmp_path / "n/recipe.yaml").read_text())["extends"] == "pytorch"


@pytest.mark.long  # test_own_stack.py builds from a file; here OS packages and kept commands too
def test_from_a_dockerfile_to_a_valid_image(user: World, tmp_path: Path) -> None:
    file, images = project(tmp_path / "sci"), tmp_path / "images"
    words = ("build", file, "--site", "local", "--keep-shell", "-o", images, "--json")
    built = json.loads(user.run(*words).stdout)
    image = Path(built["image"])
    assert image.name == "sci-1-local.sif"
    checks = user.run("validate", image, "--site", "local").stdout
    assert "verify: imports of einops" in checks
    inside = 'tree --version && cat /etc/own-mark && echo "$GREETING"'
    said = subprocess.run(
        ["apptainer", "exec", "--userns", "--cleanenv", image, "sh", "-c", inside],
        env=dict(user.environ),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines()[-2:] == ["kept", "good day"]
