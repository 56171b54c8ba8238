"""A format as docs/extend/add-a-format.md adds it: rendered alone, with all, and refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from packaging.requirements import Requirement

from dlcontainer.cli import render
from dlcontainer.formats import texts
from tests.values import ROOT, folder_of

DOC = ROOT / "docs/extend/add-a-format.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
ENTRY = re.compile(r'"requirements": [^`]+')
RUN = "from dlcontainer.cli.main import run; run()"


def put(text: str, after: str, more: str) -> str:
    """Put an entry after the only place that has these words."""
    assert text.count(after) == 1, after
    return text.replace(after, f"{after}{more}")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout, with the page's format added as the page says."""
    copy = tmp_path / "checkout"
    for name in ("dlcontainer", "recipes", "templates", "site-configs"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    shutil.copy(ROOT / "pyproject.toml", copy)
    page = DOC.read_text()
    for name, text in FILE.findall(page):
        assert not (copy / name).exists()
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text)
    module, file_name, without = ENTRY.findall(page)
    table = copy / "dlcontainer/formats/texts.py"
    text = put(table.read_text(), "Format = Literal[", '"requirements", ')
    text = put(text, "_MODULES: Mapping[Format, str] = {", f"\n    {module},")
    text = put(text, "FILE_NAMES: Mapping[Format, str] = {", f"\n    {file_name},")
    table.write_text(put(text, "without = {", f"\n        {without},"))
    command = copy / "dlcontainer/cli/render.py"
    command.write_text(put(command.read_text(), "Format = Literal[", '"requirements", '))
    return copy


def run(checkout: Path, *argv: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *argv],
        env={"PATH": os.defpath, "HOME": str(checkout.parent)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def test_the_command_has_every_format() -> None:
    assert get_args(render.Format) == texts.FORMATS


@pytest.mark.usefixtures("real_processes")
def test_a_format_is_a_module_a_template_and_its_entries(checkout: Path, tmp_path: Path) -> None:
    words = ("render", "pytorch", "--site", "example-slurm")
    before = json.loads(run(ROOT, *words, "--json").stdout)
    after = json.loads(run(checkout, *words, "--json", "--format", "requirements").stdout)
    assert after["digest"] == before["digest"]  # its template is in no image
    lines = [line for line in after["text"].splitlines() if not line.startswith("#")]
    pins = {Requirement(line).name: str(Requirement(line).specifier) for line in lines}
    assert pins["torch"].startswith("==2.")
    assert all(pin.startswith("==") for pin in pins.values())
    folder = tmp_path / "all"
    run(checkout, "render", "--all", "--site", "example-slurm", "-o", str(folder))
    texts_of = {path.parent.name: path for path in folder.glob("*/requirements.txt")}
    assert texts_of["pytorch-2.13.0-example-slurm"].read_text() == after["text"]
    assert len(texts_of) > 1


@pytest.mark.usefixtures("real_processes")
def test_a_recipe_without_wheels_is_refused(checkout: Path, tmp_path: Path) -> None:
    recipe = folder_of(tmp_path, steps=[{"name": "a", "shell": "true"}])
    words = ("render", str(recipe), "--site", "local", "-f", "requirements")
    assert "installs no Python packages" in run(checkout, *words, code=3).stderr
