"""`bench job` at sites of LSF and PBS, which nobody can install: their programs are fakes.

The fakes run each job as a process of this host; what they print is written after the products'
documentation (dlcontainer/schedulers/lsf.py, pbs.py). Slurm and Grid Engine are real.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration import fakequeue
from tests.integration.fakequeue import FakeQueue
from tests.integration.slurm.test_bench_job import argv, command, read
from tests.integration.world import World
from tests.processes import poll

__all__ = ["argv"]

SITE = """\
schema: 1
name: local
summary: a machine with the programs of another scheduler, for tests
facts: host
default_recipe: tiny
scheduler: {{kind: {kind}}}
"""


@pytest.fixture(params=["lsf", "pbs"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def submitting(world: World, wheels: Path, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user whose PATH has the fake programs, and whose jobs find the engine."""
    path = f"{tmp_path}/queue/bin:{engine.program.parent}:{world.environ['PATH']}"
    own = world.having(PIP_FIND_LINKS=wheels, FAKE_QUEUE=tmp_path / "queue")
    return own.having(PATH=path, APPTAINER_USERNS="1")


@pytest.fixture
def queue(kind: str, submitting: World, tmp_path: Path) -> Iterator[FakeQueue]:
    with fakequeue.serving(kind, tmp_path / "queue", submitting.environ) as serving:
        yield serving


@pytest.fixture
def words(kind: str, argv: list[str], tmp_path: Path) -> list[str]:
    (tmp_path / "lab.yaml").write_text(SITE.format(kind=kind))
    return [*argv, "--site", str(tmp_path / "lab.yaml"), "--pairs", "1"]


def test_a_lost_job_is_measured_again(
    submitting: World, queue: FakeQueue, words: list[str], kind: str, tmp_path: Path
) -> None:
    queue.ends[1] = "lost"
    where = ["--time", "0:05:00", "--account", "me"]
    said = submitting.run(*words, *where, *command("print('step 1')"), cwd=tmp_path).stderr
    assert "a job was lost, measuring its pair again" in said
    job = read(tmp_path)
    assert job.end is not None
    assert job.end.complete
    assert [(one.lost, one.error is None) for one in job.launches] == [
        (True, False), (False, True), (False, True), (False, True), (False, True),
    ]  # fmt: skip
    assert {one.state for one in job.launches[1:]} == {
        {"lsf": "DONE", "pbs": "Exit_status 0"}[kind]
    }
    heads = {"lsf": ["#BSUB -P me", "#BSUB -W 0:05"],
             "pbs": ["#PBS -A me", "#PBS -l walltime=00:05:00"]}  # fmt: skip
    for script in queue.scripts():
        lines = script.splitlines()
        assert lines[0] == "#!/bin/bash"
        assert set(heads[kind]) < set(lines)


@pytest.mark.parametrize(
    ("end", "options", "says"),
    [
        ("limit", [], "ask for more with --time"),
        ("", ["--partition", "refused-queue"], "refused-queue: No such queue"),
        ("", [], "rank 0 ended with exit code 3"),
    ],
    ids=["limit", "refused", "fails"],
)
def test_a_job_that_fails_is_named(
    submitting: World, queue: FakeQueue, words: list[str], tmp_path: Path,
    end: str, options: list[str], says: str,
) -> None:  # fmt: skip
    if end:
        queue.ends[1] = end
    said = submitting.run(
        *words, *options, *command("raise SystemExit(3)"), cwd=tmp_path, code=7
    ).stderr
    assert says in said
    assert len(queue.scripts()) == (0 if options else 1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_job(
    submitting: World, queue: FakeQueue, words: list[str], tmp_path: Path, number: int
) -> None:
    process = subprocess.Popen(
        [*submitting.program, *words, "--", "sleep", "600"], env=dict(submitting.environ),
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert poll(lambda: bool(queue.running), 60)
        os.kill(process.pid, number)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert (tmp_path / "queue" / "1.kill").exists()
    assert [one.poll() for one in queue.running.values()] == [-signal.SIGKILL]
