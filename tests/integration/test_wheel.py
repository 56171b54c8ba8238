"""The wheel: built, installed into an empty environment, used from the root folder."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.values import GOLDEN, ROOT

SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE"),
    *("dlcontainer", "recipes", "templates", "site-configs"),
)


def run(*argv: object, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env["HOME"] = str(cwd)
    words = [str(word) for word in argv]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # From a copy: a checkout may hold build outputs, and it stays as it is.
    folder = tmp_path_factory.mktemp("it's a copy")
    for name in SOURCES:
        source, target = ROOT / name, folder / "source" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
    (folder / "source" / "recipes" / "left.log").write_text("")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist",
        cwd=folder / "source")  # fmt: skip
    [built] = (folder / "dist").iterdir()
    return built


def test_what_is_in_it(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        f"dlcontainer/_data/{path.relative_to(ROOT)}"
        for kind in ("recipes", "templates", "site-configs")
        for path in (ROOT / kind).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped <= names
    assert "dlcontainer/probe/inside.py" in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dlcontainer"}


def test_it_renders_from_the_root_folder(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "it's empty"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    purelib = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", purelib, cwd=tmp_path).strip())
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    # Its dependencies are this environment's; the package itself is the wheel's.
    here = run(sys.executable, "-c", purelib, cwd=tmp_path).strip()
    program = (
        f"import sys; sys.path.append({here!r}); import dlcontainer; "
        f"assert dlcontainer.__file__.startswith({str(site)!r}), dlcontainer.__file__; "
        "from dlcontainer.cli.main import run; run()"
    )
    argv = (python, "-c", program, "render", "--site", "example-slurm")
    wanted = (GOLDEN / "pytorch-2.13.0-example-slurm" / "apptainer.def").read_text()
    assert run(*argv, cwd=Path("/")) == wanted
    listed = run(python, "-c", program, "site", "list", cwd=Path("/"))
    assert "example-slurm" in listed
