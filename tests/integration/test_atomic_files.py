"""A writer that is killed: the old file stays."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, pathlib, signal, sys
from dlcontainer.system import atomic_files

def die(*args, **keywords):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, sys.argv[1], die)
atomic_files.write(pathlib.Path(sys.argv[2]), "new")
"""


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_killed_writer_leaves_the_old_file(tmp_path: Path, step: str) -> None:
    target = tmp_path / "x"
    target.write_text("old")
    for _ in range(2):  # what a killed one leaves is in nobody's way
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, step, str(target)], capture_output=True, check=False
        )
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        assert target.read_text() == "old"
    # Hidden, and named for the file that they would have become.
    left = {path.name for path in tmp_path.iterdir()} - {"x"}
    assert len(left) == 2
    assert all(name.startswith(".x.") for name in left)
