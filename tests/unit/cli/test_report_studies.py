"""`dlcontainer report FOLDER`: studies as `bench scaling` writes them, read, judged and written."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.study import study_points
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.cli import main
from tests import studies
from tests.studies import Planted


def run(*arguments: str | Path) -> int:
    return main._run(["report", *map(str, arguments)], as_json="--json" in arguments)


def study(folder: Path, **changes: object) -> Path:
    request = StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=16, looks=(8, 16))
    return studies.write(folder, studies.plan(request, **changes))


def test_a_study_is_reported_in_every_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, target = study(tmp_path / "s"), tmp_path / "report.html"
    assert run(folder, "-o", target) == 0
    said = capsys.readouterr().out
    assert "## Does the container cost anything at 4 ranks?" in said
    assert "## Scaling study: residual, demo at demo" in said
    page = target.read_text()
    assert "What is lost at 4 ranks" in page
    assert "<h1>In short</h1>" in page
    assert "| 4 | dp4 |" in (tmp_path / "report.md").read_text()
    with (tmp_path / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {Path(row["file"]).name for row in rows} == {f"{n}-dp{n}.jsonl" for n in (1, 2, 4)}


def test_json_has_each_point_with_what_was_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(study(tmp_path / "s"), "--json") == 0
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [answer["question"] for answer in body["answers"]] == [
        "Does the container cost anything at 4 ranks?",
        "How well does it scale to 4 ranks?",
    ]
    points = body["findings"][0]["study"]["points"]
    assert [(point["ranks"], point["strategy"]) for point in points] == [
        (1, "dp1"), (2, "dp2"), (4, "dp4"),
    ]  # fmt: skip
    last = points[-1]
    # Planted: 2 % a rank more, 1 % in the container, a tenth of the step talks.
    assert last["verdict"]["ratio"]["value"] == pytest.approx(1.01, abs=0.003)
    native = last["arms"]["native"]
    assert native["efficiency"]["value"] == pytest.approx(1 / 1.06, abs=0.004)
    assert native["loss"]["terms"]["exposed communication"]["value"] == pytest.approx(0.1, abs=0.01)


def test_fail_on_looks_at_every_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def slow(session: StudySession, arm: str, pair: int, rank: int) -> float:
        step = studies.planted(session, "native", pair, rank)
        return step * (1.1 if arm == "container" and session.ranks == 4 else 1.0)

    folder = studies.write(tmp_path / "s", studies.plan(), Planted(steps=slow))
    assert run(folder, "--fail-on", "slower") == 1
    assert "4-dp4.jsonl: SLOWER" in capsys.readouterr().err
    assert run(study(tmp_path / "t"), "--fail-on", "slower") == 0


def test_two_studies_of_other_work_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = study(tmp_path / "a"), study(tmp_path / "b", site="other")
    assert run(first, second) == 0
    assert "## Which is faster, demo or other?" in capsys.readouterr().out
    request = StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=32, looks=(8,))
    third = studies.write(tmp_path / "c", studies.plan(request, site="other"))
    assert run(first, third) == 0
    said = capsys.readouterr().out
    assert "demo and other can't be compared: no point is the same: 1 rank, dp1" in said
    assert "the batch differs: 16 and 32 samples of all ranks" in said


def test_more_ranks_than_cores_are_named_emulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = studies.write(tmp_path / "s", studies.plan(), Planted(cores=2))
    assert run(folder) == 0
    first, *_ = capsys.readouterr().out.split("\n## ")
    assert "emulated: 4 ranks on 2 cores of a node" in first


def test_a_session_of_the_study_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = study(tmp_path / "s")
    before = (folder / "4-dp4.jsonl").read_bytes()
    for name in ("4-dp4.jsonl", "study.json"):
        assert run(folder, "-o", folder / name) == 2
        assert "would overwrite its own samples" in capsys.readouterr().err
    assert (folder / "4-dp4.jsonl").read_bytes() == before
    assert run(folder, "-o", folder / "report.html") == 0


def test_a_changed_study_and_a_folder_of_something_else_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path) == 7
    assert "it has no study.json" in capsys.readouterr().err
    folder = study(tmp_path / "s")
    path = folder / "2-dp2.jsonl"
    path.write_text(path.read_text().replace('"wall_s":', '"wall_s": ', 1))
    assert run(folder) == 7
    assert "2-dp2.jsonl" in capsys.readouterr().err


def test_a_point_that_was_cut_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declared = studies.plan()
    folder = studies.write(tmp_path / "s", declared)
    last = next(s for s in study_points.sessions(declared) if s.file == "4-dp4.jsonl")
    (folder / last.file).unlink()
    studies.write_session(folder / last.file, declared, last, Planted(), until=6)
    assert run(folder) == 0
    said = capsys.readouterr().out
    assert "Not complete: 4-dp4.jsonl" in said
