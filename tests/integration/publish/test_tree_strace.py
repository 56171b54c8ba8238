"""SIGKILL at each system call that changes a file system, by strace: C code's own calls too."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.publish.tools import program
from tests.treefaults import SCENARIOS, Stage
from tests.values import ROOT

CALLS = (
    *("rename", "renameat", "renameat2", "mkdir", "mkdirat", "symlink", "symlinkat", "linkat"),
    *("unlink", "unlinkat", "rmdir", "fchmod", "fchown", "fchownat", "fsync", "write"),
)
PROGRAM = """
import sys
from pathlib import Path
from tests.treefaults import SCENARIOS
SCENARIOS[sys.argv[1]].change(Path(sys.argv[2]), Path(sys.argv[3]))
"""
# Of these each call; the long set has each of all.
SHORT = ("symlinkat", "renameat2")


def changed(name: str, stage: Stage, *options: str) -> int:
    """Change in a program below strace; give its exit code, which is 137 where it was killed."""
    told = [program("strace", "strace"), "-f", "-qq", *options]
    argv = [sys.executable, "-B", "-c", PROGRAM, name, str(stage.root), str(stage.images)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*told, *argv], env=environ, cwd=ROOT, check=False, timeout=120)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def counted(name: str, stage: Stage, folder: Path) -> Counter[str]:
    """Count the calls of a change that nothing stops."""
    log = folder / "trace"
    assert changed(name, stage, "-o", str(log), "-e", f"trace={','.join(CALLS)}") == 0
    lines = (line.split(maxsplit=1)[1] for line in log.read_text().splitlines())
    return Counter(line.partition("(")[0] for line in lines)


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("takeover", SHORT),
        # The other changes take the same road; test_tree_kills.py has all of them.
        *(
            pytest.param(name, CALLS, marks=pytest.mark.long)
            for name in ("facts", "collect", "takeover")
        ),
    ],
)
def test_killed_at_each_system_call(tmp_path: Path, name: str, calls: tuple[str, ...]) -> None:
    stage = Stage(tmp_path, SCENARIOS[name])
    stage.reset()
    counts = counted(name, stage, tmp_path)
    killed = 0
    for call in calls:
        # strace counts each call by itself.
        for at in range(1, counts[call] + 1):
            stage.reset()
            inject = f"inject={call}:signal=SIGKILL:when={at}"
            options = ("-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
            assert changed(name, stage, *options) == 137, (call, at)
            stage.require_whole((call, at))
            stage.require_next((call, at))
            killed += 1
    assert killed == sum(counts[call] for call in calls) > 0
