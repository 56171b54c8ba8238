"""A job that Slurm begins again keeps its number: what it leaves has a new name each time."""

import json
from pathlib import Path

import pytest

from dlcontainer.engines.apptainer import Apptainer
from tests.integration.slurm.cluster import Cluster
from tests.integration.world import Built, World
from tests.processes import poll

# Its first time, a job waits with its proof written until it is begun again.
WAITS = 'trap : TERM\n[ "${SLURM_RESTART_COUNT:-0}" != 0 ] || sleep 300\n'


@pytest.fixture
def submit(user: World, tiny: Path, tiny_image: Built, engine: Apptainer, tmp_path: Path) -> World:
    """Give a user whose `run` submits a script."""
    path = f"{engine.program.parent}:{user.environ['PATH']}"
    own = user.having(PATH=path, DLCONTAINER_IMAGE=tiny_image.image, APPTAINER_USERNS="1")
    return World(environ=own.environ, folder=tmp_path, program=("sbatch", "--parsable"))


def state(cluster: Cluster, job: str) -> str:
    said = cluster.run("scontrol", "--oneliner", "show", "job", job).stdout
    return said.partition("JobState=")[2].partition(" ")[0]


def test_each_time_has_a_proof_of_its_own(
    user: World, submit: World, cluster: Cluster, tiny: Path, tmp_path: Path
) -> None:
    text = user.run("render", tiny, "--site", "example-slurm", "--format", "job").stdout
    (tmp_path / "job.sh").write_text(text + WAITS)
    job = submit.run("--requeue", "--nodes=2", tmp_path / "job.sh").stdout.strip()
    first, second = (tmp_path / f"proof-{job}{more}" for more in ("", "-restart-1"))
    assert poll((first / "proof.json").exists, 120)
    cluster.run("scontrol", "requeue", job)
    assert poll(lambda: state(cluster, job) == "PENDING", 60)
    # Else it waits for two minutes.
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    assert poll(lambda: state(cluster, job) == "COMPLETED", 300), state(cluster, job)
    user.run("prove", first)
    user.run("prove", second)
    content = json.loads((second / "proof.json").read_text())["content"]
    assert content["job"]["SLURM_RESTART_COUNT"] == "1"
    assert sorted(path.name for path in tmp_path.glob("proof-*")) == [first.name, second.name]
