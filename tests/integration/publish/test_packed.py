"""An environment as one file, with the real engine: packed, used, unpacked, and refused."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.accounts import NOBODY, without
from tests.integration.publish.tools import Shelf, clean_home, in_shell, program
from tests.integration.world import Built, World, write_wheel
from tests.processes import kill_servers, poll
from tests.skips import skip
from tests.unit.publish.test_pack_venv import view

PACK = "environment.sqfs"
# Not that of the image.
VERSION = "2.0"
TOLD = "import dlctiny, sys; print(dlctiny.__version__, sys.prefix)"
# Of a machine that has Slurm's commands and no cluster, nobody can tell who runs what.
NOW = "--now"


@pytest.fixture(scope="module")
def shelf(world: World, tiny_image: Built) -> Iterator[Shelf]:
    # Where an ordinary user comes, too.
    with tempfile.TemporaryDirectory(prefix="dlcontainer-packed-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        world.run("publish", tiny_image.image, "-s", "local", "--root", folder / "root")
        # What a test runs adds nothing to what it compares.
        bare = {"PATH": world.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
        environ = {**clean_home(folder), **bare}
        yield Shelf(root=folder / "root", name="tiny", version="1.0", environ=environ)


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """An environment with a package of its own, and what packs it."""

    shelf: Shelf
    folder: Path
    before: dict[str, object]

    @property
    def command(self) -> str:
        return str(self.shelf.folder / "bin/dlcontainer-venv")

    def run(self, *words: str, code: int = 0, **variables: Any) -> str:
        """Run dlcontainer-venv on it; return all that it says."""
        done = self.shelf.run(self.command, *words, str(self.folder), code=code, **variables)
        return done.stdout + done.stderr

    def used(self, **variables: Any) -> str:
        given = {"DLCONTAINER_VENV": str(self.folder), **variables}
        return self.shelf.run(self.shelf.python, "-c", TOLD, **given).stdout

    @property
    def packed(self) -> bool:
        return (self.folder / PACK).exists()

    @property
    def left(self) -> list[str]:
        """What of the tree is there."""
        return sorted(view(self.folder))


STUB = [".dlcontainer-module", "bin/activate", "pyvenv.cfg"]


def made(shelf: Shelf, folder: Path) -> Packing:
    shelf.run(str(shelf.folder / "bin/dlcontainer-venv"), str(folder))
    # As pip would, in less time.
    (packages,) = folder.glob("lib/python3*/site-packages")
    with zipfile.ZipFile(write_wheel(folder.parent / "wheels", VERSION)) as wheel:
        wheel.extractall(packages)
    return Packing(shelf=shelf, folder=folder, before=view(folder))


@pytest.fixture
def packing(shelf: Shelf, tmp_path: Path) -> Packing:
    return made(shelf, tmp_path / "my env")


def test_there_and_back(packing: Packing) -> None:
    assert "a tree" in packing.run("--status")
    said = packing.run("--pack", NOW)
    assert f"{packing.folder} is one file now: {PACK}" in said
    assert packing.left == STUB
    assert "one file of" in packing.run("--status")
    told = f"2.0 {packing.folder}\n"
    run, shelf = packing.shelf.run, packing.shelf
    for argv, variables in (
        ((shelf.python, "-c", TOLD), {"DLCONTAINER_VENV": str(packing.folder)}),
        ((packing.command, str(packing.folder), "python", "-c", TOLD), {}),
        (("/bin/sh", "-c", f". '{packing.folder}/bin/activate'; python -c '{TOLD}'"), {}),
    ):
        given: dict[str, Any] = variables
        for cwd in (None, packing.folder, packing.folder / "bin"):
            assert run(*argv, cwd=cwd, **given).stdout == told
    # A script of the environment keeps its first line.
    pip = run(packing.command, str(packing.folder), "pip", "list").stdout
    assert "dlctiny    2.0" in pip
    entered: dict[str, Any] = {"DLCONTAINER_VENV": str(packing.folder)}
    for words in (("install", "x"), ("uninstall", "-y", "dlctiny")):
        refused = run(str(shelf.folder / "bin/pip"), *words, code=2, **entered)
        assert f"next: dlcontainer-venv --unpack {packing.folder}" in refused.stderr
    assert "is a tree again" in packing.run("--unpack", NOW)
    assert view(packing.folder) == packing.before
    assert not packing.packed
    assert packing.used() == told
    assert "is a tree" in packing.run("--unpack", NOW)


def test_it_shows_by_each_of_its_names(shelf: Shelf, tmp_path: Path) -> None:
    """A real name that no bind can hold, and a link to it."""
    real = tmp_path / 'it\'s "a",b:c\\d'
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    packing = made(shelf, link / "env")
    far = tmp_path / "far"
    far.symlink_to(link / "env")
    assert "one file now" in shelf.run(packing.command, "--pack", NOW, str(far)).stderr
    assert (real / "env" / PACK).is_file()
    for name in (link / "env", far):
        told = shelf.run(shelf.python, "-c", TOLD, DLCONTAINER_VENV=str(name)).stdout
        assert told == f"2.0 {name}\n"
    if os.getuid() == 0:
        # Where nothing but its own names shows: no /tmp of the host's.
        hidden = Path(tempfile.mkdtemp(dir="/var/opt", prefix="dlcontainer-packed-"))
        try:
            (hidden / "real").mkdir()
            (hidden / "link").symlink_to("real")
            other = made(shelf, hidden / "link" / "env")
            other.run("--pack", NOW)
            assert other.used() == f"2.0 {other.folder}\n"
        finally:
            shutil.rmtree(hidden)
    shelf.run(packing.command, "--unpack", NOW, str(far))
    assert view(packing.folder) == packing.before


def test_one_mount_a_node(packing: Packing) -> None:
    program("fusermount3", "fuse3")
    packing.run("--pack", NOW)
    job = f"packed{os.getpid()}"
    given = {"DLCONTAINER_KEEP": "30", "FLUX_JOB_ID": job}
    environ = {**packing.shelf.environ, **given, "DLCONTAINER_VENV": str(packing.folder)}
    argv = [packing.shelf.python, "-c", TOLD]
    ranks = [
        subprocess.Popen(
            argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = [rank.communicate(timeout=300) for rank in ranks]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if job in line]
    try:
        assert said == [(f"2.0 {packing.folder}\n", "")] * 3
        assert sorted("-packed/" in line for line in mounts) == [False, True]
    finally:
        for line in mounts:
            subprocess.run(["fusermount3", "-u", "-z", line.split()[1]], check=False)
    # Its process was ended: the next launch makes another one.
    assert packing.used(**given) == f"2.0 {packing.folder}\n"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        if job in line:
            subprocess.run(["fusermount3", "-u", "-z", line.split()[1]], check=False)


def test_a_tree_in_use_stays(packing: Packing) -> None:
    given = {**packing.shelf.environ, "DLCONTAINER_VENV": str(packing.folder)}
    text = f"import sys; print(1, flush=True); sys.stdin.read(); {TOLD}"
    with subprocess.Popen(
        [packing.shelf.python, "-c", text],
        env=given,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "1\n"
            said = packing.run("--pack", NOW)
            assert "the tree beside it stays for now" in said
            assert "processes of yours here run in it" in said
            assert packing.packed
            assert view(packing.folder) == packing.before
            assert packing.used().startswith("2.0 ")
            assert "names of the tree are left" in packing.run("--status")
            assert process.communicate("", timeout=60)[0] == f"2.0 {packing.folder}\n"
        finally:
            process.kill()
    packing.run("--pack", NOW)
    assert packing.left == STUB


@pytest.mark.parametrize(
    ("lines", "job", "why"),
    [
        ("17 R\\n18 PD\\n19 CG\\n20 R\\n", "20", "jobs of yours run and may use it: 17 19"),
        ("18 PD\\n20 R\\n", "20", ""),
        ("$(touch x)\\n", "", "jobs of yours run and may use it"),
        ("", "", ""),
        (None, "", "the scheduler does not say which jobs of yours run"),
    ],
)
def test_jobs_of_other_hosts(
    packing: Packing, tmp_path: Path, lines: str | None, job: str, why: str
) -> None:
    """What squeue says; tests/integration/slurm asks the real one."""
    (tmp_path / "bin").mkdir()
    squeue = tmp_path / "bin/squeue"
    squeue.write_text("#!/bin/sh\n" + ("exit 1" if lines is None else f"printf '{lines}'") + "\n")
    squeue.chmod(0o755)
    path = f"{squeue.parent}:{packing.shelf.environ['PATH']}"
    said = packing.run("--pack", PATH=path, SLURM_JOB_ID=job)
    assert (f"stays for now: {why}\n" in said) == bool(why)
    assert (packing.left == STUB) == (not why)
    if why:
        packing.run("--pack", NOW, PATH=path)
        assert packing.left == STUB


def test_what_a_colleague_could_have_put_there(packing: Packing) -> None:
    packing.run("--pack", NOW)
    pack = packing.folder / PACK
    aside = pack.with_name("aside")

    def refused(why: str, *words: str) -> None:
        done = packing.shelf.run(
            packing.shelf.python, "-c", TOLD, code=3, DLCONTAINER_VENV=str(packing.folder)
        )
        assert why in done.stderr
        for doing in ("--unpack", "--status", "--pack"):
            assert why in packing.run(doing, code=3)

    for path in (pack, packing.folder):
        mode = path.stat().st_mode
        for more in (0o020, 0o002):
            path.chmod(mode | more)
            refused("others may write to it")
        path.chmod(mode)
    pack.rename(aside)
    pack.symlink_to("aside")
    refused("it is no regular file")
    pack.unlink()
    pack.mkdir()
    refused("it is no regular file")
    pack.rmdir()
    aside.rename(pack)
    if os.getuid() == 0:
        os.chown(pack, NOBODY.uid, -1)
        refused(f"it belongs to user {NOBODY.uid}, its folder to user 0")
        os.chown(pack, 0, -1)
    assert packing.used().startswith("2.0 ")


def test_a_colleague_s_environment(packing: Packing) -> None:
    """Used as their tree would be; changed by nobody else."""
    if os.getuid() != 0:
        skip("another user's environment is made by root", elsewhere="a run as root")
    packing.run("--pack", NOW)
    NOBODY.own(packing.folder)
    assert packing.used() == f"2.0 {packing.folder}\n"
    for doing in ("--pack", "--unpack"):
        assert "belongs to another user" in packing.run(doing, code=2)
    assert "one file of" in packing.run("--status")


def test_no_disk_space(packing: Packing, tmp_path: Path) -> None:
    """Neither way loses anything on a full file system, and the next run with room ends it."""
    if os.getuid() != 0:
        skip("a small file system is made by root", elsewhere="a run as root")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(small)], check=True)
    try:
        there = made(packing.shelf, small / "env")
        (small / "env/big").write_bytes(os.urandom(1_500_000))
        before = view(there.folder)
        fill(small, leave=400_000)
        assert "can't pack" in there.run("--pack", NOW, code=3)
        assert view(there.folder) == before
        assert not list(there.folder.glob(".environment.sqfs.new*"))
        (small / "fill").unlink()
        there.run("--pack", NOW)
        fill(small, leave=400_000)
        said = there.run("--unpack", NOW, code=3)
        assert "No space left on device" in said
        assert there.left == STUB
        assert there.used().startswith("2.0 ")
        (small / "fill").unlink()
        there.run("--unpack", NOW)
        assert view(there.folder) == before
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


def fill(folder: Path, leave: int) -> None:
    room = os.statvfs(folder)
    (folder / "fill").write_bytes(b"x" * (room.f_bavail * room.f_frsize - leave))


def test_two_at_once(packing: Packing) -> None:
    argv = [packing.command, "--pack", NOW, str(packing.folder)]
    both = [
        subprocess.Popen(argv, env=dict(packing.shelf.environ), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=120)[1] for one in both]
    assert 0 in [one.returncode for one in both], said
    assert {one.returncode for one in both} <= {0, 1}, said
    assert packing.packed
    assert packing.used().startswith("2.0 ")
    packing.run("--unpack", NOW)
    assert view(packing.folder) == packing.before


@pytest.mark.parametrize("doing", ["--pack", "--unpack"])
def test_killed_at_any_time(packing: Packing, doing: str) -> None:
    """All its processes at once; where exactly each falls, test_pack_venv.py counts."""
    (packing.folder / "data").mkdir()
    for number in range(200):
        (packing.folder / f"data/{number}").write_text(f"{number}" * 100)
    before = view(packing.folder)
    if doing == "--unpack":
        packing.run("--pack", NOW)
    for wait in (0.1, 0.3, 0.5, 0.7):
        process = subprocess.Popen(
            [packing.command, doing, NOW, str(packing.folder)],
            env=dict(packing.shelf.environ),
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert packing.used() == f"2.0 {packing.folder}\n"
    # A program in the image may outlive the engine for a moment.
    argv = (packing.command, "--pack", NOW, str(packing.folder))
    given = dict(packing.shelf.environ)
    assert poll(lambda: subprocess.run(argv, env=given, check=False).returncode == 0, 60)
    assert packing.left == STUB
    packing.run("--unpack", NOW)
    assert view(packing.folder) == before
    kill_servers(packing.shelf.root, packing.folder)


def test_what_is_refused(packing: Packing, tmp_path: Path) -> None:
    run = packing.shelf.run
    for words in (
        ("--pack",),
        ("--pack", "a", "b"),
        ("--pack", "-x"),
        ("--status",),
        ("--what", "a"),
    ):
        assert "usage: " in run(packing.command, *words, code=2).stderr
    assert "there is no environment" in run(packing.command, "--pack", "none", code=2).stderr
    assert "--pack|--unpack" in run(packing.command, "--help").stdout
    note = packing.folder / ".dlcontainer-module"
    note.write_text("pytorch/1.0\n")
    assert "belongs to the module pytorch/1.0" in packing.run("--pack", code=2)
    note.write_text("tiny/1.0\n")
    cannot: dict[str, Any] = {"DLCONTAINER_RUN_MODE": "unpacked"}
    assert "can't mount" in packing.run("--pack", NOW, code=4, **cannot)
    settings = packing.folder / "pyvenv.cfg"
    text = settings.read_text()
    settings.write_text(text.replace("version = 3.", "version = 2."))
    assert "made with Python 2." in packing.run("--pack", NOW, code=2)
    settings.write_text(text)
    assert not packing.packed
    if os.getuid() == 0:
        hidden = without("mksquashfs")
        done = run(*hidden, packing.command, "--pack", NOW, str(packing.folder), code=4)
        assert "no mksquashfs on PATH" in done.stderr
    packing.run("--pack", NOW)
    done = run(
        packing.shelf.python, "-c", TOLD, code=4, DLCONTAINER_VENV=str(packing.folder), **cannot
    )
    assert "can't be mounted on this host" in done.stderr
    # The module was published again under its name, with another Python.
    note = packing.folder / ".dlcontainer-image"
    note.write_text("another 3.2\n")
    done = run(packing.shelf.python, "-c", TOLD, DLCONTAINER_VENV=str(packing.folder))
    assert "was packed for Python 3.2, and tiny/1.0 has Python 3." in done.stderr
    rank: dict[str, Any] = {"SLURM_PROCID": "1", "DLCONTAINER_VENV": str(packing.folder)}
    assert run(packing.shelf.python, "-c", TOLD, **rank).stderr == ""


def test_in_lmod(packing: Packing, lmod: str) -> None:
    script = """
module load tiny
dlcontainer-venv --pack --now "$1"
. "$1/bin/activate"
python -c "$2"
deactivate
module help tiny
"""
    said = in_shell(packing.shelf, (lmod, "lmod"), script, str(packing.folder), TOLD)
    assert f"2.0 {packing.folder}\n" in said
    assert "dlcontainer-venv --pack ~/my-env" in said


def test_a_kernel_of_a_packed_environment(packing: Packing, world: World, tmp_path: Path) -> None:
    (packages,) = packing.folder.glob("lib/python3*/site-packages")
    (packages / "ipykernel").mkdir()
    (packages / "ipykernel/__init__.py").touch()
    packing.run("--pack", NOW)
    home = tmp_path / "home"
    home.mkdir()
    path = f"{packing.shelf.folder / 'bin'}:{packing.shelf.environ['PATH']}"
    user = world.having(HOME=home, PATH=path, DLCONTAINER_VENV=packing.folder)
    assert "wrote " in user.run("export", "jupyter").stdout


@pytest.fixture(autouse=True)
def _no_mount_is_left() -> Iterator[None]:
    yield

    def none() -> bool:
        return not any(PACK in line for line in Path("/proc/self/mounts").read_text().splitlines())

    assert poll(none, 30)
