"""The probe under every Python that is here: 3.6 is the oldest promised, 3.13 the newest tried."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.config.resources import PROBE
from tests.skips import skip
from tests.unit.probe.test_probe import copied, probe

MINORS = range(6, 14)
# As deep as a version manager (pyenv) keeps them; its stand-ins on PATH may have nothing behind.
MANAGED = "~/.pyenv/versions/3.{minor}.*/bin/python"

# A framework of nothing: what is tried is the probe around it.
TRAINER = """
import probe_train


class Trainer(object):
    framework = None
    device = "cpu"

    def __init__(self, wanted):
        probe_train.settle_sizes(wanted, self.device)
        self.kept = []

    def step(self, number):
        self.kept.append(sum(range(20000)) * 0.0 + 1.0 / (number + 1))

    def settle(self):
        pass

    def clock(self):
        return probe_train.Clock()

    def losses(self):
        return self.kept

    def counts(self):
        return {"own": 1}
"""


def works(program: str, minor: int) -> bool:
    ask = [program, "-c", "import sys; print(sys.version_info[1])"]
    done = subprocess.run(ask, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == str(minor)


@cache
def interpreter(minor: int) -> str | None:
    pattern = Path(MANAGED.format(minor=minor)).expanduser()
    managed = sorted(Path("/").glob(str(pattern)[1:]))
    names = [shutil.which(f"python3.{minor}"), *map(str, managed)]
    return next((name for name in names if name and works(name, minor)), None)


@pytest.fixture(params=MINORS, ids=lambda minor: f"3.{minor}")
def python(request: pytest.FixtureRequest, real_processes: None) -> str:
    found = interpreter(request.param)
    if found is None:
        # Old ones are in no current distribution; the next test wants at least one of them.
        skip(
            f"no python3.{request.param} here; any build of it on PATH will do",
            elsewhere="test_an_old_python_is_here",
        )
    return found


@pytest.mark.usefixtures("real_processes")
def test_an_old_python_is_here() -> None:
    if not any(interpreter(minor) for minor in range(6, 9)):
        skip("no Python 3.6, 3.7 or 3.8 here: the probe was only parsed for them")


def test_import(python: str, tmp_path: Path) -> None:
    folder = copied(tmp_path / "it's a probe")
    code, said = probe(python, folder, "import", "--module", "decimal")
    assert (code, said["ok"], said["error"]) == (0, True, None)
    stamps = said["stamps_ns"]
    assert stamps["python"] <= stamps["site"] <= stamps["import"]
    stack = said["stack"]
    assert stack["python"].startswith("3.")
    assert stack["affinity"] == sorted(os.sched_getaffinity(0))
    assert stack["libraries"]
    assert stack["library_builds"] == {}
    assert stack["sys_prefix_mount"] != "unknown"
    assert said["values"]["import_cpu_s"] >= 0


def test_an_import_that_fails(python: str, tmp_path: Path) -> None:
    code, said = probe(python, copied(tmp_path / "p"), "import", "--module", "no_such_module")
    assert (code, said["ok"]) == (1, False)
    assert said["error"].startswith("ModuleNotFoundError")


def test_training(python: str, tmp_path: Path) -> None:
    folder = copied(tmp_path / "p")
    (folder / "train_torch.py").write_text(TRAINER)
    code, said = probe(python, folder, "train", "--steps", "7", "--warmup", "2", "--seed", "3")
    assert (code, said["probe"], len(said["steps_s"]), len(said["losses"])) == (0, "train", 7, 9)
    assert said["values"]["wall_s"] >= max(said["steps_s"])
    assert said["counts"]["own"] == 1
    assert said["workload"]["batch"] == 16


def test_every_file_compiles(python: str, tmp_path: Path) -> None:
    code = "import sys\nfor path in sys.argv[1:]: compile(open(path).read(), path, 'exec')"
    files = sorted(map(str, PROBE.glob("*.py")))
    assert files
    words = [python, "-c", code, *files]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def look_round(python: str, folder: Path) -> Any:
    """Run what `validate` feeds to an image's Python, with a manifest of the test's."""
    content = {
        "recipe": {"prefix": "/opt/x", "verify": {"imports": {"json": "", "no_such": "1"}}},
        "environment": {},
    }
    manifest = folder / "manifest.json"
    body = {"content": content, "python": "x", "digest": "d", "verify": "v"}
    manifest.write_text(json.dumps(body))
    script = (PROBE / "image_check.py").read_text()
    assert 'MANIFEST = "' in script
    lines = [
        f"MANIFEST = {str(manifest)!r}" if line.startswith("MANIFEST = ") else line
        for line in script.splitlines()
    ]
    done = subprocess.run(
        [python, "-"], input="\n".join(lines), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_looking_round_an_image(python: str, tmp_path: Path) -> None:
    said = look_round(python, tmp_path)
    found = {entry["module"]: entry["error"] for entry in said["imports"]}
    assert found["json"] == ""
    assert found["no_such"].startswith("ModuleNotFoundError")


@pytest.mark.usefixtures("real_processes")
def test_nothing_newer_than_36_of_the_standard_library_is_used() -> None:
    vermin = shutil.which("vermin") or str(Path(sys.executable).with_name("vermin"))
    if not Path(vermin).exists():
        skip("no vermin here; type `make setup`")
    argv = [vermin, "-t=3.6-", "--violations", "--no-tips", str(PROBE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
