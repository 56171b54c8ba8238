"""`bench scaling`: the plan comes first, one session that fails stops no other, jobs and nodes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job.submit import JobEnding
from dlcontainer.bench.measure import bench_image
from dlcontainer.bench.study import study_folder
from dlcontainer.cli import main, options
from dlcontainer.cli.bench import scaling_run, sessions
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from tests.unit.cli.bench.test_defaults import IMAGE

ANSWERS: dict[str, Callable[[], None]] = {}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[SessionOptions]:
    """Settle and run nothing; what would have been measured."""
    found: list[SessionOptions] = []

    def settled(_probe: Any, typed: SessionOptions, *_: object) -> SessionOptions:
        path = typed.target or typed.resume
        ANSWERS.get(path.name if path else "", lambda: None)()
        found.append(typed)
        return typed

    monkeypatch.setattr(options, "image_file", lambda path: path)
    monkeypatch.setattr(bench_image, "read", lambda *_: IMAGE)
    monkeypatch.setattr(sessions, "settled", settled)
    monkeypatch.setattr(sessions, "run", lambda *_: None)
    for name in ("SLURM_JOB_ID", "DLC_HOSTS", "DLC_HOSTS_JOB"):
        monkeypatch.delenv(name, raising=False)
    ANSWERS.clear()
    return found


def answer(file: str, error: Exception) -> None:
    def fail() -> None:
        raise error

    ANSWERS[file] = fail


def run(folder: Path, *more: str, site: str = "local") -> int:
    words = ["bench", "scaling", "--site", site, "--image", "x.sif", "-o", str(folder), *more]
    return main._run(words, as_json="--json" in more)


def test_each_point_is_measured_as_bench_train_would(
    measured: list[SessionOptions], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    more = ("--ranks", "1,2,4", "--looks", "8,16", "--margin", "3%", "--steps", "7")
    assert run(folder, *more, "--no-extras", "--threads", "1") == 0
    assert [one.target for one in measured] == [
        folder / f"{name}.jsonl" for name in ("1-dp1", "2-dp2", "4-dp4")
    ]
    assert [(one.ranks, one.nodes, one.per_node) for one in measured] == [
        (1, 1, 1), (2, 1, 2), (4, 1, 4),
    ]  # fmt: skip
    assert [(one.pairs, one.looks) for one in measured] == [(8, None), (8, None), (None, "8,16")]
    # Controls and the margin are for the point whose arms are judged.
    assert [(one.controls, one.margin) for one in measured] == [
        ("0", None), ("0", None), (None, "3%"),
    ]  # fmt: skip
    assert {(one.values["steps"], one.values["batch"], one.threads) for one in measured} == {
        (7, 16, 1)
    }
    assert study_folder.read(folder).options["steps"] == 7


def test_the_plan_comes_first_and_a_dry_run_writes_nothing(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ("--ranks", "1,2,32", "--dry-run")
    assert run(tmp_path / "s", *more, site="example-slurm") == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].split() == ["point", "ranks", "nodes", "pairs", "min", "core-h"]
    assert "32-dp32" in said
    assert "Assumed: 30 s a launch" in said
    assert (measured, (tmp_path / "s").exists()) == ([], False)
    strategies = ("--workload", "transformer", "--parallel", "dp,tp4")
    assert run(tmp_path / "s", *more, *strategies, site="example-slurm") == 0
    assert "left out: tp4 at 2 ranks" in capsys.readouterr().err


def test_the_plan_as_json(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "s", "--ranks", "1,2,4096", "--dry-run", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "dlcontainer/bench-scaling-plan/1"
    assert (said["hours_of"], said["assumed_launch_s"]) == ("core", 30.0)
    assert said["most_minutes"] > said["least_minutes"] > 0
    assert said["sessions"][0]["session"] == "1-dp1"
    assert [text.partition(" on ")[0] for text in said["emulated"]] == [
        "4096-dp4096: emulated: 4096 ranks", "4096-idle-neighbours: emulated: 4096 ranks",
    ]  # fmt: skip
    assert measured == []


def test_what_an_image_has_nothing_for_is_left_out_of_the_extras(
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = replace(IMAGE, modules=("tensorflow",))
    monkeypatch.setattr(bench_image, "read", lambda *_: other)
    assert run(tmp_path / "s", "--ranks", "1,2") == 0
    said = capsys.readouterr().err
    assert "left out: collectives at 2 ranks: no module of" in said
    assert {one.target.name for one in measured if one.target} >= {"1-dp1.jsonl", "2-dp2.jsonl"}
    assert "2-collectives.jsonl" not in {
        one.file for one in study_folder.read(tmp_path / "s").extras
    }


@pytest.mark.parametrize("error", [BenchDataError("a launch failed"), BenchDataError("x", why="y")])
def test_one_that_fails_stops_no_other(
    error: Exception,
    measured: list[SessionOptions],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer("1-dp1.jsonl", error)
    assert run(tmp_path / "s", "--ranks", "1,2", "--no-extras") == 1
    assert len(measured) == 1
    said = capsys.readouterr().err
    assert "1 of 2 sessions failed" in said
    assert "complete sessions are kept" in said


def test_ctrl_c_ends_the_study(measured: list[SessionOptions], tmp_path: Path) -> None:
    answer("1-dp1.jsonl", InterruptedByUserError("ended"))
    assert run(tmp_path / "s", "--ranks", "1,2") == 130
    assert measured == []
    # The folder is free again, and the declaration is there.
    ANSWERS.clear()
    assert run(tmp_path / "s", "--ranks", "1,2") == 0


@pytest.mark.parametrize(
    ("state", "outcome", "asides"),
    [("whole", "was whole", 0), ("cut", "measured", 0), ("again", "measured", 1)],
)
def test_a_study_that_is_given_again(
    state: str,
    outcome: str,
    asides: int,
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "s"
    assert run(folder, "--ranks", "2", "--no-extras") == 0
    measured.clear()
    capsys.readouterr()
    (folder / "2-dp2.jsonl").touch()
    monkeypatch.setattr(study_folder, "state", lambda *_: state)
    assert run(folder, "--ranks", "2", "--no-extras", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["outcome"] for one in said["results"]] == [outcome]
    assert len(list(folder.glob("*.begun-*"))) == asides
    assert len(measured) == (state != "whole")
    for typed in measured:
        goes_on = state == "cut"
        assert (typed.resume is not None, typed.target is None) == (goes_on, goes_on)
        # What a session was declared with it has already.
        assert ((typed.looks, typed.pairs) == (None, None)) == goes_on


@pytest.mark.parametrize(
    "other", [("--ranks", "2,4"), ("--batch", "3"), ("--steps", "9"), ("--threads", "2")]
)
def test_another_study_in_the_same_folder_is_refused(
    other: tuple[str, str],
    measured: list[SessionOptions],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = {"--ranks": "2"}
    assert run(tmp_path / "s", "--ranks", "2") == 0
    before = len(measured)
    words |= dict([other])
    assert run(tmp_path / "s", *(word for pair in words.items() for word in pair)) == 7
    assert "this folder holds another study" in capsys.readouterr().err
    assert len(measured) == before


def test_a_folder_that_another_run_holds_is_refused(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with study_folder.held(tmp_path / "s"):
        assert run(tmp_path / "s", "--ranks", "2") == 7
    assert "another process is measuring this study" in capsys.readouterr().err
    assert measured == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--ranks", "2,1"), "each number must be greater"),
        (("--ranks", "1,2", "--parallel", "tp3"), "can't be divided by 3"),
        (("--ranks", "1,2", "--scaling", "strong"), "needs the samples of a step"),
        (("--ranks", "1,3", "--scaling", "strong", "--batch", "8"), "8 samples can't be divided"),
        (("--ranks", "1,2", "--workload", "nix"), "unknown network"),
        (("--ranks", "1,2", "--pairs", "0"), "--pairs 0: must be at least 1"),
        (("--ranks", "1,2", "--looks", "3"), "--looks 3"),
        (("--ranks", "1,2", "--one-allocation"), "--one-allocation: not in a batch job"),
        (
            ("--ranks", "1,6", "--ranks-per-node", "2"),
            "6 ranks at 2 a node take 3 nodes, and there is 1",
        ),
    ],
)
def test_what_is_refused_before_anything_is_written(
    more: tuple[str, ...],
    says: str,
    measured: list[SessionOptions],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(tmp_path / "s", *more) == 2
    assert says in capsys.readouterr().err
    assert (measured, (tmp_path / "s").exists()) == ([], False)


def test_more_ranks_than_the_allocation_are_refused_with_both_numbers(
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DLC_HOSTS_JOB", "x")
    monkeypatch.setenv("DLC_HOSTS", "n1 n2 n3")
    more = ("--ranks-per-node", "1", "--no-extras")
    assert run(tmp_path / "s", "--ranks", "1,3", *more) == 0
    assert run(tmp_path / "t", "--ranks", "1,4", *more) == 2
    assert "take 4 nodes, and there are 3" in capsys.readouterr().err
    assert len(measured) == 2


def test_inside_a_job_a_study_of_jobs_is_refused(
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    # A shell is asked for it, which is started in tests of the real Slurm.
    monkeypatch.setattr(scaling_run, "_nodes", lambda *_: 2)
    assert run(tmp_path / "s", "--ranks", "1,2", site="example-slurm") == 2
    assert "add --one-allocation to measure in this allocation" in capsys.readouterr().err
    assert run(tmp_path / "s", "--ranks", "1,4", "--one-allocation", site="example-slurm") == 2
    assert "and there are 2" in capsys.readouterr().err
    assert measured == []


class Submitted:
    """Submits nothing: says what a job would have run, and how it ended."""

    def __init__(self, state: str) -> None:
        self.state, self.scripts = state, list[str]()

    def run(self, frame: Path, log: Path) -> JobEnding:
        self.scripts.append(frame.read_text())
        log.write_text("a\nImportError: no torch\n")
        good = self.state == "COMPLETED"
        return JobEnding(job="7", submitted=0.0, state=self.state, cause="none" if good else "job")


def test_a_job_asks_for_its_points_nodes_and_a_failed_one_names_its_log(
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    submitted = Submitted("FAILED")
    run_type = scaling_run._StudyRun
    monkeypatch.setattr(run_type, "_queue", lambda _self: submitted)
    monkeypatch.setattr(run_type, "_prepare", lambda _self: None)
    folder = tmp_path / "s"
    more = ("--ranks", "1,8", "--ranks-per-node", "4", "--no-extras", "--time", "0:30:00")
    assert run(folder, *more, "--recipe", "pytorch", site="example-slurm") == 1
    said = capsys.readouterr().err
    assert "the job of 1-dp1 ended as FAILED" in said
    assert "ImportError: no torch" in said
    assert str(folder / "1-dp1.log") in said
    first, last = submitted.scripts
    assert (folder / "8-dp8.sh").read_text() == last
    for script, nodes in ((first, 1), (last, 2)):
        assert f"#SBATCH --nodes={nodes}" in script
        assert "0:30:00" in script or "00:30:00" in script
        assert "bench train --site example-slurm" in script
    assert f"--output {folder / '8-dp8.jsonl'}" in last
    assert "--ranks 8 --ranks-per-node 4 --nodes 2" in last
    # The job's own command submits nothing.
    assert "scaling" not in last.partition("bench train")[2].replace(str(folder), "")
    assert measured == []
