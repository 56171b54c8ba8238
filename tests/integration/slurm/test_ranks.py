"""Ranks by the real srun, on several nodes of an allocation: all are there, or it is said why not."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from dlcontainer.bench import results
from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench import environment_with, options, other_wheel
from tests.integration.world import Built, World
from tests.processes import MARK, kill_marked, marked, new_mark, poll

RANK = "os.environ.get('SLURM_PROCID')"


@pytest.fixture
def inside(user: World, cluster: Cluster) -> World:
    """Give a user within an allocation of two nodes."""
    return cluster.allocated(user, "--nodes=2", "--ntasks=4")


@pytest.fixture
def argv(site: Path, tiny_image: Built, tiny: Path, tmp_path: Path) -> list[str]:
    """Give the options of a session of four ranks on two nodes, written to x.jsonl."""
    found = options(tiny_image, tiny, tmp_path / "x.jsonl", "--pairs", 1, "--controls", 0)
    found[found.index("local")] = str(site)
    return [*found, "--ranks", "4", "--ranks-per-node", "2", "--nodes", "2"]


@pytest.mark.parametrize("start", ["storm", "natural"])
def test_every_rank_of_every_node_is_kept(
    inside: World, cluster: Cluster, argv: list[str], tmp_path: Path, start: str
) -> None:
    inside.run("bench", "import", *argv, "--start", start)
    series = results.read(tmp_path / "x.jsonl")
    assert series.complete
    work = series.session.declared.workload
    assert work["launcher"] == ["srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"]
    assert [(stack.arm, stack.node) for stack in series.stacks] == [
        ("native", "n1"), ("native", "n2"), ("container", "n1"), ("container", "n2"),
    ]  # fmt: skip
    for sample in series.samples:
        assert sample.ok
        places = [(rank["rank"], rank["local_rank"], rank["node"]) for rank in sample.ranks]
        assert places == [(0, 0, "n1"), (1, 1, "n1"), (2, 0, "n2"), (3, 1, "n2")]
    assert cluster.steps() == []
