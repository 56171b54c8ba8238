"""`bench scaling` with a real engine: points of one rank and of two, both arms, killed half-way."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.study import study_reader
from tests.integration.test_bench_slownet import launched, words
from tests.integration.world import Built, World
from tests.processes import MARK, left_of, new_mark, poll

pytestmark = [
    pytest.mark.long,  # an image with PyTorch, and some thirty launches of it
    pytest.mark.timeout(5400),
]


def study(built: Built, folder: Path, *more: object) -> list[str]:
    """Give the words of a study of few steps."""
    typed = ["bench", "scaling", "--site", "local", "--image", built.image, "-o", folder]
    return [*map(str, (*typed, "--pairs", 1, "--steps", 5, "--threads", 1, *more))]


def outcomes(user: World, argv: list[str], code: int = 0) -> list[tuple[str, str]]:
    said = json.loads(user.run(*argv, "--json", code=code).stdout)
    return [(one["session"], one["outcome"]) for one in said["results"]]


@pytest.fixture
def patient(launching: World) -> World:
    return replace(launching, patience_s=3600)


def test_points_extras_and_strategies_of_both_arms(
    patient: World, pytorch_image: Built, tmp_path: Path
) -> None:
    more = ("--ranks", "1,2", "--workload", "transformer", "--batch", 4, "--parallel", "dp,tp2,pp2")
    argv = study(pytorch_image, tmp_path / "s", *more)
    titles = ["1-dp1", "2-dp2", "2-tp2", "2-pp2", "2-messages", "2-idle-neighbours"]
    assert outcomes(patient, argv) == [(title, "measured") for title in titles]
    found = study_reader.read(tmp_path / "s")
    assert [one.plan.strategy.name for one in found.points] == ["dp1", "dp2", "tp2", "pp2"]
    for point in found.points:
        assert point.complete
        assert point.emulated == ""
        assert list(point.arms) == ["native", "container"]
        for arm in point.arms.values():
            assert len(arm.step_s) == 1
            # What needs the others' values at every layer can't be timed without them.
            is_copy = point.plan.strategy.dp == point.plan.ranks > 1
            assert [len(ranks) for ranks in arm.apart_s] == ([2] if is_copy else [])
    assert {(one.operation, one.bytes) for one in found.messages} == {
        ("all_reduce", 4096), ("all_reduce", 4194304),
        ("send_recv", 4096), ("send_recv", 4194304),
    }  # fmt: skip
    assert [(one.ranks, one.arm, len(one.step_s)) for one in found.idle_neighbours] == [
        (2, "native", 1), (2, "container", 1),
    ]  # fmt: skip
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.jsonl")}
    assert outcomes(patient, argv) == [(title, "was whole") for title in titles]
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "s").glob("*.jsonl")}


def test_a_point_that_was_killed_goes_on_where_it_was(
    patient: World, pytorch_image: Built, tmp_path: Path
) -> None:
    folder, mark = tmp_path / "s", new_mark()
    argv = study(pytorch_image, folder, "--ranks", "1,2", "--no-extras")
    own = patient.having(**{MARK: mark})
    path = folder / "2-dp2.jsonl"
    with subprocess.Popen([*own.program, *argv], env=dict(own.environ)) as process:
        assert poll(lambda: path.exists() and path.read_text().count('"kind":"sample"') == 3, 900)
        # Of the pair one launch is there: its second will be another.
        os.kill(process.pid, signal.SIGKILL)
    assert left_of(mark) == {}
    assert not study_reader.read(folder).points[1].complete
    first = (folder / "1-dp1.jsonl").read_bytes()
    assert outcomes(patient, argv) == [("1-dp1", "was whole"), ("2-dp2", "measured")]
    assert (folder / "1-dp1.jsonl").read_bytes() == first
    found = study_reader.read(folder)
    assert found.points[1].complete
    assert len(reader.read(path).resumes) == 1


def test_four_hosts_of_a_slow_network(patient: World, pytorch_image: Built, tmp_path: Path) -> None:
    """One allocation of virtual hosts, a rank on each; its nodes are counted."""
    more: tuple[object, ...] = (
        "--ranks",
        "1,2,4",
        "--ranks-per-node",
        1,
        "--one-allocation",
        "--no-extras",
    )
    more = (*more, "--launcher", "dlc-launch {ranks} {ranks_per_node}")
    argv = study(pytorch_image, tmp_path / "s", *more)
    inside = [*words("--hosts", "4"), "--", *patient.program]
    launched(patient, *inside, *argv)
    found = study_reader.read(tmp_path / "s")
    assert [(one.plan.nodes, one.complete) for one in found.points] == [
        (1, True), (2, True), (4, True),
    ]  # fmt: skip
    for one in found.points:
        series = reader.read(found.folder / one.plan.file)
        nodes = {str(rank["node"]) for sample in series.samples for rank in sample.ranks}
        assert len(nodes) == one.plan.nodes
    wide = [word if word != "1,2,4" else "1,2,5" for word in argv]
    done = launched(patient, *inside, *wide, code=2)
    assert "take 5 nodes, and there are 4" in done.stderr
