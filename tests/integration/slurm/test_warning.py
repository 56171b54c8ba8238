"""A job hears of its end: its ranks in the image write a checkpoint, and go on from it later."""

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.conftest import SITE
from tests.integration.world import Built, World
from tests.processes import MARK, files_below, left_of, marked, new_mark, poll

SCHEDULER = """\
scheduler:
  kind: slurm
  launcher: [srun]
  directives: ["#SBATCH -N 2", "#SBATCH --ntasks-per-node=2", "#SBATCH -o log"]
  forms:
    two:
      summary: two ranks a node
      launcher: [srun, "-N{nodes}", "-n{ranks}", "--ntasks-per-node={ranks_per_node}"]
      ranks_per_node: 2
jobs:
  warning: {signal: USR1, seconds: 300}
  requeue: true
"""
# Counts steps until it is told; the next time it takes three more and ends.
TRAIN = """\
import os, pathlib, signal, sys, time
rank, here = os.environ["SLURM_PROCID"], pathlib.Path(os.environ["STEPS"])
checkpoint, told = here / (rank + ".checkpoint"), []
signal.signal(signal.SIGUSR1, lambda number, frame: told.append(number))
first = int(checkpoint.read_text()) if checkpoint.exists() else 0
step = first
(here / (rank + ".ready")).touch()
while not told and (not first or step < first + 3):
    time.sleep(0.05)
    step += 1
# Apptainer hands on what all processes of a step got: a second one may come as Python ends.
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
# Of the image: what is mounted must still be there.
import dlctiny
checkpoint.write_text(str(step))
os.write(1, ("rank %s: %d to %d, %s\\n" % (rank, first, step, dlctiny.ANSWER)).encode())
sys.exit(int(os.environ.get("ENDS", "0")))
"""
_LINE = re.compile(r"^rank (\d): (\d+) to (\d+), 42$", re.MULTILINE)
RANKS = 4


@pytest.fixture
def script(user: World, tiny: Path, tmp_path: Path) -> Path:
    """Render the job of a site that warns its jobs and lets them begin again."""
    site = tmp_path / "lab.yaml"
    site.write_text(SITE.partition("scheduler:")[0] + SCHEDULER)
    argv = ("render", tiny, "--site", site, "--format", "job")
    text = user.run(*argv, "--set", "site.jobs.warning.seconds=60").stdout
    assert "#SBATCH --signal=B:USR1@60\n" in text
    (tmp_path / "job.sh").write_text(text)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path / "job.sh"


@pytest.fixture
def submit(
    user: World, cluster: Cluster, tiny_image: Built, engine: Apptainer, tmp_path: Path
) -> Iterator[World]:
    """Give a user whose `run` submits a script, and prints the job's number."""
    own = user.having(
        PATH=f"{engine.program.parent}:{user.environ['PATH']}",
        DLCONTAINER_IMAGE=tiny_image.image,
        APPTAINER_USERNS="1",
        STEPS=tmp_path,
    )
    yield World(environ=own.environ, folder=tmp_path, program=("sbatch", "--parsable"))
    # A job that a test gave up would hold the nodes of the next.
    for job in cluster.jobs():
        cluster.run("scancel", "--quiet", job)


def shown(cluster: Cluster, job: str, key: str) -> str:
    said = cluster.run("scontrol", "--oneliner", "show", "job", job).stdout
    return said.partition(f"{key}=")[2].partition(" ")[0]


def said_of(cluster: Cluster, job: str, folder: Path) -> str:
    """Give what the job and Slurm said: for a wait that was in vain."""
    return f"{(folder / 'log').read_text()}\n{cluster.state_of(job)}"


