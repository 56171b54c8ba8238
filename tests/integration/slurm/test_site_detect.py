"""`site detect --job` under the real Slurm: both columns; a first site file; drift of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.slurm.cluster import Cluster
from tests.integration.world import World


def named(facts: list[dict[str, Any]]) -> dict[str, Any]:
    return {fact["name"]: fact["value"] for fact in facts}


@pytest.fixture
def detected(user: World, tmp_path: Path) -> dict[str, Any]:
    said = user.run("site", "detect", "--job", "--partition", "batch", "--time", "5", "--json",
                    "-o", tmp_path / "machine.json", cwd=tmp_path)  # fmt: skip
    document: dict[str, Any] = json.loads(said.stdout)
    return document


def test_login_and_compute_node(detected: dict[str, Any], cluster: Cluster, tmp_path: Path) -> None:
    here, job = named(detected["here"]), named(detected["job"])
    assert here["scheduler.kind"] == "slurm"
    assert here["scheduler.default_partition"] == "batch"
    assert any(line.startswith("batch: up, 4 nodes") for line in here["scheduler.partitions"])
    # Its nodes are this very machine.
    for name in ("arch", "os.kernel", "os.glibc", "cpu.model", "memory.gb"):
        assert here[name] == job[name] is not None
    for facts in (detected["here"], detected["job"]):
        assert len([fact for fact in facts if fact["value"] is not None]) >= 25
        assert all(fact["how"] for fact in facts)
    assert cluster.jobs() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["machine.json"]


def test_a_site_of_it_is_planned(user: World, detected: dict[str, Any], tmp_path: Path) -> None:
    assert detected["job"]
    machine, site = tmp_path / "machine.json", tmp_path / "fresh.yaml"
    user.run("site", "new", "fresh", "--from-machine", "--detected", machine, "-o", site)
    text = site.read_text()
    assert 'kind: "slurm"  # sinfo --version; sbatch on PATH' in text
    assert "in a job" in text
    plan = json.loads(user.run("plan", "pytorch", "--site", site, "--json").stdout)
    assert plan["schema"] == "dlcontainer/plan/1"
    said = user.run("render", "pytorch", "--site", site, "--format", "job").stdout
    assert "srun" in said


def test_a_job_that_is_refused(user: World, tmp_path: Path) -> None:
    said = user.run("site", "detect", "--job", "--partition", "no-such", cwd=tmp_path, code=1)
    assert "the scheduler refused the job" in said.stderr
    assert "invalid partition" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_inside_of_a_job(user: World, cluster: Cluster) -> None:
    within = cluster.allocated(user, "--nodes=1")
    document = json.loads(within.run("site", "detect", "--json").stdout)
    assert document["allocation"].startswith("SLURM_JOB_ID=")
