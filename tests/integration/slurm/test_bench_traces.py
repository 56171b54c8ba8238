"""`bench trace` as a job of the real Slurm, its ranks on two nodes."""

import json
from pathlib import Path

from tests.integration.slurm.cluster import Cluster
from tests.integration.test_bench_trace import ALL_STEPS, GRADIENT_BYTES, PROGRAM
from tests.integration.world import World


def test_ranks_of_two_nodes(
    user: World, world: World, cluster: Cluster, site: Path, tmp_path: Path
) -> None:
    # PyTorch comes as for all other tests, beside the wheel of the cluster's user.
    links = f"{world.environ.get('PIP_FIND_LINKS', '')} {user.environ['PIP_FIND_LINKS']}".strip()
    user = user.having(PIP_FIND_LINKS=links)
    (tmp_path / "train.py").write_text(PROGRAM)
    where = [
        "--site",
        str(site),
        "--recipe",
        "pytorch",
        "--nodes",
        "2",
        "--ranks",
        "2",
        "--time",
        "5",
    ]
    command = ["--steps", "6", "-o", "t", "--", "python", "train.py", "sleep", ALL_STEPS]
    user.run("bench", "trace", *where, *map(str, command), cwd=tmp_path)
    (side,) = json.loads((tmp_path / "t/trace.json").read_text())["sides"]
    quick, late = side["ranks"]
    assert (quick["node"], late["node"]) == ("n1", "n2")
    assert max(quick["waiting_for"], key=quick["waiting_for"].get) == "1"
    assert [row["bytes"] for row in side["collectives"]] == [GRADIENT_BYTES]
    # Nodes of one boot: their clock is one.
    assert [clock["bound_s"] for clock in side["clocks"]] == [0]
    assert cluster.jobs() == []
    assert not list(tmp_path.glob("slurm-*.out"))
