"""The engine of `dlcontainer setup engine` is found by all, unless others can change it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engine_setup import user_prefix
from dlcontainer.engines import apptainer
from dlcontainer.errors import EngineError
from dlcontainer.system import private_engine
from dlcontainer.system.machine import find_program
from tests.hostile import open_place


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a data folder with a private engine; this Python has none beside it."""
    with open_place() as folder:
        monkeypatch.setattr(sys, "executable", str(folder / "a venv/bin/python"))
        data = folder / "it's a home/.local/share/dlcontainer"
        with user_prefix.written_by_one():
            program(data / "engine/bin/apptainer")
        yield data


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def environ(data: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(data.parents[2]), "PATH": "/nowhere", **more}


def test_it_is_found_in_the_data_folder(data: Path) -> None:
    there = data / "engine/bin/apptainer"
    assert find_program("apptainer", environ(data)) == there
    assert apptainer.find(environ(data)).program == there
    # Its helpers, where the engine itself looks for them.
    path = apptainer.environment(environ(data))["PATH"].split(":")
    assert path[-1] == str(data / "engine/bin")


def test_the_variable_of_the_data_folder_decides(data: Path) -> None:
    other = environ(data, XDG_DATA_HOME=str(data.parents[3]))
    assert find_program("apptainer", other) is None
    assert find_program("apptainer", {"PATH": "/nowhere"}) is None
    there = {"PATH": "/nowhere", "XDG_DATA_HOME": str(data.parent)}
    assert find_program("apptainer", there) == data / "engine/bin/apptainer"


def test_what_is_on_the_path_comes_first(data: Path) -> None:
    own = program(data.parents[3] / "sys/apptainer")
    assert find_program("apptainer", environ(data, PATH=str(own.parent))) == own


def test_a_link_leads_to_a_prefix_elsewhere(data: Path) -> None:
    elsewhere = data.parents[3] / "scratch"
    (data / "engine").rename(elsewhere)
    (data / "engine").symlink_to(elsewhere)
    assert find_program("apptainer", environ(data)) == elsewhere / "bin/apptainer"


@pytest.mark.parametrize("which", ["engine/bin", "engine", "."])
def test_one_that_others_can_change_is_not_used_and_that_is_said(data: Path, which: str) -> None:
    place = (data / which).resolve()
    place.chmod(0o777)
    assert find_program("apptainer", environ(data)) is None
    assert private_engine.refusal(environ(data)) == (
        f"the engine in {data / 'engine'} is not used: other users can change {place}"
    )
    with pytest.raises(EngineError) as caught:
        apptainer.find(environ(data))
    assert str(place) in str(caught.value.why)
    place.chmod(0o755)
    assert private_engine.refusal(environ(data)) is None


def test_another_user_s_is_not_used(data: Path, as_root: None) -> None:
    os.chown(data / "engine", 65534, 65534)
    assert find_program("apptainer", environ(data)) is None
