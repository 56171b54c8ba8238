"""`site detect --job` under the real Grid Engine, of one host."""

import json
from pathlib import Path

import pytest

from tests.integration.gridengine.cell import Cell
from tests.integration.world import World

# As test_bench_job.py beside it; ../slurm/test_site_detect.py goes the same road.
pytestmark = pytest.mark.long


def test_login_and_compute_node(world: World, cell: Cell, tmp_path: Path) -> None:
    user = world.having(**cell.variables)
    said = user.run("site", "detect", "--job", "--json", cwd=tmp_path)
    document = json.loads(said.stdout)
    here, job = ({fact["name"]: fact["value"] for fact in document[key]} for key in ("here", "job"))
    assert here["scheduler.kind"] == "gridengine"
    assert here["scheduler.version"]
    assert here["scheduler.partitions"]
    assert here["os.kernel"] == job["os.kernel"] is not None
    assert cell.jobs() == []
    assert list(tmp_path.iterdir()) == []
