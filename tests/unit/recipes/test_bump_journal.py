"""Files of a recipe that change together: cut off, put back, changed by a user meanwhile."""

import json
from pathlib import Path

import pytest

from dlcontainer.errors import ConfigError
from dlcontainer.recipes import bump_journal, recipe

BEFORE, AFTER = {"recipe.yaml": "a: 1\n", "more.yaml": "b: 1\n"}, {"recipe.yaml": "a: 2\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a folder whose change was cut off after the first of two files."""
    before = {tmp_path / name: text for name, text in BEFORE.items()}
    after = {path: text.replace("1", "2") for path, text in before.items()}
    for path, text in before.items():
        path.write_text(text)
    bump_journal.change(tmp_path, before, after)
    assert not bump_journal.is_there(tmp_path)
    files = {path.name: [before[path], after[path]] for path in before}
    (tmp_path / bump_journal.FILE).write_text(json.dumps({"schema": 1, "files": files}))
    (tmp_path / "more.yaml").write_text(BEFORE["more.yaml"])
    return tmp_path


def texts(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.yaml")}


def test_a_recipe_between_two_states_is_not_read(folder: Path) -> None:
    with pytest.raises(ConfigError, match="cut off") as error:
        recipe.read(folder / "recipe.yaml", display="recipe.yaml")
    assert "recipe outdated RECIPE --write" in str(error.value.next_step)


def test_its_files_are_put_back(folder: Path) -> None:
    assert {path.name for path in bump_journal.undo(folder)} == set(BEFORE)
    assert texts(folder) == BEFORE
    assert bump_journal.undo(folder) == ()


def test_nothing_of_a_user_is_overwritten(folder: Path) -> None:
    (folder / "more.yaml").write_text("b: 3\n")
    with pytest.raises(ConfigError, match="changed or removed since"):
        bump_journal.undo(folder)
    assert texts(folder) == {**AFTER, "more.yaml": "b: 3\n"}
    (folder / "more.yaml").unlink()
    with pytest.raises(ConfigError, match="changed or removed since"):
        bump_journal.undo(folder)


@pytest.mark.parametrize("text", ["", "[]", '{"files": [1]}', '{"files": {"a": 1}}', "{"])
def test_a_journal_that_is_none_is_named(folder: Path, text: str) -> None:
    (folder / bump_journal.FILE).write_text(text)
    with pytest.raises(ConfigError, match="can't read"):
        bump_journal.undo(folder)


def test_a_name_that_leads_elsewhere_is_refused(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere.yaml"
    elsewhere.write_text("old")
    files = {"../elsewhere.yaml": ["new", "old"]}
    (folder / bump_journal.FILE).write_text(json.dumps({"schema": 1, "files": files}))
    with pytest.raises(ConfigError, match="changed or removed since"):
        bump_journal.undo(folder)
    assert elsewhere.read_text() == "old"
