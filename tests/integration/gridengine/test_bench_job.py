"""`bench job`: a command as jobs of the real Grid Engine, of one host."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from dlcontainer.bench.job import job_analysis, job_file
from dlcontainer.engines.apptainer import Apptainer
from tests.integration.gridengine.cell import Cell
from tests.integration.gridengine.conftest import write_site
from tests.integration.slurm.test_bench_job import PLANTED_S, argv, command, read
from tests.integration.world import World
from tests.processes import MARK, left_of, new_mark, poll

__all__ = ["argv"]
# All of them: set-up does not install Grid Engine (a mail server comes with it), so CI would fail.
# ../test_bench_job_queues.py goes the same road with queues that are programs of the tests.
pytestmark = pytest.mark.long


@pytest.fixture
def submitting(world: World, wheels: Path, cell: Cell, engine: Apptainer) -> World:
    """Give a user of the cell whose jobs find the engine."""
    path = f"{engine.program.parent}:{world.environ['PATH']}"
    own = world.having(PIP_FIND_LINKS=wheels, **cell.variables)
    return own.having(PATH=path, APPTAINER_USERNS="1")


def started(submitting: World, words: list[str], folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*submitting.program, *words], env=dict(submitting.environ), cwd=folder,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_pair_of_jobs(
    submitting: World, cell: Cell, site: Path, argv: list[str], tmp_path: Path
) -> None:
    """As with Slurm; the accounting is written every 15 s, so that four jobs take a minute."""
    where = ["--site", str(site), "--time", "0:05:00", "--pairs", "1"]
    submitting.run(*argv, *where, *command(), cwd=tmp_path)
    job = read(tmp_path)
    assert job.end is not None
    assert job.end.complete
    assert [(one.pair, one.error, one.state) for one in job.launches] == [
        (number, None, "exit_status 0") for number in (0, 0, 1, 1)
    ]
    assert len({one.job for one in job.launches}) == 4
    found = job_analysis.read(job)
    assert found.judged is not None
    assert PLANTED_S - 0.5 < found.judged.added < PLANTED_S + 2.5
    assert cell.jobs() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_job(
    submitting: World, cell: Cell, site: Path, argv: list[str], tmp_path: Path, number: int
) -> None:
    mark = new_mark()
    words = [*argv, "--site", str(site), "--", "sleep", "600"]
    process = started(submitting.having(**{MARK: mark}), words, tmp_path)
    try:
        assert poll(lambda: bool(cell.shepherds()), 60)
        os.kill(process.pid, number)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode == 130, said
    assert cell.jobs() == []
    assert left_of(mark) == {}
    job = read(tmp_path)
    assert job.end is not None
    assert not job.end.complete


@pytest.mark.parametrize(
    ("options", "directives", "program", "says"),
    [
        (["--partition", "none.q"], [], "pass", 'unknown queue "none.q"'),
        ([], ["#$ -wd /nonexistent"], "pass", "in state Eqw"),
        # These codes make Grid Engine run a job again, and hold it.
        ([], [], "raise SystemExit(99)", "rank 0 ended with exit code 99"),
        ([], [], "raise SystemExit(100)", "ended with exit code 100"),
    ],
    ids=["refused", "stuck", "again", "held"],
)
def test_a_job_that_fails_is_named(
    submitting: World, cell: Cell, argv: list[str], tmp_path: Path,
    options: list[str], directives: list[str], program: str, says: str,
) -> None:  # fmt: skip
    site = write_site(tmp_path, *directives)
    words = [*argv, "--site", str(site), *options, *command(program)]
    said = submitting.run(*words, cwd=tmp_path, code=7).stderr
    assert says in said
    assert ("can't chdir to /nonexistent" in said) == bool(directives)
    assert cell.jobs() == []


def test_a_job_past_its_limit_is_named(
    submitting: World, cell: Cell, site: Path, argv: list[str], tmp_path: Path
) -> None:
    words = [*argv, "--site", str(site), "--time", "0:01:00", "--", "sleep", "600"]
    said = submitting.run(*words, cwd=tmp_path, code=7).stderr
    assert "failed 37: qmaster enforced h_rt" in said
    assert "ask for more with --time" in said
    assert cell.jobs() == []


def test_a_job_whose_node_lost_it_is_measured_again(
    submitting: World, cell: Cell, site: Path, argv: list[str], tmp_path: Path
) -> None:
    """The process that watches over a job is killed, as on a node that crashes."""
    words = [*argv, "--site", str(site), "--pairs", "1", "--", "sleep", "3"]
    process = started(submitting, words, tmp_path)
    try:
        assert poll(lambda: bool(cell.shepherds()), 60)
        os.kill(cell.shepherds()[0], signal.SIGKILL)
        said = process.communicate(timeout=300)[1]
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "a job was lost, measuring its pair again" in said
    job = job_file.read(tmp_path / "j.jsonl")
    assert [one.lost for one in job.launches] == [True, False, False, False, False]
    assert "before writing exit_status" in job.launches[0].state
    assert cell.jobs() == []
