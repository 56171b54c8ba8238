import json
import sys
from pathlib import Path

import pytest

from dlcontainer.errors import EngineError
from tools import setup_venv
from tools.setup_venv import MARKER, STAMP, base_python, next_step, read_stamp, remove_old


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\n")
    return folder


def stamp_of(project: Path, extras: str = "dev") -> dict[str, str]:
    return setup_venv.wanted_stamp(project, project / ".venv", extras)


def finished(venv: Path, stamp: dict[str, str]) -> Path:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").touch()
    (venv / STAMP).write_text(json.dumps(stamp))
    return venv


def test_a_finished_environment_needs_nothing(project: Path) -> None:
    stamp = stamp_of(project)
    venv = finished(project / ".venv", stamp)
    assert next_step(read_stamp(venv), stamp_of(project)) == "nothing"


def test_another_pyproject_or_other_extras_are_installed_into_it(project: Path) -> None:
    stamp = stamp_of(project)
    assert next_step(stamp, stamp_of(project, "dev,bench")) == "install"
    (project / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert next_step(stamp, stamp_of(project)) == "install"


def test_extras_that_are_there_stay(project: Path) -> None:
    stamp = stamp_of(project, "dev")
    assert next_step(stamp, stamp_of(project, "")) == "nothing"
    assert next_step(stamp_of(project, ""), stamp_of(project, "dev")) == "install"
    assert setup_venv.with_extras(stamp, "bench") == "bench,dev"
    assert setup_venv.with_extras(stamp_of(project, ""), "") == ""


@pytest.mark.parametrize("key", ["python", "venv", "project"])
def test_another_python_or_place_makes_it_anew(project: Path, key: str) -> None:
    stamp = stamp_of(project)
    assert next_step(stamp | {key: "other"}, stamp) == "make"


def test_a_half_made_environment_is_made_anew(project: Path) -> None:
    venv = finished(project / ".venv", {})
    (venv / STAMP).unlink()
    assert next_step(read_stamp(venv), stamp_of(project)) == "make"


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_broken_stamp_counts_as_none(project: Path, text: str) -> None:
    venv = finished(project / ".venv", {})
    (venv / STAMP).write_text(text)
    assert read_stamp(venv) == {}


def test_a_stamp_without_its_python_counts_as_none(project: Path) -> None:
    venv = finished(project / ".venv", stamp_of(project))
    (venv / "bin/python").unlink()
    (venv / "bin/python").symlink_to("/nowhere/python3")  # the distribution was upgraded
    assert read_stamp(venv) == {}


@pytest.mark.parametrize("name", [MARKER, STAMP, "pyvenv.cfg"])
def test_an_old_environment_is_removed(tmp_path: Path, name: str) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / name).touch()
    remove_old(venv)
    assert not venv.exists()


def test_a_folder_of_somebodys_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(EngineError, match="not removing"):
        remove_old(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "real"
    target.mkdir()
    (target / "pyvenv.cfg").touch()
    (tmp_path / "venv").symlink_to(target)
    with pytest.raises(EngineError, match="not a folder"):
        remove_old(tmp_path / "venv")
    assert (target / "pyvenv.cfg").exists()


def test_an_environments_own_python_is_not_the_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/venv/bin/python")
    assert base_python() == str(Path(getattr(sys, "_base_executable", "")).resolve())
    assert not base_python().startswith("/venv")
