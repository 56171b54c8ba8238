"""Every script of benchmarks/ is started, at its smallest size: what is run once a year rots."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dlcontainer.bench.slowfs.mounting import DEVICE
from dlcontainer.system.machine import find_program
from tests.integration.world import missing
from tests.values import ROOT

BENCHMARKS = ROOT / "benchmarks"
# What each prints with --json, or with the option that is given.
SMALL: dict[str, tuple[str, ...]] = {
    "analysis": ("-n", "2000", "--json"),
    "probe_overhead": ("--idle", "0.1", "--pairs", "8", "--raw"),
    "statistics": ("-n", "20", "--json"),
    "storm_calls": ("--packages", "packaging", "--modules", "packaging.version",
                    "--ranks", "1", "--json"),
    "tmpdir": ("-n", "2", "--files", "50", "--json"),
}  # fmt: skip
NEEDS = {"storm_calls": ("mksquashfs", "squashfuse", "fusermount3")}
# Only imported, with --help: they build or need an image or a long run's file, or take minutes.
LARGE = {
    *("build", "emulation", "import_figures", "level", "order", "squash", "startup", "storm"),
    "storm_sshfs",
}


def run(name: str, *argv: object) -> str:
    for program in NEEDS.get(name, ()):
        if find_program(program, os.environ) is None:
            missing(program)
    if "fusermount3" in NEEDS.get(name, ()) and not os.access(DEVICE, os.R_OK | os.W_OK):
        missing(f"{DEVICE} that you may open")
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [sys.executable, str(BENCHMARKS / f"{name}.py"), *map(str, argv)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", SMALL)
def test_it_runs_at_its_smallest(name: str) -> None:
    assert json.loads(run(name, *SMALL[name]))


@pytest.mark.parametrize("name", sorted(LARGE))
def test_it_starts(name: str) -> None:
    assert "usage:" in run(name, "--help")


def test_no_script_is_forgotten() -> None:
    scripts = {
        path.stem
        for path in BENCHMARKS.glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }
    assert scripts == {*SMALL, *LARGE}
