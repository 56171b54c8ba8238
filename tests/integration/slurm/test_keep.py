"""Published wrappers that keep an image mounted, under the real srun."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.test_wrapper_keep import BASE
from tests.integration.publish.tools import Shelf, clean_home, program
from tests.integration.slurm.cluster import Cluster
from tests.integration.world import Built, World
from tests.processes import MARK, kill_marked, marked, new_mark, poll

KEEP_S = 10
SAY = "import os; print('at', os.environ['APPTAINER_CONTAINER'], os.environ['SLURM_PROCID'])"
# A job of two steps of two ranks each, with what each step took.
JOB = f"""\
#!/bin/bash
export DLCONTAINER_KEEP={KEEP_S}
for step in 1 2; do
    begin=$(date +%s%N)
    srun --ntasks=2 "$1" -c "{SAY}" || exit
    echo took $((($(date +%s%N) - begin) / 1000000)) ms
done
"""


@pytest.fixture(scope="module")
def shelf(
    world: World, engine: Apptainer, tiny_image: Built, tmp_path_factory: pytest.TempPathFactory
) -> Shelf:
    """Publish the tiny image."""
    folder = tmp_path_factory.mktemp("shelf")
    world.run("publish", tiny_image.image, "--site", "local", "--root", folder / "root", "--json")
    environ = clean_home(folder)
    environ["PATH"] = f"{engine.program.parent}:{environ['PATH']}"
    return Shelf(root=folder / "root", name="tiny", version="1.0", environ=environ)


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Jobs of a user, in a folder of their own."""

    shelf: Shelf
    cluster: Cluster
    folder: Path
    mark: str

    def run(self) -> str:
        """Run a job to its end; give its number."""
        script = self.folder / "job.sh"
        script.write_text(JOB)
        argv = ["sbatch", "--parsable", "--ntasks=2", "--nodes=1", f"--output={self.folder}/%j.out"]
        job = subprocess.run(
            [*argv, str(script), self.shelf.python],
            env={**self.shelf.environ, **self.cluster.variables, MARK: self.mark},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        assert poll(lambda: job not in self.cluster.jobs(), 90)
        return job

    def said(self, job: str, word: str) -> list[list[str]]:
        """Give what follows a word in a job's output, in order."""
        lines = (self.folder / f"{job}.out").read_text().splitlines()
        return [line.split()[1:] for line in lines if line.split()[:1] == [word]]


def mounted(names: list[str]) -> list[str]:
    """Name those that are mounts, dead ones too."""
    points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [name for name in names if f"{BASE}/{name}" in points]


@pytest.fixture
def batch(shelf: Shelf, cluster: Cluster, tmp_path: Path) -> Iterator[Batch]:
    program("fusermount3", "fuse3")
    before = set(BASE.glob("*"))
    yield Batch(shelf=shelf, cluster=cluster, folder=tmp_path, mark=new_mark())
    for path in set(BASE.glob("*")) - before:
        subprocess.run(["fusermount3", "-u", "-z", str(path)], check=False, capture_output=True)
        path.rmdir() if path.is_dir() else path.unlink()


def test_ranks_of_a_step_share_a_mount_that_holds_nobody_up(batch: Batch) -> None:
    job = batch.run()
    where = [Path(path).name for path, _ in batch.said(job, "at")]
    # Two ranks a step; each step has its own.
    assert len(where) == 4, (batch.folder / f"{job}.out").read_text()
    assert [len(set(where[:2])), len(set(where[2:])), len(set(where))] == [1, 1, 2]
    assert [name.partition(f"{job}-")[2] for name in sorted(set(where))] == ["0", "1"]
    took_s = [int(took) / 1000 for took, _ in batch.said(job, "took")]
    assert max(took_s) < KEEP_S / 2
    # What this Slurm (proctrack/pgid) does not end with the step goes when it was idle.
    assert poll(lambda: marked(batch.mark) == {} and not mounted(where), 4 * KEEP_S)


def test_what_a_jobs_end_kills_is_cleaned_by_the_next_job(batch: Batch) -> None:
    first = batch.run()
    dead = [Path(path).name for path, _ in batch.said(first, "at")]
    # As a Slurm with proctrack/cgroup would, at the end of each step.
    kill_marked(batch.mark)
    assert sorted(mounted(dead)) == sorted(dead)
    second = batch.run()
    assert len(batch.said(second, "at")) == 4
    assert mounted(dead) == []
    kill_marked(batch.mark)
