"""Doctor with a site: what its file names of a host, nothing of which is made."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.doctor import of_site
from dlcontainer.doctor.finding import DoctorFinding
from tests.fakes import RecordingRunner, completed
from tests.values import host, site_of


def look(folder: Path, version: str = "1.4.5", **changes: Any) -> dict[str, DoctorFinding]:
    """Look at a site on a host whose programs lie in a folder."""
    here = host(environ={"PATH": str(folder)})
    answer = completed("v", stdout=f"apptainer version {version}-1.el9\n")
    found = of_site.examine(site_of(**changes).value, here, RecordingRunner([answer]))
    return {one.name: one for one in found}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.executable", "/no/such/python")
    folder = tmp_path / "it's bin"
    folder.mkdir()
    for name in ("apptainer", "sbatch", "srun"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_folders(programs: Path, tmp_path: Path) -> None:
    there, none = tmp_path / "there", tmp_path / "none/below"
    there.mkdir()
    found = look(programs, engine={"tmpdir": str(there), "cache": str(there)})
    assert [found[key].state for key in ("engine.tmpdir", "engine.cache")] == ["ok", "ok"]
    found = look(
        programs,
        engine={"tmpdir": str(none), "cache": str(none)},
        modules={"kind": "lmod", "root": str(none)},
    )
    states = [found[key].state for key in ("engine.tmpdir", "engine.cache", "modules.root")]
    assert states == ["warning", "ok", "ok"]
    assert "does not exist yet" in found["modules.root"].detail
    assert "--set site.engine.tmpdir=FOLDER" in str(found["engine.tmpdir"].mend)
    assert not none.parent.exists()


def test_a_folder_that_can_not_be_written(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: path != tmp_path / "shut" and may(path, mode)
    )
    (tmp_path / "shut").mkdir()
    found = look(programs, modules={"kind": "lmod", "root": str(tmp_path / "shut/root")})
    assert found["modules.root"].state == "warning"
    assert f"you cannot write to {tmp_path / 'shut'}" in found["modules.root"].detail


def test_builds_are_tried_where_the_site_says(tmp_path: Path) -> None:
    here = host(environ={"TMPDIR": "/elsewhere"})
    there = site_of(engine={"tmpdir": str(tmp_path)}).value
    assert of_site.placed(there, here).environ["TMPDIR"] == str(tmp_path)
    gone = site_of(engine={"tmpdir": str(tmp_path / "none")}).value
    assert of_site.placed(gone, here) == here
    assert of_site.placed(site_of().value, replace(here, environ={})).environ == {}


def test_files_and_groups(programs: Path, tmp_path: Path) -> None:
    routing = {"ca": str(tmp_path / "ca.pem"), "wheels": [str(tmp_path / "wheels")]}
    found = look(programs, routing=routing, modules={"kind": "lmod", "group": "no_such_group"})
    assert found["routing.ca"].state == found["routing.wheels"].state == "error"
    assert "this host has no such group" in found["modules.group"].detail
    (tmp_path / "ca.pem").write_text("")
    (tmp_path / "wheels").mkdir()
    found = look(programs, routing=routing)
    assert (found["routing.ca"].state, "routing.wheels" in found) == ("ok", False)


@pytest.mark.parametrize(
    ("wanted", "here", "state"),
    [("1.4.5", "1.4.5", "ok"), ("1.3.0", "1.4.5", "warning"), (None, "1.4.5", "ok")],
)
def test_the_version_of_the_engine(
    programs: Path, wanted: str | None, here: str, state: str
) -> None:
    engine = {"version": wanted} if wanted else {}
    found = look(programs, here, engine=engine)["engine.runtime"]
    assert found.state == state
    assert state == "ok" or "1.4.5-1.el9 here, 1.3.0 at the site" in found.detail
    (programs / "apptainer").unlink()
    found = look(programs, here, engine={**engine, "module": "apptainer/1"})["engine.runtime"]
    assert (found.state, found.detail) == ("warning", "no apptainer on PATH")
    assert str(found.mend).startswith("module load apptainer/1, or ")


def test_the_commands_of_the_scheduler(programs: Path) -> None:
    scheduler = {"kind": "slurm", "launcher": ["srun", "--mpi=pmix"]}
    assert look(programs, scheduler=scheduler)["scheduler"].detail == "slurm: sbatch, srun"
    (programs / "srun").unlink()
    found = look(programs, scheduler=scheduler)["scheduler"]
    assert (found.state, found.detail) == ("warning", "slurm: no srun on PATH")
    assert "scheduler" not in look(programs, scheduler={"kind": "none"})
