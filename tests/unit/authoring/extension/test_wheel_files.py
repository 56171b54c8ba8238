"""Wheels as a layer: where their files go, commands, RECORD; and wheels that lie."""

import csv
import hashlib
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest

from dlcontainer.authoring.extension import wheel_files
from dlcontainer.errors import BuildError, ChecksFailedError
from tests import wheelhouse
from tests.unit.authoring.extension.places import PATHS, PYTHON, SITE


def make(folder: Path, **modules: str) -> Path:
    files = {name.replace("__", "/"): text for name, text in modules.items()}
    return wheelhouse.wheel(folder, "so-so", "1.0", modules={"so.py": "A = 1\n", **files})


def test_every_file_has_its_place(tmp_path: Path) -> None:
    data = "so_so-1.0.data"
    modules = {
        "so.py": "A = 1\n",
        f"{data}/purelib/pure.py": "",
        f"{data}/scripts/run": "#!python\nprint(1)\n",
        f"{data}/headers/so.h": "",
        f"{data}/data/share/doc.txt": "text",
        "so_so-1.0.dist-info/entry_points.txt": "[console_scripts]\nsay = so:Cls.say\n",
    }
    wheel = wheelhouse.wheel(tmp_path, "so-so", "1.0", modules=modules)
    files = wheel_files.plan(wheel, PATHS, PYTHON, is_asked=True)
    wheel_files.lay(files, tmp_path / "layer", PYTHON, 10**6)
    laid = {
        f"/{path.relative_to(tmp_path / 'layer')}": path
        for path in (tmp_path / "layer").rglob("*")
        if path.is_file()
    }
    info = f"{SITE}/so_so-1.0.dist-info"
    names = ("METADATA", "WHEEL", "RECORD", "INSTALLER", "REQUESTED", "entry_points.txt")
    assert laid.keys() == {
        *(f"{info}/{name}" for name in names),
        *(f"{SITE}/so.py", f"{SITE}/pure.py", "/opt/base/bin/run", "/opt/base/bin/say"),
        *("/opt/base/include/site/python3.11/so-so/so.h", "/opt/base/share/doc.txt"),
    }
    assert laid["/opt/base/bin/run"].read_text() == f"#!{PYTHON}\nprint(1)\n"
    assert laid["/opt/base/bin/run"].stat().st_mode & 0o777 == 0o755
    assert laid[f"{SITE}/so.py"].stat().st_mode & 0o777 == 0o644
    assert wheel_files.commands(files, PATHS) == ["run", "say"]
    assert laid["/opt/base/bin/say"].read_text().startswith(f"#!{PYTHON}\n")
    rows = list(csv.reader(laid[f"{info}/RECORD"].read_text().splitlines()))
    assert len(rows) == len(laid)
    for name, sha256, size in rows:
        path = (tmp_path / "layer" / SITE.lstrip("/") / name).resolve()
        assert path in {file.resolve() for file in laid.values()}
        if not name.endswith("/RECORD"):
            digest = urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
            assert sha256 == f"sha256={digest.decode().rstrip('=')}"
            assert int(size) == path.stat().st_size


def test_a_command_starts_its_function(tmp_path: Path, real_processes: None) -> None:
    modules = {
        "so.py": "class Cls:\n    @staticmethod\n    def say():\n        return 7\n",
        "so_so-1.0.dist-info/entry_points.txt": "[console_scripts]\nsay = so:Cls.say\n",
    }
    wheel = wheelhouse.wheel(tmp_path, "so-so", "1.0", modules=modules)
    files = wheel_files.plan(wheel, PATHS, PYTHON, is_asked=False)
    wheel_files.lay(files, tmp_path / "layer", PYTHON, 10**6)
    program = tmp_path / "layer/opt/base/bin/say"
    argv = [sys.executable, str(program)]
    path = {"PYTHONPATH": str(tmp_path / "layer" / SITE.lstrip("/"))}
    assert subprocess.run(argv, env=path, check=False).returncode == 7


@pytest.mark.parametrize(
    "member",
    ["../out.py", "/abs.py", "a/../../out.py", "a\\b.py", "a//b.py", "so_so-1.0.data/what/x"],
)
def test_a_path_out_of_its_folder(tmp_path: Path, member: str) -> None:
    wheel = wheelhouse.wheel(tmp_path, "so-so", "1.0", modules={"so.py": ""})
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(zipfile.ZipInfo(member), "x")
    with pytest.raises(BuildError, match=r"can't install the wheel so_so-1\.0"):
        wheel_files.plan(wheel, PATHS, PYTHON, is_asked=True)


@pytest.mark.parametrize("line", ["a b = so:x", "../x = so:x", "say = so", "say = so:x; import os"])
def test_a_command_that_can_t_be_made(tmp_path: Path, line: str) -> None:
    points = {"so_so-1.0.dist-info/entry_points.txt": f"[console_scripts]\n{line}\n"}
    wheel = wheelhouse.wheel(tmp_path, "so-so", "1.0", modules={"so.py": "", **points})
    with pytest.raises(BuildError, match="can't install"):
        wheel_files.plan(wheel, PATHS, PYTHON, is_asked=True)


def test_no_wheel_and_one_of_two_packages(tmp_path: Path) -> None:
    (tmp_path / "so_so-1.0-py3-none-any.whl").write_text("no zip")
    with pytest.raises(BuildError, match="can't install"):
        wheel_files.plan(tmp_path / "so_so-1.0-py3-none-any.whl", PATHS, PYTHON, is_asked=True)
    numpy = {"so.py": "", "numpy-2.3.5.dist-info/METADATA": "Name: numpy\n"}
    wheel = wheelhouse.wheel(tmp_path, "so-so", "1.0", modules=numpy)
    with pytest.raises(BuildError) as caught:
        wheel_files.plan(wheel, PATHS, PYTHON, is_asked=True)
    assert caught.value.why is not None
    assert "numpy-2.3.5.dist-info" in caught.value.why


def test_a_bomb_ends_early(tmp_path: Path) -> None:
    wheel = make(tmp_path)
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.bin", bytes(5_000_000))
    files = wheel_files.plan(wheel, PATHS, PYTHON, is_asked=True)
    with pytest.raises(ChecksFailedError, match="unpacks to more than"):
        wheel_files.lay(files, tmp_path / "layer", PYTHON, 1_000_000)
    assert sum(path.stat().st_size for path in (tmp_path / "layer").rglob("*")) < 3_000_000
