"""One mount for all ranks and launches of a node: wrappers that keep an image mounted."""

import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.publish.test_wrapper_modes import Fake, fake
from tests.integration.publish.tools import Shelf, program
from tests.processes import poll

# Where the tree of this process is.
WHERE = "import os; print(os.environ['APPTAINER_CONTAINER'], os.listdir('/opt'))"
BASE = Path(f"/tmp/dlcontainer-{os.geteuid()}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job of this test alone: what is kept for it is nobody else's."""

    shelf: Shelf
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, *argv: str, keep: str = "10") -> "subprocess.CompletedProcess[str]":
        own = {"DLCONTAINER_KEEP": keep, "FLUX_JOB_ID": self.name}
        user = replace(self.shelf, environ={**self.shelf.environ, **own})
        return user.run(user.python, *argv)

    @property
    def servers(self) -> list[int]:
        """The processes that serve this job's mount."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if "squashfuse" in words and self.name in words:
                found.append(int(path.parent.name))
        return found

    @property
    def mounted(self) -> bool:
        return self.name in Path("/proc/self/mounts").read_text()


def remove(point: Path) -> None:
    """Remove a mount and what lies beside it; others' mounts lie in the same folder."""
    subprocess.run(["fusermount3", "-u", "-z", str(point)], check=False, capture_output=True)
    if point.exists():
        point.rmdir()
    for suffix in (".lock", ".refused"):
        Path(f"{point}{suffix}").unlink(missing_ok=True)


@pytest.fixture
def job(shelf: Shelf) -> Iterator[Job]:
    program("fusermount3", "fuse3")
    made = Job(shelf=shelf)
    yield made
    for name in {str(path) for path in BASE.glob(f"*{made.name}*")}:
        remove(Path(name.removesuffix(".lock").removesuffix(".refused")))


def test_launches_share_a_mount_which_goes_when_idle(job: Job) -> None:
    first = job.run("-c", WHERE)
    where = Path(first.stdout.split()[0])
    assert (first.stderr, where.parent) == ("", BASE)
    [server] = job.servers
    again = job.run("-c", "import torch, os; print(os.environ['APPTAINER_CONTAINER'])")
    assert (again.stdout.strip(), job.servers) == (str(where), [server])
    plain = job.run("-c", WHERE, keep="0")
    assert plain.stdout.split()[0] == str(job.shelf.folder / "image.sif")
    # Nothing of whoever was first is held by what stays: no pipe, no socket, no lock.
    held = {str(path.readlink()) for path in Path(f"/proc/{server}/fd").iterdir()}
    image = str(job.shelf.folder / "image.sif")
    assert held <= {"/dev/null", "/dev/fuse", image} | {h for h in held if "anon_inode" in h}
    assert poll(lambda: not job.servers and not job.mounted, 60)


def test_a_mount_in_use_is_kept_beyond_its_time(job: Job) -> None:
    text = "import time; time.sleep(16); import json.tool, torch; print('still here')"
    assert job.run("-c", text).stdout == "still here\n"


