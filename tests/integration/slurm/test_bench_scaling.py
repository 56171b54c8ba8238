"""`bench scaling` by jobs of the real Slurm: a job of its own size for each point."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from dlcontainer.bench.study import study_reader
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.world import Built, World
from tests.processes import MARK, left_of, new_mark, poll

pytestmark = [
    pytest.mark.long,  # an image with PyTorch, and some twelve launches of it
    pytest.mark.timeout(2400),
]


@pytest.fixture
def submitting(user: World, world: World, engine: Apptainer) -> World:
    """Give a user of the cluster whose jobs find the engine, with all wheels that there are."""
    path = f"{engine.program.parent}:{user.environ['PATH']}"
    wheels = world.environ.get("PIP_FIND_LINKS", "")
    own = user.having(PATH=path, APPTAINER_USERNS="1", PIP_FIND_LINKS=wheels)
    return replace(own, patience_s=1800)


@pytest.fixture
def argv(pytorch_image: Built, site: Path, tmp_path: Path) -> list[str]:
    """Give a study of one rank and of two, a rank a node."""
    words = ["bench", "scaling", "--site", site, "--image", pytorch_image.image, "--ranks", "1,2"]
    words += ["--recipe", "pytorch", "--pairs", "1", "--steps", "5", "--threads", "1"]
    return [*map(str, words), "--ranks-per-node", "1", "--no-extras", "-o", str(tmp_path / "s")]


def outcomes(user: World, argv: list[str], code: int = 0) -> list[tuple[str, str]]:
    said = json.loads(user.run(*argv, "--json", code=code).stdout)
    return [(one["session"], one["outcome"]) for one in said["results"]]


def test_a_point_is_a_job_of_its_own_size(
    submitting: World, cluster: Cluster, argv: list[str], tmp_path: Path
) -> None:
    assert outcomes(submitting, argv) == [("1-dp1", "measured"), ("2-dp2", "measured")]
    assert cluster.jobs() == []
    study = study_reader.read(tmp_path / "s")
    assert [(one.plan.ranks, one.plan.nodes, one.complete) for one in study.points] == [
        (1, 1, True), (2, 2, True),
    ]  # fmt: skip
    jobs, nodes = set(), []
    for point in study.points:
        series = reader.read(study.folder / point.plan.file)
        jobs.add(series.session.machine["allocation"])
        nodes.append({str(rank["node"]) for rank in series.samples[0].ranks})
        assert list(point.arms) == ["native", "container"]
    # Two jobs, and none that is larger than its point.
    assert len(jobs) == 2
    assert list(map(len, nodes)) == [1, 2]
    before = (tmp_path / "s/2-dp2.jsonl").read_bytes()
    assert outcomes(submitting, argv) == [("1-dp1", "was whole"), ("2-dp2", "was whole")]
    assert (tmp_path / "s/2-dp2.jsonl").read_bytes() == before


def test_a_job_that_is_killed_is_named_with_its_log_and_measured_again(
    submitting: World, cluster: Cluster, argv: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "s"
    words = [*submitting.program, *argv, "--json"]
    with subprocess.Popen(
        words, env=dict(submitting.environ), stdout=subprocess.PIPE, text=True
    ) as process:
        path = folder / "1-dp1.jsonl"
        assert poll(lambda: path.exists() and b'"sample"' in path.read_bytes(), 300)
        cluster.run("scancel", *cluster.jobs())
        said = json.loads(process.communicate(timeout=900)[0])
    first, second = said["results"]
    assert process.returncode == 1
    assert (first["outcome"], second["outcome"]) == ("failed", "measured")
    assert "ended as CANCELLED" in first["why"]
    assert str(folder / "1-dp1.log") in first["why"]
    # Where that job's nodes are nobody knows: nothing of its session goes on elsewhere.
    assert outcomes(submitting, argv) == [("1-dp1", "measured"), ("2-dp2", "was whole")]
    assert (folder / "1-dp1.jsonl.begun-1").exists()
    assert all(point.complete for point in study_reader.read(folder).points)


def test_ctrl_c_leaves_no_job(
    submitting: World, cluster: Cluster, argv: list[str], tmp_path: Path
) -> None:
    mark = new_mark()
    own = submitting.having(**{MARK: mark})
    process = subprocess.Popen(
        [*own.program, *argv],
        env=dict(own.environ),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert poll(lambda: bool(cluster.jobs()), 120)
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=120)[1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert cluster.jobs() == []
    assert left_of(mark) == {}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--partition", "none"], "invalid partition"),
        (["--one-allocation"], "--one-allocation: not in a batch job"),
    ],
)
def test_what_slurm_or_the_place_refuses(
    submitting: World, cluster: Cluster, argv: list[str], more: list[str], says: str
) -> None:
    done = submitting.run(*argv, *more, code=None)
    assert done.returncode in {1, 2}
    assert says in done.stderr
    assert cluster.jobs() == []


def test_one_allocation(
    submitting: World, cluster: Cluster, argv: list[str], tmp_path: Path
) -> None:
    inside = cluster.allocated(submitting, "--nodes=2", "--ntasks-per-node=1")
    done = inside.run(*argv, code=2)
    assert "each point would be a job of its own" in done.stderr
    wide = [word if word != "1,2" else "1,2,3" for word in argv]
    done = inside.run(*wide, "--one-allocation", code=2)
    assert "3 ranks at 1 a node take 3 nodes, and there are 2" in done.stderr
    assert not (tmp_path / "s").exists()
    assert outcomes(inside, [*argv, "--one-allocation"]) == [
        ("1-dp1", "measured"), ("2-dp2", "measured"),
    ]  # fmt: skip
