from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import Cluster
from tests.integration.world import World

SITE = """\
schema: 1
name: local
summary: a machine with a Slurm, for tests
facts: host
default_recipe: tiny
scheduler: {kind: slurm, launcher: [srun]}
"""


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Run a Slurm of four nodes on this machine."""
    with clusters.running() as running:
        yield running


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give this machine's site with Slurm."""
    path = tmp_path_factory.mktemp("site") / "lab.yaml"
    path.write_text(SITE)
    return path


@pytest.fixture
def user(world: World, wheels: Path, cluster: Cluster) -> World:
    """Give a user of the cluster, outside of any job."""
    # Its four nodes are one host, whose own name may lead to the loopback: here that serves.
    meet = {"DLCONTAINER_MASTER_ADDR": "127.0.0.1"}
    return world.having(PIP_FIND_LINKS=wheels, **meet, **cluster.variables)
