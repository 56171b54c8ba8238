"""The files of a job: the ranks' script, and those beside a published image. Checked bytes run."""

import os
import signal
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.formats import texts
from dlcontainer.publish.publish import Publication
from tests.jobs import BASH, Machine, Ran, plan_at
from tests.processes import poll
from tests.publishing import Quiet, image_of, put
from tests.values import TEMPLATES, site_of

FORM = {"summary": "f", "launcher": ["srun", "-n{ranks}"], "ranks_per_node": 2}
SITE: dict[str, Any] = {"scheduler": {"kind": "slurm", "forms": {"a": FORM}}}
ODD = 'it\'s a "folder"\nof two lines $HOME'
# Of a launcher: the modes of what it was given, then one rank.
SRUN = """\
#!/bin/sh
for word; do case $word in */rank.sh) file=$word ;; esac; done
stat -c '%a %A' "${file%/*}" "$file"
shift
SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_LOCALID=0 exec "$@"
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine.made(tmp_path / "a machine")


def program(machine: Machine, name: str, text: str) -> None:
    path = machine.folder / "bin" / name
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def submitted(machine: Machine, folder: Path, text: str, *words: str, **environ: str) -> Any:
    """Run a job script as a scheduler would, from a folder of any name."""
    script = machine.folder / "job.sh"
    script.write_text(text)
    return subprocess.Popen(
        [BASH, str(script), *words],
        cwd=folder,
        env={
            "PATH": f"{machine.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(machine.folder),
            "FAKE_CALLS": str(machine.folder / "calls"),
            "FAKE_ENVIRONMENT": str(machine.folder / "seen"),
            "SLURM_NODEID": "0",
            "SLURM_NNODES": "1",
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("warned", [False, True])
@pytest.mark.parametrize("code", [0, 7])
def test_a_private_file_while_ranks_run_and_nothing_afterwards(
    machine: Machine, tmp_path: Path, code: int, warned: bool
) -> None:
    warning = {"jobs": {"warning": {"signal": "USR1", "seconds": 60}, "requeue": True}}
    plan = plan_at(tmp_path, **SITE, **(warning if warned else {}))
    program(machine, "srun", SRUN)
    program(
        machine, "apptainer", f'#!/bin/sh\nprintf "%s\\n" "$RANK of $WORLD_SIZE"; exit {code}\n'
    )
    here = tmp_path / ODD
    here.mkdir()
    (here / f"{plan.name}.sif").touch()
    text = texts.text(plan, "job", [TEMPLATES])
    job = submitted(machine, here, text, "mine", DLCONTAINER_REQUEUE="1")
    out, err = job.communicate(timeout=60)
    assert out.splitlines() == ["700 drwx------", "600 -rw-------", "0 of 2"], err
    assert job.returncode == code
    assert [path.name for path in here.iterdir()] == [f"{plan.name}.sif"]


def sleeps(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(machine: Machine, tmp_path: Path, number: signal.Signals) -> None:
    plan = plan_at(tmp_path, **SITE)
    machine.image(plan)
    mark = tmp_path / "begun"
    program(machine, "srun", f"#!/bin/sh\n: > '{mark}'\nexec sleep 60\n")
    job = submitted(machine, machine.here, texts.text(plan, "job", [TEMPLATES]), "mine")
    try:
        # Between its start of a command and its wait bash takes no signal to heart.
        assert poll(lambda: mark.exists() and sleeps(job.pid), 30)
        assert list(machine.here.glob("dlcontainer-job-*/rank.sh"))
        job.send_signal(number)
        assert job.wait(60) != 0
        assert not list(machine.here.glob("dlcontainer-job-*"))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.communicate()


def test_who_can_not_write_to_the_folder_has_a_home(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **SITE)
    machine.image(plan)
    # Root writes everywhere.
    refuses = 'case $* in *"$PWD/"*) exit 1 ;; esac'
    program(machine, "mktemp", f'#!/bin/sh\n{refuses}\nexec /usr/bin/mktemp "$@"\n')
    ran = machine.job(plan, "mine", SLURM_NNODES="1")
    assert (ran.code, ran.launched[-1]) == (0, "mine"), ran.err
    assert not list(machine.folder.glob("dlcontainer-job-*"))


def as_rank(reader: list[str], *more: str) -> "subprocess.CompletedProcess[str]":
    """Start a rank as the job's launcher does: it reads the script itself."""
    return subprocess.run(
        [*reader, *more],
        env={"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_LOCALID": "1", "dlc_sum": "a"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_changed_ranks_script_does_not_run(machine: Machine, tmp_path: Path) -> None:
    plan = plan_at(tmp_path, **SITE)
    machine.image(plan)
    ran = machine.job(plan, "mine", SLURM_NNODES="1")
    assert ran.code == 0, ran.err
    reader = ran.reader
    assert as_rank(reader, "/bin/sh", "-c", 'echo "$RANK"').stdout == "1\n"
    file = Path(reader[4])
    text = file.read_text()
    for other in (f"touch {tmp_path}/CANARY\n{text}", f"{text}touch {tmp_path}/CANARY\n", ""):
        file.write_text(other)
        done = as_rank(reader, "/bin/true")
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr == f"job: {file} was changed: it does not run\n"
    file.unlink()
    done = as_rank(reader, "/bin/true")
    assert done.returncode == 3
    assert f"job: {os.uname().nodename} cannot read {file}\n" in done.stderr
    assert "next: submit it from a folder that all nodes have" in done.stderr
    assert not (tmp_path / "CANARY").exists()


@pytest.fixture
def published(tmp_path: Path) -> Publication:
    return put(
        image_of(tmp_path / "built"), tmp_path / "it's a tree", site_of(name="lab", **SITE).value
    )


def of_release(machine: Machine, published: Publication, *words: str) -> Ran:
    """Submit the job of a release: a scheduler copies the script away."""
    script = published.folder / "job/job.sh"
    return machine.run(script.read_text(), *words, SLURM_NNODES="1")


def test_the_job_of_a_release_runs_its_image(machine: Machine, published: Publication) -> None:
    ran = of_release(machine, published, "python", "x y.py")
    assert ran.code == 0, ran.err
    assert ran.launched == [
        *("srun", "-n2", "apptainer", "exec"),
        *(f"{published.folder}/image.sif", "python", "x y.py"),
    ]
    assert list(machine.here.iterdir()) == []
    assert as_rank(ran.reader, "/bin/sh", "-c", 'echo "$RANK"').stdout == "1\n"
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (published.folder / "job").iterdir()
    }
    assert modes == dict.fromkeys(("job.sh", "job-functions.sh", "job-rank.sh"), 0o644)
    for kind, line in (("lua", 'setenv("DLCONTAINER_JOB", '), ("tcl", "setenv DLCONTAINER_JOB ")):
        assert line in (published.folder / f"module.{kind}").read_text()


def test_a_changed_file_of_a_release_does_not_run(
    machine: Machine, published: Publication, tmp_path: Path
) -> None:
    functions = published.folder / "job/job-functions.sh"
    text = functions.read_text()
    functions.write_text(f"{text}touch '{tmp_path}/CANARY'\n")
    ran = of_release(machine, published, "python")
    assert (ran.code, ran.calls) == (3, [])
    assert f"job: {functions} was changed after it was published: it does not run" in ran.err
    functions.unlink()
    gone = of_release(machine, published, "python")
    assert (gone.code, gone.calls) == (3, [])
    assert "next: ask the staff who publish the module: it may have been withdrawn" in gone.err
    functions.write_text(text)
    reader = of_release(machine, published, "python").reader
    ranks = published.folder / "job/job-rank.sh"
    ranks.write_text(f"touch '{tmp_path}/CANARY'\n")
    ran = of_release(machine, published, "python")
    assert (ran.code, ran.calls) == (3, [])
    assert f"job: {ranks} was changed after it was published: it does not run" in ran.err
    # A node that reads other bytes than the first one refuses them itself.
    Path(reader[4]).write_bytes(ranks.read_bytes())
    done = as_rank(reader, "/bin/true")
    assert done.returncode == 3
    assert "was changed: it does not run" in done.stderr
    assert not (tmp_path / "CANARY").exists()


@pytest.mark.parametrize(
    ("site", "why"),
    [
        ({"engine": {"runtime": "podman-hpc"}}, "jobs there start images with podman-hpc"),
        (
            {
                "scheduler": {"kind": "lsf", "forms": {"a": {**FORM, "launcher": ["jsrun"]}}},
                "jobs": {"rendezvous": {"interface": "ib0"}},
            },
            "the job script cannot read the first node's interface",
        ),
    ],
)
def test_releases_without_a_job_say_why(tmp_path: Path, site: dict[str, Any], why: str) -> None:
    progress = Quiet()
    done = put(
        image_of(tmp_path / "built"),
        tmp_path / "tree",
        site_of(name="lab", **site).value,
        progress=progress,
    )
    assert not (done.folder / "job").exists()
    assert "DLCONTAINER_JOB" not in (done.folder / "module.lua").read_text()
    [said] = [line for line in progress.said if "no job script" in line]
    assert why in said
