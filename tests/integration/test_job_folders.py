"""What `filesystems` names is shown in a job as in a wrapper: where a node has it, and by its real
folder.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dlcontainer.engines.capabilities import EngineCapabilities
from dlcontainer.formats import texts
from tests.integration.world import Built, World
from tests.jobs import BASH, SLURM, Machine, plan_at
from tests.values import ROOT, TEMPLATES

LOOK = """\
import json, os, sys
print(json.dumps({name: os.path.exists(name + "/file") for name in sys.argv[1:]}))
"""
SRUN = {"summary": "f", "launcher": ["srun", "-n", "{ranks}"], "ranks_per_node": 2}


def systems(*paths: str | Path, purpose: str = "scratch") -> list[dict[str, str]]:
    return [{"path": str(path), "kind": "nfs", "purpose": purpose} for path in paths]


@pytest.fixture
def outside() -> Iterator[Path]:
    """Give a folder that no engine shows by itself: not in /tmp, nor in a home."""
    places = (ROOT.parent, Path("/srv"), Path("/opt"))
    shown = (Path("/tmp"), Path("/var/tmp"))
    place = next(one for one in places if not any(one.is_relative_to(two) for two in shown))
    with TemporaryDirectory(dir=place, prefix="dlc-folders-") as name:
        yield Path(name)


def test_the_real_engine_shows_them(
    tiny_image: Built, tried: EngineCapabilities, world: World, outside: Path, tmp_path: Path
) -> None:
    lustre, mine, here = (outside / name for name in ("lustre", "mine", "here"))
    for folder in (lustre, mine, here):
        folder.mkdir()
        (folder / "file").touch()
    link, away, nowhere = (outside / name for name in ("link", "away", "nowhere"))
    link.symlink_to("lustre")
    nowhere.symlink_to("is not there")
    home = outside / "home"
    home.mkdir()
    plan = plan_at(
        tmp_path,
        filesystems=[*systems(link, away, nowhere), *systems(home, purpose="home")],
        engine={"run_mode": tried.run_mode},
        jobs={"binds": [str(here)]},
    )
    script = tmp_path / "job.sh"
    script.write_text(texts.text(plan, "job", [TEMPLATES]))
    wanted = (lustre, link, mine, here)
    done = subprocess.run(
        [BASH, str(script), "/opt/tiny/bin/python", "-c", LOOK, *map(str, (*wanted, home))],
        cwd=tmp_path,
        env={
            **world.environ,
            "DLCONTAINER_IMAGE": str(tiny_image.image),
            # The user's own stays.
            "APPTAINER_BIND": str(mine),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {**dict.fromkeys(map(str, wanted), True), str(home): False}


@pytest.mark.parametrize("runtime", ["apptainer", "singularity"])
def test_each_rank_looks_on_its_own_node(tmp_path: Path, runtime: str, outside: Path) -> None:
    machine = Machine.made(tmp_path / "a machine")
    scratch, late = outside / "it's scratch", outside / "late"
    scratch.mkdir()
    plan = plan_at(
        tmp_path,
        scheduler={"kind": "slurm", "forms": {"a": SRUN}},
        engine={"runtime": runtime},
        filesystems=systems(scratch, late, "/tmp", outside / "a,comma"),
    )
    machine.image(plan)
    (outside / "a,comma").mkdir()
    ran = machine.job(plan, SLURM_NNODES="1")
    name = f"{runtime.upper()}_BIND"
    rank = {"PATH": "/usr/bin:/bin", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}
    early = ran.as_rank("/bin/sh", "-c", f'printf %s "${name}"', **rank, DLCONTAINER_KEEP="0")
    assert early.stdout == str(scratch), early.stderr
    late.mkdir()
    told = ran.as_rank("/bin/sh", "-c", f'printf %s "${name}"', **rank, DLCONTAINER_KEEP="0")
    assert told.returncode == 0, told.stderr
    assert told.stdout == f"{scratch},{late}"
    assert f"job: {outside}/a,comma is not shown" in told.stderr
    again = ran.as_rank("/bin/sh", "-c", f'printf %s "${name}"', **rank, **{name: "/mine"})
    assert again.stdout == f"/mine,{scratch},{late}"


def test_podman_is_told_of_those_that_are_there(tmp_path: Path, outside: Path) -> None:
    machine = Machine.made(tmp_path / "a machine")
    scratch = outside / "it's scratch"
    scratch.mkdir()
    plan = plan_at(
        tmp_path,
        scheduler=SLURM,
        engine={"runtime": "podman-hpc"},
        filesystems=systems(scratch, outside / "away", machine.here),
    )
    launched = machine.job(plan, SLURM_NNODES="1").launched
    shown = [word for word in launched if word.startswith("--volume=")]
    assert shown == [f"--volume={where}:{where}" for where in (scratch, machine.here)]
    # The job's folder lies in one that is shown.
    assert "-v" not in launched
