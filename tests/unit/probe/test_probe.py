"""The probe: its syntax is Python 3.6's, it stands alone, and it says what was asked."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE, probe_files
from dlcontainer.image import layout
from tests.values import folder_of, plan_of

FILES = probe_files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_syntax_is_python_36(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_of_the_rest_is_imported(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not [name for name in names if name.startswith("dlcontainer")]


def probe(python: str, folder: Path, *argv: str, env: dict[str, str] | None = None) -> Any:
    done = subprocess.run(
        [python, "-S", str(folder), *argv],
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def oldest() -> str:
    for minor in range(6, 11):
        found = shutil.which(f"python3.{minor}")
        # A version manager's stand-in may be there without the interpreter behind it.
        if (
            found
            and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return found
    return sys.executable


def copied(folder: Path) -> Path:
    folder.mkdir()
    for path in FILES:
        shutil.copy(path, folder)
    return folder


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("which", ["this", "oldest"])
def test_import_probe(which: str, tmp_path: Path) -> None:
    python = sys.executable if which == "this" else oldest()
    folder = copied(tmp_path / "it's a probe")
    environment = {"DLC_PROBE_INSIDE": "5", "SECRET": "x", "OMP_NUM_THREADS": "3"}
    code, said = probe(python, folder, "import", "--module", "json", env=environment)
    assert (code, said["ok"], said["probe"]) == (0, True, "import")
    stamps = said["stamps_ns"]
    assert stamps["inside"] == 5 < stamps["python"] <= stamps["site"] <= stamps["import"]
    stack = said["stack"]
    assert stack["environment"]["OMP_NUM_THREADS"] == "3"
    assert "SECRET" not in stack["environment"]
    assert str(folder) not in stack["sys_path"]
    assert stack["framework"].startswith("json ")


@pytest.mark.usefixtures("real_processes")
def test_an_import_that_fails_is_said(tmp_path: Path) -> None:
    folder = copied(tmp_path / "probe")
    code, said = probe(sys.executable, folder, "import", "--module", "no_such_module")
    assert code == 1
    assert said["error"].startswith("ModuleNotFoundError")


@pytest.mark.usefixtures("real_processes")
def test_files_of_the_probe_hide_no_module(tmp_path: Path) -> None:
    code, _ = probe(sys.executable, copied(tmp_path / "p"), "import", "--module", "probe_train")
    assert code == 1


def test_an_image_carries_the_probe_and_its_digest_says_so(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    bare, full = plan_of(folder), plan_of(folder, probe=FILES)
    targets = {entry.target for entry in full.probe}
    assert targets == {f"{layout.PROBE}/{path.name}" for path in FILES}
    assert full.digest != bare.digest
    changed = tuple(replace(entry, sha256="0" * 64) for entry in full.probe)
    assert replace(full, probe=changed).digest != full.digest
    assert (PROBE / "__main__.py") in FILES


@pytest.mark.usefixtures("real_processes")
@pytest.mark.parametrize("name", ["no_such", "", "../attest"])
def test_a_probe_that_is_not_there(tmp_path: Path, name: str) -> None:
    words = [sys.executable, "-S", str(copied(tmp_path / "p")), name]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    known = "collectives, convergence, devices, import, input, kernels, memory, prove, threads"
    assert f"NAME is one of: {known}, train, transfers, variability" in done.stderr
