"""The tests' own Slurm starts ranks on all its nodes, and leaves no process."""

import os

import pytest

from tests.integration.accounts import NOBODY
from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import NODES, Cluster
from tests.processes import MARK, marked, new_mark, poll
from tests.skips import skip

WHO = ("sh", "-c", "echo $SLURMD_NODENAME $(id -u)")


def test_a_step_on_every_node(cluster: Cluster) -> None:
    said = cluster.run("srun", f"-N{NODES}", f"-n{NODES}", *WHO).stdout
    assert sorted(said.splitlines()) == [f"n{n} {os.geteuid()}" for n in range(1, 1 + NODES)]


def test_an_ordinary_users_cluster_ends_with_its_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid() != 0:
        skip("an ordinary user's cluster is the fixture's then", elsewhere="a run as root")
    mark = new_mark()
    monkeypatch.setenv(MARK, mark)
    with clusters.running(NOBODY) as own:
        said = own.run("srun", "-N2", "-n2", *WHO).stdout
        assert sorted(said.splitlines()) == [f"n1 {NOBODY.uid}", f"n2 {NOBODY.uid}"]
        own.run("sbatch", "-N2", "--wrap", "srun sleep 3600")
        assert poll(lambda: bool(own.steps()), 60)
    assert marked(mark) == {}
