"""Which jobs have their ranks share a mount: by the site, the engine there, and the user."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import Machine, plan_at

# What `sif list` says of an image, as far as a job reads it.
LISTED = "1    |1       |NONE    |4096-8192    |FS (Squashfs/*System/amd64)"
ENGINE = """\
#!/bin/bash
case "$1 $2" in
    "sif list") echo '{listed}' ;;
    "buildcfg LIBEXECDIR") echo '{folder}' ;;
    *) exec -a apptainer {record} "$@" ;;
esac
"""
TWO = {"summary": "a", "launcher": ["srun", "-n{ranks}"], "ranks_per_node": 2}
SLURM = {"kind": "slurm", "forms": {"two": TWO}}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Give a machine whose engine has no setuid starter; its user is not root."""
    made = Machine.made(tmp_path / "machine")
    programs = made.folder / "bin"
    record = (programs / "apptainer").readlink()
    (programs / "apptainer").unlink()
    text = ENGINE.format(listed=LISTED, folder=made.folder / "libexec", record=record)
    write(programs / "apptainer", text)
    write(programs / "id", "#!/bin/sh\necho 1000\n")
    return made


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def starter(machine: Machine, mode: int) -> None:
    folder = machine.folder / "libexec" / "apptainer" / "bin"
    folder.mkdir(parents=True)
    (folder / "starter-suid").touch()
    (folder / "starter-suid").chmod(mode)


def offset(machine: Machine, folder: Path, scheduler: Any = SLURM, **site: Any) -> str | None:
    """Give the word that says where the image's file system begins; None without such a word."""
    environ = site.pop("environ", {})
    plan = plan_at(folder, scheduler=scheduler, **site)
    image = machine.image(plan)
    ran = machine.job(plan, "mine", SLURM_NNODES="2", **environ)
    assert ran.code == 0, ran.err
    said = "# Without one mount for a node's ranks: DLCONTAINER_KEEP=0 sbatch job.sh"
    words = ran.rank[ran.rank.index("dlc-rank") + 8 :]
    assert (said in (machine.folder / "job.sh").read_text()) is bool(words)
    if not words:
        return None
    assert words[0] == image
    info = Path(image).stat()
    times = f"{int(info.st_mtime)}-{int(info.st_ctime)}"
    assert words[2] == f"{info.st_dev}-{info.st_ino}-{info.st_size}-{times}"
    return words[1]


def test_ranks_of_user_namespaces_share_a_mount(machine: Machine, tmp_path: Path) -> None:
    assert offset(machine, tmp_path / "default") == "4096"
    starter(machine, 0o755)
    assert offset(machine, tmp_path / "not setuid") == "4096"


def test_ranks_without_user_namespaces_do_not(machine: Machine, tmp_path: Path) -> None:
    starter(machine, 0o4755)
    assert offset(machine, tmp_path / "setuid") == ""
    # Asked for, by the user or the site, they have them in any case.
    asked = {"APPTAINER_USERNS": "1"}
    assert offset(machine, tmp_path / "user", environ=asked) == "4096"
    engine = {"runtime": "apptainer", "run_mode": "userns"}
    assert offset(machine, tmp_path / "site", engine=engine) == "4096"


def test_root_s_ranks_have_no_user_namespaces(machine: Machine, tmp_path: Path) -> None:
    write(machine.folder / "bin" / "id", "#!/bin/sh\necho 0\n")
    assert offset(machine, tmp_path / "root") == ""


@pytest.mark.parametrize(
    "site",
    [
        {"modules": {"keep_mounted": 0}},
        {"engine": {"run_mode": "unpacked"}},
        {"scheduler": {"kind": "slurm", "forms": {"one": {**TWO, "ranks_per_node": 1}}}},
    ],
)
def test_where_there_is_nothing_to_share(
    machine: Machine, tmp_path: Path, site: dict[str, Any]
) -> None:
    assert offset(machine, tmp_path / "site", **site) is None


def test_an_engine_that_lists_nothing(machine: Machine, tmp_path: Path) -> None:
    write(machine.folder / "bin" / "apptainer", "#!/bin/sh\nexit 1\n")
    plan = plan_at(tmp_path / "r", scheduler=SLURM)
    machine.image(plan)
    ran = machine.job(plan, "mine", SLURM_NNODES="2")
    assert (ran.code, ran.rank[-2]) == (0, "")


@pytest.mark.parametrize("value", ["9", "00", "soon", "-1"])
def test_what_is_no_time(machine: Machine, tmp_path: Path, value: str) -> None:
    plan = plan_at(tmp_path / "r", scheduler=SLURM)
    machine.image(plan)
    ran = machine.job(plan, "mine", SLURM_NNODES="2")
    place = {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_LOCALID": "0"}
    path = f"{machine.folder}/bin:{os.defpath}"
    done = ran.as_rank("true", PATH=path, DLCONTAINER_KEEP=value, **place)
    assert done.returncode == 2
    assert f"job: DLCONTAINER_KEEP is '{value}'\n  next: give seconds, at least 10" in done.stderr
