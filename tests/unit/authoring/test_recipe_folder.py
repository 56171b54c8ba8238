"""A recipe's folder appears whole, and takes nobody's place but its like's."""

import errno
import os
import threading
from pathlib import Path

import pytest

from dlcontainer.authoring import recipe_folder, recipe_text
from dlcontainer.errors import BuildError, ConfigError
from dlcontainer.system import atomic_files
from tests.fakes import RecordingRunner

FILES = {"recipe.yaml": f"{recipe_text.HEAD} 1\nname: a\n", "verify.py": "print()\n"}
OTHERS = {"recipe.yaml": f"{recipe_text.HEAD} 1\nname: b\n"}


def new(target: Path, files: dict[str, str] = FILES) -> None:
    recipe_folder.write_new(target, files, RecordingRunner(), lambda _: None)


def over(target: Path, files: dict[str, str] = FILES) -> None:
    recipe_folder.write_over(target, files, RecordingRunner(), lambda _: None)


def read(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_new_folder_and_those_above_it(tmp_path: Path) -> None:
    target = tmp_path / "a b/deep/sci"
    new(target)
    assert read(target) == FILES
    assert [path.name for path in target.parent.iterdir()] == ["sci"]


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dead link"])
def test_a_taken_place_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    target, elsewhere = tmp_path / "sci", tmp_path / "elsewhere"
    if kind == "folder":
        target.mkdir()
        (target / "mine").write_text("x")
    elif kind == "file":
        target.write_text("x")
    else:
        target.symlink_to(elsewhere)
        if kind == "link":
            elsewhere.mkdir()
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for attempt in (recipe_folder.require_free, new):
        with pytest.raises(ConfigError, match="is there already"):
            attempt(target)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_of_two_at_once_one_wins_whole(tmp_path: Path) -> None:
    target, refused, barrier = tmp_path / "sci", [], threading.Barrier(2)

    def write(files: dict[str, str]) -> None:
        barrier.wait()
        try:
            new(target, files)
        except ConfigError as error:
            refused.append(str(error.what))

    threads = [threading.Thread(target=write, args=(files,)) for files in (FILES, OTHERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == [f"{target} is there already"]
    assert read(target) in (FILES, OTHERS)


def test_nothing_half_written_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_files, "write", full)
    with pytest.raises(BuildError, match="No space left"):
        new(tmp_path / "sci")
    assert list(tmp_path.iterdir()) == []


def test_one_of_ours_gives_way(tmp_path: Path) -> None:
    target = tmp_path / "sci.recipe"
    over(target)
    number = (target / "recipe.yaml").stat().st_ino
    over(target)
    assert (target / "recipe.yaml").stat().st_ino == number  # the same files: nothing is done
    over(target, OTHERS)
    assert read(target)["recipe.yaml"].endswith(OTHERS["recipe.yaml"])
    assert [path.name for path in target.iterdir()] == ["recipe.yaml"]
    assert [path.name for path in tmp_path.iterdir()] == ["sci.recipe"]


@pytest.mark.parametrize("change", ["other", "more", "edited", "proof", "empty"])
def test_what_somebody_wrote_does_not(tmp_path: Path, change: str) -> None:
    target = tmp_path / "sci.recipe"
    over(target)
    recipe = target / "recipe.yaml"
    if change == "other":
        (target / "verify.py").unlink()
        recipe.write_text("mine\n")
    elif change == "empty":
        recipe.write_text("")
    else:
        name = {"more": "thesis.txt", "edited": "recipe.yaml", "proof": "verify.py"}[change]
        with (target / name).open("a") as file:
            file.write("# mine\n")
    before = read(target)
    with pytest.raises(ConfigError, match="was changed"):
        over(target, OTHERS)
    assert read(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["sci.recipe"]


def test_no_folder_can_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match="cannot make"):
        new(tmp_path / "file/sci")
