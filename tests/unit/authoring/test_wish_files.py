"""Files of packages by name, the parent recipe of them, and the name of the recipe made of them."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dlcontainer.authoring import parents, wish_files
from dlcontainer.errors import UsageError

RECIPES = ("horovod", "pytorch", "tensorflow")


@pytest.mark.parametrize(
    "name",
    [
        "requirements.txt",
        "dev/requirements-gpu.txt",
        "pyproject.toml",
        "pylock.toml",
        "pylock.gpu.toml",
        "uv.lock",
        "environment.yml",
        "environment-gpu.yaml",
        "/a b/frozen.txt",
        "poetry.lock",
        "Dockerfile",
        "my.def",
    ],
)
def test_files_of_packages(name: str) -> None:
    assert wish_files.is_meant(name)


@pytest.mark.parametrize(
    "name", ["pytorch", "my/recipe.yaml", "my", "recipe.yml", "txt", "pytorch-2.5"]
)
def test_recipes_are_no_files_of_packages(name: str) -> None:
    assert not wish_files.is_meant(name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/home/ada/My Thesis/requirements.txt", "my-thesis"),
        ("/home/ada/x/requirements-gpu.txt", "gpu"),
        ("/home/ada/x/llm_requirements.txt", "llm"),
        ("/home/ada/prot/pyproject.toml", "prot"),
        ("/home/ada/prot/pylock.gpu.toml", "prot"),
        ("/home/ada/prot/environment.yml", "prot"),
        ("/home/ada/.hidden/uv.lock", "hidden"),
        (f"/home/ada/{'long' * 30}/uv.lock", "long" * 10),
    ],
)
def test_the_name_of_a_recipe(path: str, name: str) -> None:
    assert wish_files.recipe_name(Path(path)) == name


def test_no_name() -> None:
    with pytest.raises(UsageError, match="can't take a name") as error:
        wish_files.recipe_name(Path("/запросы/requirements.txt"))
    assert error.value.next_step == "choose one: --name NAME"


@pytest.mark.parametrize(
    ("wanted", "recipe"),
    [
        (["torch>=2", "einops"], "pytorch"),
        (["Torch"], "pytorch"),
        (["tensorflow-cpu"], "tensorflow"),
        (["einops"], None),
        (["torch", "tensorflow"], None),
        (["jax"], None),  # there is no such recipe here
        (["torch; sys_platform == 'darwin'", "einops"], None),
        (["torch; sys_platform == 'linux'"], "pytorch"),
    ],
)
def test_the_recipe_below(wanted: list[str], recipe: str | None) -> None:
    assert parents.named(map(Requirement, wanted), RECIPES) == recipe
