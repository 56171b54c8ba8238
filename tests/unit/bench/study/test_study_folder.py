"""A study's folder: declared once, held by one run, whole sessions kept and cut ones told apart."""

import fcntl
import platform
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.measure import declaration
from dlcontainer.bench.study import study_folder, study_points
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.errors import BenchDataError
from tests import studies
from tests.studies import Planted

PLAN = studies.plan()
SESSIONS = {one.file: one for one in study_points.sessions(PLAN)}
ONE = SESSIONS["1-dp1.jsonl"]


def test_a_declaration_is_written_once_and_stays(tmp_path: Path) -> None:
    assert study_folder.settle(tmp_path, PLAN) == PLAN
    text = (tmp_path / "study.json").read_bytes()
    later = replace(PLAN, created="2027-01-01T00:00:00Z", version="9.9")
    assert study_folder.settle(tmp_path, later) == PLAN
    assert (tmp_path / "study.json").read_bytes() == text
    assert study_folder.read(tmp_path) == PLAN


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image_sha256": "cd" * 32}, "image_sha256: abab"),
        ({"site": "other"}, "site: demo in the file, now other"),
        ({"recipe": "other"}, "recipe: demo in the file, now other"),
        ({"workload": "resnet50"}, "workload: residual in the file, now resnet50"),
        ({"precision": "bf16"}, "precision: fp32 in the file, now bf16"),
        ({"one_allocation": True}, "one_allocation: "),
        ({"options": {**PLAN.options, "steps": 5}}, "options.steps: not stated in the file, now 5"),
        ({"extras": ()}, "extras: 2-collectives;"),
    ],
)
def test_another_study_is_refused_with_what_differs(
    changes: dict[str, object], says: str, tmp_path: Path
) -> None:
    study_folder.settle(tmp_path, PLAN)
    with pytest.raises(BenchDataError, match="holds another study") as refused:
        study_folder.settle(tmp_path, studies.plan(None, **changes))
    assert says in (refused.value.why or "")
    assert refused.value.where == str(tmp_path / "study.json")


@pytest.mark.parametrize(
    "asked",
    [
        StudyRequest(ranks=(1, 2, 8), ranks_per_node=4, batch=16, looks=(8,)),
        StudyRequest(ranks=(1, 2, 4), ranks_per_node=2, batch=16, looks=(8,)),
        StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=8, looks=(8,)),
        StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=16, looks=(8, 16)),
        StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=16, looks=(8,), strategies=("fsdp",)),
    ],
)
def test_other_points_are_another_study(asked: StudyRequest, tmp_path: Path) -> None:
    study_folder.settle(tmp_path, PLAN)
    with pytest.raises(BenchDataError) as refused:
        study_folder.settle(tmp_path, studies.plan(asked))
    assert "points: 1-dp1 (batch 16, 1 node, looks 8)" in (refused.value.why or "")


def test_sessions_of_somebody_else_are_no_points(tmp_path: Path) -> None:
    studies.write_session(tmp_path / "1-dp1.jsonl", PLAN, ONE, Planted())
    with pytest.raises(BenchDataError, match=r"holds sessions and no study\.json"):
        study_folder.settle(tmp_path, PLAN)


def test_one_run_holds_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "study"
    with (
        study_folder.held(folder),
        pytest.raises(BenchDataError, match="another process is measuring this study"),
        study_folder.held(folder),
    ):
        pass
    with study_folder.held(folder):
        pass


def test_a_file_system_without_locks_is_no_reason_not_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_number: int, _how: int) -> None:
        raise OSError(95, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    with study_folder.held(tmp_path):
        pass


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(BenchDataError, match="cannot write to this folder"),
        study_folder.held(tmp_path / "file"),
    ):
        pass


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be where the synthetic sessions were measured, which say nothing of it."""
    monkeypatch.setattr(platform, "node", lambda: None)
    monkeypatch.setattr(declaration, "boot_id", lambda: None)


def state(path: Path, session: StudySession = ONE, allocation: str | None = None) -> str:
    return study_folder.state(path, session, PLAN, allocation)


@pytest.mark.usefixtures("here")
def test_how_far_a_session_got(tmp_path: Path) -> None:
    path = tmp_path / ONE.file
    assert state(path) == "new"
    path.touch()
    assert state(path) == "again"
    path.unlink()
    studies.write_session(path, PLAN, ONE, Planted(), until=5)
    assert state(path) == "cut"
    path.unlink()
    studies.write_session(path, PLAN, ONE, Planted())
    assert state(path) == "whole"


@pytest.mark.usefixtures("here")
def test_in_another_job_nothing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / ONE.file
    studies.write_session(path, PLAN, ONE, Planted(), until=5)
    assert state(path, allocation="SLURM_JOB_ID=7") == "again"
    aside = study_folder.set_aside(path)
    assert aside.name == "1-dp1.jsonl.begun-1"
    assert not path.exists()


def test_on_another_node_nothing_goes_on(tmp_path: Path) -> None:
    path = tmp_path / ONE.file
    studies.write_session(path, PLAN, ONE, Planted(), until=5)
    assert state(path) == "again"
    assert path.exists()


def test_a_session_of_another_point_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ONE.file
    studies.write_session(path, PLAN, SESSIONS["2-dp2.jsonl"], Planted())
    with pytest.raises(BenchDataError, match="is not the one that the study declares") as refused:
        state(path)
    assert "ranks: 2 in the file, 1 in study.json" in (refused.value.why or "")
