"""`recipe new` and `build FILE`: what is refused before any resolver is asked."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import run

Run = Callable[..., tuple[int, str, str]]
__all__ = ["run"]


@pytest.fixture
def file(run: Run) -> Path:
    path = Path("requirements.txt")
    path.write_text("einops\n")
    return path


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["pytorch"], "there is a recipe named 'pytorch' already"),
        (["Upper"], "not a recipe's name: 'Upper'"),
        (["/1"], "not a recipe's name: ''"),
        (["a/b c"], "NAME a/b c"),
        (["a/../b"], "NAME a/../b"),
        (["x" * 64], "not a recipe's name"),
    ],
)
def test_names(run: Run, file: Path, words: list[str], what: str) -> None:
    code, out, err = run("recipe", "new", *words, "--from", file)
    assert (code, out) == (2, "")
    assert what in err


def test_a_taken_folder(run: Run, file: Path) -> None:
    Path("mine").mkdir()
    (Path("mine") / "thesis.txt").write_text("x")
    code, _, err = run("recipe", "new", "sci", "--from", file, "-o", "mine")
    assert (code, "is there already" in err) == (3, True)


def test_a_name_of_one_s_own_is_taken_too(run: Run, file: Path) -> None:
    folder = Path("..") / ".config/dlcontainer/recipes/mine"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("name: mine\n")
    code, _, err = run("recipe", "new", "mine", "--from", file)
    assert (code, "there is a recipe named 'mine' already" in err) == (2, True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--name", "a"),
        ("--extends", "pytorch"),
        ("--group", "dev"),
        ("--extra", "gpu"),
        ("--allow-change", "numpy"),
    ],
)
def test_words_of_a_file_beside_a_recipe(run: Run, option: str, value: str) -> None:
    code, _, err = run("build", "pytorch", "--site", "example-slurm", option, value)
    assert (code, f"{option} belongs to a file of packages" in err) == (2, True)


@pytest.mark.parametrize("name", ["requirements.txt", "environment.yml", "uv.lock"])
def test_a_file_that_is_not_there(run: Run, name: str) -> None:
    code, _, err = run("build", name, "--site", "example-slurm", "--json")
    assert code == 3
    assert name in err
    assert "recipe" not in err.splitlines()[0]


def test_files_of_other_tools_say_what_to_give(run: Run) -> None:
    Path("poetry.lock").write_text("")
    code, _, err = run("build", "poetry.lock", "--site", "example-slurm")
    assert (code, "poetry export" in err) == (3, True)


def test_a_bad_line_has_its_place(run: Run) -> None:
    Path("requirements.txt").write_text("einops\n-e ./mine\n")
    for words in (
        ("build", "requirements.txt", "--site", "example-slurm"),
        ("recipe", "new", "sci", "--from", "requirements.txt"),
    ):
        code, _, err = run(*words)
        assert (code, "requirements.txt:2" in err) == (3, True)
        assert len(err.splitlines()) <= 6


def test_json_of_a_refusal(run: Run, file: Path) -> None:
    code, out, _ = run("recipe", "new", "pytorch", "--from", file, "--json")
    assert json.loads(out)["exit_code"] == code == 2
