"""A dead mount that an earlier run left in pytest's folders breaks no later run."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlcontainer.lab.slowfs import mounting
from dlcontainer.system.machine import find_program, mounts_below
from dlcontainer.system.process import ProcessRunner
from dlcontainer.system.workspace import unmount_below
from tests.integration.world import missing

CHECKOUT = Path(__file__).parents[2]
# Any test that has a folder of its own.
ANY = "tests/unit/system/test_workspace.py::test_a_file_appears_whole"


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Path]:
    """Give a folder of pytest's with the folders of earlier runs."""
    if not os.access(mounting.DEVICE, os.R_OK | os.W_OK):
        missing("/dev/fuse that you may open")
    if find_program("fusermount3", os.environ) is None:
        missing("fusermount3 (package fuse3)")
    folder = tmp_path / "pytest-of-somebody"
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        unmount_below(tmp_path, ProcessRunner(environ=os.environ))


def leave_dead(point: Path) -> Path:
    """Leave a mount that nobody serves, as a killed server with its guard does."""
    point.mkdir(parents=True)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            ["fusermount3", "-o", "ro,subtype=slowfs", "--", point],
            env={**os.environ, "_FUSE_COMMFD": str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            check=True,
        )
        _, (device,), _, _ = socket.recv_fds(ours, 1, 1)
        os.close(device)
    with pytest.raises(OSError, match="endpoint is not connected"):
        point.stat()
    return point


def run(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run pytest on one test, with its folders in this one."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, ANY]
    own = {"PYTEST_DEBUG_TEMPROOT": str(folder.parent), "LOGNAME": "somebody"}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        argv, env=kept | own, cwd=CHECKOUT, capture_output=True, text=True, check=False
    )


def test_a_dead_mount_of_an_earlier_run_is_unmounted(runs: Path) -> None:
    # The oldest goes in the next run; what an even earlier one could not remove is there still.
    dead = [
        leave_dead(runs / "pytest-1/test_a0/it's a, point"),
        leave_dead(runs / "pytest-1/popen-gw0/test_b0/a\\b\nc"),
        leave_dead(runs / "garbage-0123/test_a0/point"),
    ]
    for number in range(2, 5):
        (runs / f"pytest-{number}").mkdir()
    broken = run(runs, "--noconftest")
    assert broken.returncode != 0, "pytest itself is no longer broken by it"
    for _ in range(2):
        done = run(runs)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed" in done.stdout
    assert mounts_below(runs) == []
    assert [path for path in dead if path.exists()] == []
    assert not list(runs.glob("garbage-*"))


def test_a_mount_of_a_run_that_goes_on_stays(runs: Path) -> None:
    mine = leave_dead(runs / "pytest-1/test_a0/point")
    (runs / "pytest-1/.lock").write_text(str(os.getpid()))
    killed = leave_dead(runs / "pytest-2/test_a0/point")
    gone = subprocess.Popen(["true"])
    gone.wait()
    (runs / "pytest-2/.lock").write_text(str(gone.pid))
    done = run(runs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [mount.point for mount in mounts_below(runs)] == [mine]
    assert list(killed.iterdir()) == []


def test_a_base_folder_that_is_named_is_made_free_too(runs: Path, tmp_path: Path) -> None:
    leave_dead(tmp_path / "base/test_a0/point")
    done = run(runs, "--basetemp", str(tmp_path / "base"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert mounts_below(tmp_path) == []


def test_a_mount_that_stays_ends_a_run_with_the_line_to_type(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = leave_dead(runs / "pytest-1/test_a0/point")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("fusermount3", "umount"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    done = run(runs)
    monkeypatch.undo()
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"unmount it by hand: umount -l -- {point}" in done.stderr
