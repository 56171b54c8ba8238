"""A study's folder read back: what was planted is there, and what does not belong is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.vocabulary import ArmName
from dlcontainer.bench.study import study_folder, study_points, study_reader
from dlcontainer.bench.study.study_plan import StudyRequest
from dlcontainer.bench.study.study_points import StudySession
from dlcontainer.errors import BenchDataError
from tests import studies
from tests.studies import Planted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return studies.write(tmp_path / "study", studies.plan())


def test_what_was_planted_is_read(folder: Path) -> None:
    study = study_reader.read(folder)
    assert [one.plan.ranks for one in study.points] == [1, 2, 4]
    assert all(one.complete and not one.emulated for one in study.points)
    sessions = {one.file: one for one in study_points.sessions(study.plan)}
    arm: ArmName
    for point in study.points:
        assert list(point.arms) == ["native", "container"]
        for arm in ("native", "container"):
            steps = point.arms[arm]
            wanted = [planted(sessions[point.plan.file], arm, pair) for pair in range(1, 9)]
            assert steps.step_s == pytest.approx([max(one) for one in wanted])
            assert [list(one) for one in steps.apart_s] == [
                pytest.approx([0.9 * step for step in one]) for one in wanted
            ]
            assert steps.input_s == (0.0,) * 8
    assert {(one.operation, one.bytes, one.ranks, one.arm) for one in study.messages} == {
        (operation, size, ranks, arm)
        for operation in ("all_reduce", "send_recv")
        for size in (4096, 4194304)
        for ranks in (2, 4)
        for arm in ("native", "container")
    }
    least = {one.bytes: one.least_s for one in study.messages}
    assert least == {4096: 1e-5 + 4096e-9, 4194304: 1e-5 + 4194304e-9}
    assert all(one.least_s < one.median_s for one in study.messages)
    assert [(one.ranks, one.arm) for one in study.idle_neighbours] == [
        (2, "native"), (2, "container"), (4, "native"), (4, "container"),
    ]  # fmt: skip
    alone = study.idle_neighbours[0]
    session = sessions["2-idle-neighbours.jsonl"]
    wanted_s = [fmean(planted(session, "native", pair)) for pair in range(1, 9)]
    assert alone.step_s == pytest.approx(wanted_s)


def planted(session: StudySession, arm: ArmName, pair: int) -> list[float]:
    return [studies.planted(session, arm, pair, rank) for rank in range(session.ranks)]


def test_what_steps_waited_for_samples_is_the_mean_of_ranks(tmp_path: Path) -> None:
    folder = studies.write(tmp_path / "s", studies.plan(), Planted(input_s=0.01, apart=None))
    point = study_reader.read(folder).points[1]
    assert point.arms["native"].input_s == pytest.approx([0.01] * 8)
    # A strategy that can't train without talking records none.
    assert point.arms["native"].apart_s == ()


def test_a_batch_that_build_gives_is_what_ranks_attest(tmp_path: Path) -> None:
    asked = StudyRequest(ranks=(2,), ranks_per_node=4, batch=0, looks=(8,), strategies=("dp",))
    folder = studies.write(tmp_path / "s", studies.plan(asked), Planted(attested={"batch": 6}))
    assert [one.plan.global_batch for one in study_reader.read(folder).points] == [12]


def test_more_ranks_than_cores_are_named(tmp_path: Path) -> None:
    folder = studies.write(tmp_path / "s", studies.plan(), Planted(cores=2))
    said = [one.emulated for one in study_reader.read(folder).points]
    assert said[:2] == ["", ""]
    assert said[2].startswith("emulated: 4 ranks on 2 cores of a node")


def test_the_digest_is_of_the_declaration_and_of_all_sessions(folder: Path) -> None:
    before = study_reader.read(folder).digest
    assert study_reader.read(folder).digest == before
    (folder / "4-dp4.jsonl").unlink()
    assert study_reader.read(folder).digest != before


def test_points_that_are_missing_cut_or_hardly_begun_are_not_complete(folder: Path) -> None:
    declared = studies.plan()
    sessions = {one.file: one for one in study_points.sessions(declared)}
    (folder / "1-dp1.jsonl").unlink()
    (folder / "2-dp2.jsonl").write_bytes(b"")
    cut = folder / "4-dp4.jsonl"
    cut.unlink()
    studies.write_session(cut, declared, sessions[cut.name], Planted(), until=5)
    found = study_reader.read(folder)
    assert [one.complete for one in found.points] == [False, False, False]
    assert [len(one.arms) for one in found.points] == [0, 0, 2]
    # Of five launches two pairs are whole.
    assert {len(one.step_s) for one in found.points[2].arms.values()} == {2}


def refusal(folder: Path) -> BenchDataError:
    with pytest.raises(BenchDataError) as refused:
        study_reader.read(folder)
    return refused.value


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"image_sha256": "cd" * 32}, "the image's SHA-256"),
        ({"site": "other"}, "the site"),
        ({"recipe": "other"}, "the recipe"),
        ({"workload": "transformer"}, "--workload"),
        ({"precision": "bf16"}, "--precision"),
    ],
)
def test_a_session_of_another_study_is_refused(
    changes: dict[str, object], says: str, folder: Path, tmp_path: Path
) -> None:
    other = studies.write(tmp_path / "other", studies.plan(None, **changes))
    shutil.copyfile(other / "2-dp2.jsonl", folder / "2-dp2.jsonl")
    error = refusal(folder)
    assert error.where == str(folder / "2-dp2.jsonl")
    assert says in (error.why or "")


def test_a_session_of_another_point_is_refused(folder: Path) -> None:
    shutil.copyfile(folder / "1-dp1.jsonl", folder / "2-dp2.jsonl")
    assert "ranks: 1 in the file, 2 in study.json" in (refusal(folder).why or "")


@pytest.mark.parametrize(("kept", "put"), [("tp2", "dp2"), ("dp2", "tp2"), ("tp2", "pp2")])
def test_a_session_of_another_strategy_is_refused(kept: str, put: str, tmp_path: Path) -> None:
    asked = StudyRequest(
        ranks=(2,), ranks_per_node=4, batch=16, looks=(8,), strategies=("dp", "tp2", "pp2")
    )
    folder = studies.write(tmp_path / "study", studies.plan(asked))
    shutil.copyfile(folder / f"2-{kept}.jsonl", folder / f"2-{put}.jsonl")
    assert "--parallel" in (refusal(folder).why or "")


def test_ranks_that_never_talk_are_no_point(folder: Path) -> None:
    shutil.copyfile(folder / "2-idle-neighbours.jsonl", folder / "2-dp2.jsonl")
    assert "ranks talk: never in the file, as they train" in (refusal(folder).why or "")


def test_a_session_of_another_batch_is_refused(folder: Path, tmp_path: Path) -> None:
    asked = StudyRequest(ranks=(1, 2, 4), ranks_per_node=4, batch=32, looks=(8,))
    other = studies.write(tmp_path / "other", studies.plan(asked))
    shutil.copyfile(other / "4-dp4.jsonl", folder / "4-dp4.jsonl")
    assert "--batch: 32 in the file, 16" in (refusal(folder).why or "")


def test_a_launch_of_other_ranks_is_refused(folder: Path) -> None:
    """Two launches mixed: every line is chained anew, as if the writer had done it."""
    path = folder / "2-dp2.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    sample = next(line for line in lines if line["kind"] == "sample")
    sample["ranks"][1]["rank"] = 0
    chained(path, lines)
    assert "a launch of 2 ranks in a session of 2" in refusal(folder).what


def test_an_edited_session_is_refused_with_its_line(folder: Path) -> None:
    path = folder / "4-dp4.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[5] = lines[5].replace("0.", "1.", 1)
    path.write_text("".join(lines))
    assert refusal(folder).where == f"{path}:6"


def chained(path: Path, lines: list[dict[str, object]]) -> None:
    text, chain = "", ""
    for line in lines:
        line.pop("chain")
        written, chain = hash_chain.encode(line, chain)
        text += written
    path.write_text(text)


def test_a_declaration_that_was_changed_is_refused(folder: Path) -> None:
    path = folder / "study.json"
    path.write_text(path.read_text().replace('"site":"demo"', '"site":"other"'))
    assert "does not match its hash" in (refusal(folder).why or "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "damaged"),
        ("[]", "its schema is not"),
        ("{", "damaged"),
        ('{"schema": "dlcontainer/scaling-study/2"}', "its schema is not"),
        ("x" * 100, "damaged"),
    ],
)
def test_a_file_that_is_no_declaration_is_refused(text: str, says: str, folder: Path) -> None:
    (folder / "study.json").write_text(text)
    assert says in str(refusal(folder))


def test_a_folder_without_a_declaration_is_no_study(tmp_path: Path) -> None:
    assert "there is no study.json" in refusal(tmp_path).what


@pytest.mark.parametrize("name", ["../2-dp2.jsonl", "2-dp2", "/etc/passwd", "2-DP2.jsonl", ""])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    plan = studies.plan()
    spoilt = replace(plan, points=(*plan.points[:2], replace(plan.points[2], file=name)))
    (tmp_path / "study.json").write_text(study_folder._text(spoilt))
    assert "the names of its sessions" in (refusal(tmp_path).why or "")
