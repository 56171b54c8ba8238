"""A virtual environment, made on a Python from which the distribution took ensurepip."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.setup_scripts import copy_scripts
from tests.skips import skip

PYPROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "dlcontainer"
version = "0"
[project.optional-dependencies]
dev = []
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a small project with the set-up scripts, its path with a space."""
    folder = tmp_path / "a project"
    copy_scripts(folder)
    (folder / "dlcontainer/__init__.py").write_text("answer = 42\n")
    (folder / "pyproject.toml").write_text(PYPROJECT)
    return folder


def setup(project: Path, *options: str, python: str, hide: Path | None) -> str:
    done = subprocess.run(
        [python, "tools/setup_venv.py", *options],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(hide) if hide else ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def answer(project: Path) -> str:
    code = "import dlcontainer; print(dlcontainer.answer)"
    argv = [str(project / ".venv/bin/python"), "-c", code]
    return subprocess.run(argv, cwd="/", capture_output=True, text=True, check=True).stdout.strip()


def test_without_ensurepip(project: Path, tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    if not shutil.which("apt-get") or not Path(python).exists():
        skip("only Debian and Ubuntu take ensurepip out of Python: run it there")
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "ensurepip.py").write_text("raise ImportError('as on a bare Debian')\n")
    output = setup(project, "--unpack-only", python=python, hide=hide)
    assert "this Python has no ensurepip" in output
    assert answer(project) == "42"


def test_the_second_run_does_nothing_and_a_half_made_one_is_made_anew(project: Path) -> None:
    python = getattr(sys, "_base_executable", sys.executable)
    # Not "make": where ensurepip is missing too, it says so instead.
    assert "pip installs" in setup(project, python=python, hide=None)
    assert answer(project) == "42"

    assert "found:" in setup(project, python=python, hide=None)
    # From inside the environment as well, as after `activate`.
    assert "found:" in setup(project, python=str(project / ".venv/bin/python"), hide=None)

    (project / ".venv/setup-stamp.json").unlink()
    (project / ".venv/half").touch()
    assert "pip installs" in setup(project, python=python, hide=None)
    assert not (project / ".venv/half").exists()
    assert answer(project) == "42"