def trained(folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Read what each rank said, in order."""
    said: dict[str, list[tuple[int, int]]] = {}
    for rank, first, last in _LINE.findall((folder / "log").read_text()):
        said.setdefault(rank, []).append((int(first), int(last)))
    return said


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def ignores(pid: int, numbers: set[signal.Signals]) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
    return all(mask >> (number - 1) & 1 for number in numbers)


def start(submit: World, script: Path, *options: str) -> str:
    folder = script.parent
    program = ("/opt/tiny/bin/python", folder / "train.py")
    job = submit.run(*options, script, *program).stdout.strip()
    assert poll(lambda: len(files_below(folder, ".ready")) == RANKS, 180), folder.joinpath("log")
    return job


def test_a_training_goes_on_from_its_checkpoint(
    submit: World, script: Path, cluster: Cluster, tmp_path: Path
) -> None:
    job = start(submit.having(DLCONTAINER_REQUEUE="1"), script, "--time=3")
    # Slurm's own clock tells it, not before a minute is left.
    assert poll(lambda: shown(cluster, job, "Restarts") == "1", 300), said_of(
        cluster, job, tmp_path
    )
    assert poll(lambda: shown(cluster, job, "JobState") == "PENDING", 60)
    # Its second part is short, but a slow machine's must not be told before it ends.
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now", "TimeLimit=30")
    assert poll(lambda: shown(cluster, job, "JobState") == "COMPLETED", 300), said_of(
        cluster, job, tmp_path
    )
    log, said = (tmp_path / "log").read_text(), trained(tmp_path)
    assert log.count("job: USR1: the time limit is near, the ranks are told\n") == 1
    assert log.count("job: the ranks were told and ended well: the job is requeued\n") == 1
    assert sorted(said) == ["0", "1", "2", "3"]
    for (first, told), (again, last) in said.values():
        assert first == 0
        assert (again, last) == (told, told + 3)


@pytest.mark.parametrize("keep", ["", "0"], ids=["one-mount", "own-mounts"])
@pytest.mark.parametrize("ends", [0, 3])
def test_the_ranks_are_told_and_the_job_keeps_their_exit_code(
    submit: World, script: Path, cluster: Cluster, tmp_path: Path, keep: str, ends: int
) -> None:
    mark = new_mark()
    job = start(submit.having(DLCONTAINER_KEEP=keep, ENDS=str(ends), **{MARK: mark}), script)
    if not keep:  # a Slurm that signals all processes of a step would else end it
        mounts = [pid for pid in marked(mark) if command(pid) == "squashfuse_ll"]
        assert mounts
        assert all(ignores(pid, {signal.SIGUSR1, signal.SIGUSR2}) for pid in mounts)
    cluster.run("scancel", "--batch", "--signal=USR1", job)
    state = "COMPLETED" if ends == 0 else "FAILED"
    assert poll(lambda: shown(cluster, job, "JobState") == state, 120), shown(
        cluster, job, "JobState"
    )
    assert shown(cluster, job, "ExitCode") == f"{ends}:0"
    assert shown(cluster, job, "Restarts") == "0"
    assert len(trained(tmp_path)) == RANKS
    assert left_of(mark, 120) == {}


def test_a_warning_of_the_scheduler_without_the_script(
    submit: World, script: Path, cluster: Cluster, tmp_path: Path
) -> None:
    job = start(submit, script)
    cluster.run("scancel", "--signal=USR1", job)
    assert poll(lambda: shown(cluster, job, "JobState") == "COMPLETED", 120)
    assert len(trained(tmp_path)) == RANKS


def test_a_cancelled_job_s_ranks_may_still_write(
    submit: World, script: Path, cluster: Cluster, tmp_path: Path
) -> None:
    mark = new_mark()
    text = (tmp_path / "train.py").read_text().replace("SIGUSR1", "SIGTERM")
    (tmp_path / "train.py").write_text(text)
    job = start(submit.having(**{MARK: mark}), script)
    cluster.run("scancel", job)
    assert poll(lambda: len(files_below(tmp_path, ".checkpoint")) == RANKS, 120)
    assert left_of(mark, 120) == {}
    assert shown(cluster, job, "JobState") == "CANCELLED"


def test_in_an_allocation_the_script_s_exit_code_is_the_ranks(
    submit: World, script: Path, cluster: Cluster, tmp_path: Path
) -> None:
    # Else the code may be that of a rank which another's end ended.
    own = submit.having(SLURM_KILL_BAD_EXIT="0")
    inside = replace(own, program=("salloc", "--quiet", "-N2", "--ntasks-per-node=2", "bash"))
    done = inside.run(script, "/opt/tiny/bin/python", "-c", "raise SystemExit(4)", code=4)
    assert "job: srun -N2 -n4" in done.stderr
    assert poll(lambda: cluster.steps() == [], 60)