def test_ranks_that_come_at_once_make_one_mount(job: Job) -> None:
    given = {**job.shelf.environ, "DLCONTAINER_KEEP": "30", "FLUX_JOB_ID": job.name}
    argv = [job.shelf.python, "-c", "import torch, os; print(os.environ['APPTAINER_CONTAINER'])"]
    ranks = [
        subprocess.Popen(argv, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = {rank.communicate(timeout=300) for rank in ranks}
    assert [rank.returncode for rank in ranks] == [0, 0, 0, 0]
    assert len(said) == 1
    assert len(job.servers) == 1


def test_a_dead_mount_is_made_anew(job: Job) -> None:
    job.run("-c", "pass", keep="60")
    [server] = job.servers
    os.kill(server, signal.SIGKILL)
    assert poll(lambda: not job.servers, 60)
    assert job.mounted  # dead: every look at it fails
    done = job.run("-c", WHERE, keep="60")
    assert (done.stderr, Path(done.stdout.split()[0]).parent) == ("", BASE)
    assert job.servers not in ([], [server])


def test_a_dead_mount_of_a_job_before_goes_too(job: Job, shelf: Shelf) -> None:
    job.run("-c", "pass", keep="60")
    os.kill(job.servers[0], signal.SIGKILL)
    assert poll(lambda: not job.servers, 60)
    later = Job(shelf=shelf, name=f"{job.name}-later")
    later.run("-c", "pass")
    dead = [line for line in Path("/proc/self/mounts").read_text().splitlines() if job.name in line]
    assert [f"{later.name} " in line for line in dead] == [True]


def test_a_mount_that_cannot_run_is_refused_once(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    squashfuse = folder / "squashfuse_ll"
    # The engine's own mounts work.
    real = program("squashfuse_ll", "squashfuse")
    squashfuse.write_text(
        f'#!/bin/sh\ncase $* in *timeout=*) ;; *) exec {real} "$@" ;; esac\n'
        f"echo >> {tmp_path}/calls\necho no such device >&2\nexit 1\n"
    )
    squashfuse.chmod(0o755)
    given: dict[str, Any] = {"DLCONTAINER_KEEP": "10", "FLUX_JOB_ID": job.name}
    given["PATH"] = f"{folder}:{job.shelf.environ['PATH']}"
    for _ in range(2):
        done = job.shelf.run(job.shelf.python, "-c", WHERE, **given)
        assert done.stdout.split()[0] == str(job.shelf.folder / "image.sif")
        assert "the image can't be kept mounted: no such device (not tried again" in done.stderr
    assert (tmp_path / "calls").read_text() == "\n"


def test_what_is_no_time(tmp_path: Path) -> None:
    there = fake(tmp_path)
    for value in ("9", "00", "060", "soon", "-1", "1 0", "$(id)"):
        done = there.shelf.run(there.shelf.python, DLCONTAINER_KEEP=value, code=2)
        assert f"DLCONTAINER_KEEP is '{value}'" in done.stderr
        assert "at least 10" in done.stderr


def at(there: Fake, base: Path) -> Shelf:
    """Move where a wrapper keeps its mounts to a folder of the test's."""
    path = Path(there.shelf.python)
    text = path.read_text()
    assert text.count("/tmp/dlcontainer-") == 1
    path.write_text(text.replace("/tmp/dlcontainer-", f"{base}/of-"))
    return there.shelf


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    there = fake(tmp_path)
    shelf = at(there, tmp_path)
    (tmp_path / "planted").mkdir()
    (tmp_path / f"of-{os.geteuid()}").symlink_to("planted")
    done = shelf.run(shelf.python, DLCONTAINER_KEEP="10")
    assert "is not your own folder" in done.stderr
    assert there.calls()[-1].endswith(f"<{shelf.folder}/image.sif><python>")
    assert not list((tmp_path / "planted").iterdir())


def test_where_nothing_can_be_mounted(tmp_path: Path) -> None:
    there = fake(tmp_path)
    there.works("unpacked")
    done = there.shelf.run(there.shelf.python, DLCONTAINER_KEEP="10")
    assert "can't be kept mounted: nothing can be mounted on this host" in done.stderr
    assert "<--unsquash>" in there.calls()[-1]


@pytest.mark.parametrize("number", ["ƒM7Zq9", "../../x", "$(id) \n", "x" * 300, "\udcff"])
def test_a_job_whose_id_is_no_name_keeps_a_mount_of_its_own(job: Job, number: str) -> None:
    other = replace(job, name=number + job.name)
    runs = [other.run("-c", WHERE) for _ in range(2)]
    assert [run.stderr for run in runs] == ["", ""]
    [point] = {Path(run.stdout.split()[0]) for run in runs}
    try:
        assert point.parent == BASE
        assert re.search(r"-sha256-[0-9a-f]{64}$", point.name)
        assert f" {point} " in Path("/proc/self/mounts").read_text()
    finally:
        remove(point)


def test_the_site_may_ask_for_it(tmp_path: Path) -> None:
    there = fake(tmp_path, modules={"keep_mounted": 600})
    shelf = at(there, tmp_path)
    (tmp_path / f"of-{os.geteuid()}").write_text("in the way")
    # What the site wished for is none of the user's: nothing is said.
    done = shelf.run(shelf.python)
    assert (done.stderr, len(there.calls())) == ("", 2)
