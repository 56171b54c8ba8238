"""`bench job`: a command as jobs of the real Slurm, and directly on this node."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.job import job_analysis, job_file
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench import environment_with
from tests.integration.world import Built, World
from tests.processes import MARK, left_of, new_mark, poll

PLANTED_S = 2.0
# The container's ranks reach their first step so much later; then three steps.
PROGRAM = f"""\
import os, time
if os.path.exists("/.singularity.d"):
    time.sleep({PLANTED_S})
for step in range(3):
    print("step", step)
    time.sleep(0.05)
"""


@pytest.fixture
def submitting(user: World, engine: Apptainer) -> World:
    """Give a user of the cluster whose jobs find the engine."""
    path = f"{engine.program.parent}:{user.environ['PATH']}"
    # The script says `apptainer exec`: root of a container may have no more than a user.
    return user.having(PATH=path, APPTAINER_USERNS="1")


@pytest.fixture
def argv(tiny_image: Built, tiny: Path, tmp_path: Path) -> list[str]:
    native = environment_with(tmp_path / "native")
    words = ["bench", "job", "--image", tiny_image.image, "--recipe", tiny, "--native", native]
    return [*map(str, words), "-o", str(tmp_path / "j.jsonl")]


def command(text: str = PROGRAM) -> list[str]:
    return ["--first-step", r"^step \d", "--", "python", "-c", text]


def read(folder: Path) -> JobSession:
    return job_file.read(folder / "j.jsonl")


def measured(job: JobSession) -> float:
    """Give the seconds that the container's start takes longer, of a pair that is whole."""
    assert job.end is not None
    assert job.end.complete
    assert [(one.pair, one.error, one.state) for one in job.launches] == [
        (0, None, "COMPLETED"), (0, None, "COMPLETED"),
        (1, None, "COMPLETED"), (1, None, "COMPLETED"),
    ]  # fmt: skip
    for one in job.launches:
        assert one.nodes == ("n1", "n2")
        assert [(rank.rank, rank.matches, rank.code) for rank in one.ranks] == [
            (number, 3, 0) for number in range(4)
        ]
        assert one.times is not None
        # Four nodes of one boot: their clock is one.
        assert (one.times.clock_bound_s, one.times.clock_moved_s) == (0, 0)
        # Never shorter than its sleep; a busy machine wakes it late.
        assert one.times.step_s is not None
        assert one.times.step_s >= 0.045
    found = job_analysis.read(job)
    assert found.judged is not None
    assert found.word == "INCONCLUSIVE"  # one pair
    return found.judged.added


def test_a_pair_of_jobs_on_two_nodes(
    submitting: World, cluster: Cluster, site: Path, argv: list[str], tmp_path: Path
) -> None:
    where = ["--site", str(site), "--nodes", "2", "--tasks-per-node", "2", "--time", "5"]
    near = []
    for _ in range(3):  # other work on the machine may delay one side's start
        (tmp_path / "j.jsonl").unlink(missing_ok=True)
        submitting.run(*argv, *where, "--pairs", "1", *command(), cwd=tmp_path)
        near.append(measured(read(tmp_path)))
        if PLANTED_S - 0.5 < near[-1] < PLANTED_S + 2.5:
            break
    assert PLANTED_S - 0.5 < near[-1] < PLANTED_S + 2.5, near
    said = submitting.run("report", tmp_path / "j.jsonl").stdout
    assert "start-up on 2 nodes" in said
    assert cluster.jobs() == []
    assert not list(tmp_path.glob("slurm-*.out"))


def test_ctrl_c_leaves_no_job(
    submitting: World, cluster: Cluster, site: Path, argv: list[str], tmp_path: Path
) -> None:
    mark = new_mark()
    own = submitting.having(**{MARK: mark})
    process = subprocess.Popen(
        [*own.program, *argv, "--site", str(site), "--", "sleep", "600"],
        env=dict(own.environ), cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert poll(lambda: bool(cluster.steps()), 60)
        os.kill(process.pid, signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert cluster.jobs() == []
    assert left_of(mark) == {}
    job = read(tmp_path)
    assert job.end is not None
    assert job.end.reason == "interrupted by the user"


@pytest.mark.parametrize(
    ("options", "program", "says"),
    [
        (["--partition", "none"], "pass", "invalid partition"),
        pytest.param(
            [], "raise SystemExit(3)", "rank 0 ended with exit code 3", marks=pytest.mark.long
        ),
        pytest.param(
            [], "print('other')", "no line of any rank matches --first-step", marks=pytest.mark.long
        ),
    ],
    ids=["refused", "fails", "no-match"],
)
def test_a_job_that_fails_is_named(
    submitting: World, cluster: Cluster, site: Path, argv: list[str], tmp_path: Path,
    options: list[str], program: str, says: str,
) -> None:  # fmt: skip
    words = [*argv, "--site", str(site), *options, *command(program)]
    said = submitting.run(*words, cwd=tmp_path, code=7).stderr
    assert says in said
    assert cluster.jobs() == []


@pytest.mark.long
def test_a_job_past_its_limit_is_named(
    submitting: World, cluster: Cluster, site: Path, argv: list[str], tmp_path: Path
) -> None:
    """Slurm looks at limits once a minute or so."""
    words = [*argv, "--site", str(site), "--time", "1", "--", "sleep", "600"]
    said = submitting.run(*words, cwd=tmp_path, code=7).stderr
    assert "the job ended as TIMEOUT" in said
    assert cluster.jobs() == []


@pytest.mark.long
def test_a_planted_start_is_found_in_seconds(
    submitting: World, argv: list[str], tmp_path: Path
) -> None:
    """Two seconds in the container's start alone: SLOWER, and two seconds are in the interval."""
    submitting.run(*argv, "--site", "local", "--time", "5", *command(), cwd=tmp_path)
    found = job_analysis.read(read(tmp_path))
    assert found.word == "SLOWER", found
    assert found.judged is not None
    assert found.judged.low < PLANTED_S + 1
    assert found.judged.high > PLANTED_S
    # The rest is the engine's own start, which ends where the command's process begins.
    after = found.judged.added - found.figures["process_s"].added
    assert after == pytest.approx(PLANTED_S, abs=0.5)
    steady = found.figures["steady_s"]
    assert steady.low < 0.3
    assert steady.high > -0.3
