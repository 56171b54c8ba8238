"""Published wrappers that keep an image mounted, under the real srun."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.publish.test_wrapper_keep import BASE, remove
from tests.integration.publish.tools import Shelf, clean_home, program
from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import FREEZER, Cluster
from tests.integration.world import Built, World
from tests.processes import MARK, marked, new_mark, poll
from tests.skips import skip

KEEP_S = 20
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
        assert poll(lambda: job not in self.cluster.jobs(), 300)
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
    made = Batch(shelf=shelf, cluster=cluster, folder=tmp_path, mark=new_mark())
    yield made
    jobs = [path.stem for path in tmp_path.glob("*.out")]
    for point in {Path(path) for job in jobs for path, _ in made.said(job, "at")}:
        remove(point)


def test_ranks_of_a_step_share_a_mount_that_holds_nobody_up(batch: Batch) -> None:
    job = batch.run()
    where = [Path(path).name for path, _ in batch.said(job, "at")]
    # Two ranks a step; each step has its own.
    assert len(where) == 4, (batch.folder / f"{job}.out").read_text()
    assert [len(set(where[:2])), len(set(where[2:])), len(set(where))] == [1, 1, 2]
    assert [name.rpartition(f"-{job}+")[2] for name in sorted(set(where))] == ["0", "1"]
    took_s = [int(took) / 1000 for took, _ in batch.said(job, "took")]
    # A step that waited for the mount to go would take that long, and its own time.
    assert max(took_s) < KEEP_S
    # What this Slurm (proctrack/pgid) does not end with the step goes when it was idle.
    assert poll(lambda: marked(batch.mark) == {} and not mounted(where), 4 * KEEP_S)


@pytest.fixture(scope="module")
def strict() -> Iterator[Cluster]:
    """Run a Slurm that ends all processes of a step with it, wherever they have gone."""
    if not os.access(FREEZER, os.W_OK):
        skip(
            f"no {FREEZER} that you may write: Slurm tracks steps by it", elsewhere="another kernel"
        )
    with clusters.running(tracking="cgroup") as running:
        yield running


def test_what_a_steps_end_kills_is_cleaned_by_the_next_one(batch: Batch, strict: Cluster) -> None:
    own = replace(batch, cluster=strict)
    first = own.run()
    where = [Path(path).name for path, _ in own.said(first, "at")]
    # Killed with its step; the next one that mounts removes what that left.
    assert marked(own.mark) == {}
    assert mounted(where) == where[2:]
    assert max(int(took) for took, _ in own.said(first, "took")) < KEEP_S * 1000
    second = own.run()
    assert len(own.said(second, "at")) == 4
    assert mounted(where) == []
