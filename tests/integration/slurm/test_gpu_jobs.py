"""What is derived from a site's GPUs, submitted to the real sbatch and started by the real srun.

Its nodes' GPUs are files that Slurm only counts.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.config import SelectedDocument
from dlcontainer.formats import texts
from dlcontainer.sites import gpu_jobs
from tests.integration.slurm import cluster as clusters
from tests.integration.slurm.cluster import WIDE, Cluster
from tests.jobs import without_engine
from tests.values import SITE, TEMPLATES, folder_of, plan_of, site_of

SAY = 'echo "ran $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $SLURM_CPUS_PER_TASK $SLURM_GPUS_ON_NODE"'


@pytest.fixture(scope="module")
def wide() -> Iterator[Cluster]:
    """Run a Slurm whose nodes have eight GPUs and many cores."""
    with clusters.running(node=WIDE) as running:
        yield running


def test_four_gpus_make_a_job_of_four_ranks_a_node(wide: Cluster, tmp_path: Path) -> None:
    written = site_of(
        SITE,
        accelerator={"vendor": "nvidia", "model": "H100", "per_node": 4},
        cpu={"model": "EPYC", "cores": 64},
        scheduler={"kind": "slurm", "launcher": ["srun"], "resources": {"nodes": 2}},
    )
    site = SelectedDocument(value=gpu_jobs.settle(written.value), document=written.document)
    plan = plan_of(folder_of(tmp_path, stack={"cuda": "12.8"}), site=site)
    script = wide.folder / "job.sh"
    script.write_text(without_engine(texts.text(plan, "job", [TEMPLATES])))
    output = wide.folder / "job.out"
    # The nodes are one host, whose GPUs are no device.
    meet = "DLCONTAINER_MASTER_ADDR=127.0.0.1"
    given = ("DLCONTAINER_GPUS=0", meet, f"DLCONTAINER_IMAGE={script}")
    sbatch = ("sbatch", "--wait", f"--output={output}", script)
    try:
        wide.run("env", *given, *sbatch, "sh", "-c", SAY)
    finally:
        said = output.read_text() if output.exists() else ""
    ran = sorted(line for line in said.splitlines() if line.startswith("ran "))
    assert ran == [f"ran {rank} {rank % 4} 4 16 4" for rank in range(8)], said
