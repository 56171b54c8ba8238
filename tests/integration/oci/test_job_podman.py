"""A job of podman-hpc with a real Podman in its place: what a user exports reaches the program."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.formats import texts
from dlcontainer.system.machine import find_program
from tests.integration.world import World, missing
from tests.jobs import BASH, plan_at
from tests.values import TEMPLATES

# As podman-hpc hands its words on. The limits of a container can't be raised everywhere.
PODMAN_HPC = """\
#!/bin/sh
[ "$1" = run ] || exit 9
shift
exec podman {store} run --ulimit nofile=1024:1024 --ulimit nproc=2048:2048 "$@"
"""
# One rank, on this very host.
SRUN = """\
#!/bin/sh
while [ "$1" != /bin/sh ]; do shift; done
export SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 SLURM_STEP_OF_RANK=1 CUDA_VISIBLE_DEVICES=0
exec "$@"
"""
USERS = {
    "HF_HOME": "/models/it's mine",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "16",
    "LINES": "a\nPATH=/evil\nb $c `d` \\",
}
OTHERS = {"CC": "gcc-1", "PYTHONPATH": "/leak", "LD_LIBRARY_PATH": "/leak", "LANG": "de_DE"}


@pytest.fixture
def store() -> Iterator[list[str]]:
    """Give the options of a Podman with a store of its own."""
    if find_program("podman", os.environ) is None:
        missing("podman")
    if os.getuid() != 0:
        missing("root, which the tests' own engines run as")
    # Short: Podman takes 50 characters for one of its folders.
    folder = Path(tempfile.mkdtemp(prefix="dlc-podman-", dir="/tmp"))
    places = [f"--{name}={folder / name}" for name in ("root", "runroot", "tmpdir")]
    yield [*places, "--runtime=runc", "--cgroup-manager=cgroupfs"]
    subprocess.run(["podman", *places, "rmi", "--all", "--force"], check=False, capture_output=True)
    for mount in (folder / "root/overlay", folder / "root/vfs"):
        subprocess.run(["umount", str(mount)], check=False, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("engine")
def test_what_a_user_exports_arrives(
    world: World, bare: Path, store: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "rendered"
    world.run(
        "render", bare, "--site", "local", "-f", "dockerfile", "--with-base", "-o", f"{folder}/"
    )
    change = ["--change", "ENV OMP_NUM_THREADS=8", "--change", "ENV OWN=image"]
    load = ["podman", *store, "import", *change, str(folder / "rootfs.tar"), "demo:1.0-demo"]
    subprocess.run(load, check=True, capture_output=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("podman-hpc", PODMAN_HPC.format(store=" ".join(store))), ("srun", SRUN)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    form = {"summary": "f", "ranks_per_node": 1, "launcher": ["srun", "-n{ranks}"]}
    plan = plan_at(
        tmp_path,
        recipe={"environment": {"OMP_NUM_THREADS": "8", "OWN": "image"}},
        scheduler={"kind": "slurm", "forms": {"a": form}},
        jobs={"flags": ["--network=host"], "inside": {"NET": "site's"}},
        engine={"runtime": "podman-hpc"},
    )
    script = tmp_path / "job.sh"
    script.write_text(texts.text(plan, "job", [TEMPLATES]))
    here = tmp_path / "it's submitted"
    here.mkdir()
    environ = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), **USERS, **OTHERS}
    done = subprocess.run(
        [BASH, str(script), "env", "-0"],
        cwd=here,
        env={
            **environ,
            "SLURM_NNODES": "1",
            "DLCONTAINER_MASTER_ADDR": "127.0.0.1",
            "NET": "mine",
            "TMPDIR": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    assert {name: seen.get(name) for name in USERS} == USERS
    # What only a rank's own environment has; the image's own; the site's.
    assert (seen["SLURM_STEP_OF_RANK"], seen["CUDA_VISIBLE_DEVICES"]) == ("1", "0")
    assert (seen["OWN"], seen["NET"]) == ("image", "site's")
    assert not {*OTHERS, "TMPDIR", "XDG_RUNTIME_DIR"} & set(seen)
    assert seen["HOME"] == "/root"
    # Names alone stand on command lines.
    assert "models" not in done.stderr
