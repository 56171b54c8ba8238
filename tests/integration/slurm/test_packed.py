"""A packed environment in jobs of the real Slurm: a mount for a step, and a tree that stays."""

import subprocess
from pathlib import Path

import pytest

from tests.integration.publish.test_packed import NOW, PACK, STUB, TOLD, made
from tests.integration.publish.tools import Shelf, program
from tests.integration.slurm.cluster import Cluster
from tests.integration.slurm.test_keep import shelf
from tests.processes import poll

__all__ = ("shelf",)

JOB = f"""\
#!/bin/bash
export DLCONTAINER_KEEP=10 DLCONTAINER_VENV=$2
srun --ntasks=2 "$1" -c '{TOLD}'
grep -c "dlcontainer-.*-packed/.*-$SLURM_JOB_ID+" /proc/self/mounts
touch "$3/started"
until [ -e "$3/end" ]; do sleep 0.2; done
"""


@pytest.mark.usefixtures("cluster")
def test_a_job_shares_its_mount_and_keeps_the_tree(
    shelf: Shelf,
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    program("fusermount3", "fuse3")
    environ = {**shelf.environ, **cluster.variables, "PYTHONDONTWRITEBYTECODE": "1"}
    user = Shelf(root=shelf.root, name="tiny", version="1.0", environ=environ)
    packing = made(user, tmp_path / "env")
    packing.run("--pack", NOW)
    script = tmp_path / "job.sh"
    script.write_text(JOB)
    argv = ["sbatch", "--parsable", "--ntasks=2", "--nodes=1", f"--output={tmp_path}/out"]
    job = subprocess.run(
        [*argv, str(script), shelf.python, str(packing.folder), str(tmp_path)],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert poll((tmp_path / "started").exists, 300), (tmp_path / "out").read_text()
    told = f"2.0 {packing.folder}"
    assert (tmp_path / "out").read_text().splitlines() == [told, told, "1"]
    # What the job began with stays for it, and launches take the tree.
    said = packing.run("--unpack")
    assert f"the packed file stays for now: jobs of yours run and may use it: {job}" in said
    assert packing.used() == f"{told}\n"
    assert not packing.packed
    said = packing.run("--pack")
    assert f"the tree beside it stays for now: jobs of yours run and may use it: {job}" in said
    assert (packing.packed, len(packing.left)) == (True, len(packing.before))
    (tmp_path / "end").touch()
    assert poll(lambda: job not in cluster.jobs(), 300)
    packing.run("--pack")
    assert packing.left == STUB
    assert [path.name for path in packing.folder.glob("*.sqfs")] == [PACK]
    packing.run("--unpack")
    assert sorted(path.name for path in packing.folder.glob(".environment.sqfs.*")) == [
        ".environment.sqfs.lock"
    ]
