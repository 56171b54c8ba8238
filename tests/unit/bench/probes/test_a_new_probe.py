"""A probe that is added as docs/extend/add-a-probe.md says: command, session, report, JSON."""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis import calibration
from dlcontainer.build import write_record
from dlcontainer.build.base.root_tree import BaseTree
from dlcontainer.build.write_record import BuildFacts
from dlcontainer.config import resources
from dlcontainer.image import record
from tests.sifs import write_sif
from tests.skips import skip
from tests.values import HOST, ROOT, TRIAL, folder_of, plan_of

DOC = ROOT / "docs/extend/add-a-probe.md"
FILE = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```", re.DOTALL)
ENTRY = re.compile(r"^PROBES: .*?\}\n", re.MULTILINE | re.DOTALL)
IMPORTED = re.compile(r"^from dlcontainer\.bench\.probes\.(?:copy|hash)_ import .*\n", re.MULTILINE)
ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)
CELL = re.compile(r"<t[dh].*?</t[dh]>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
RUN = "from dlcontainer.cli.main import run; run()"
# An engine whose images are folders of this test: it runs the command with this very Python.
ENGINE = """\
#!{python}
import os, sys

words = sys.argv[1:]
if "--version" in words:
    sys.exit(print("apptainer version 1.3.4"))
if "exec" not in words:
    # What it builds is there afterwards.
    for word in words:
        if word.endswith(".sif"):
            open(word, "w").close()
    sys.exit(0)
given = dict(words[i + 1].partition("=")[::2] for i, word in enumerate(words) if word == "--env")
image = next(i for i, word in enumerate(words) if word.endswith(".sif"))
places = {{"/opt/dlcontainer/probe": {probe!r}, "/opt/demo/bin/python": sys.executable}}
command = [places.get(word, word) for word in words[image + 1 :]]
os.execve(command[0], command, {{"PATH": os.defpath, "HOME": "/root", **given}})
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of this checkout, with the page's probe added as the page says."""
    copy = tmp_path / "checkout"
    for name in ("dlcontainer", "recipes", "templates", "site-configs"):
        shutil.copytree(
            ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    shutil.copy(ROOT / "pyproject.toml", copy)
    page = DOC.read_text()
    for name, text in FILE.findall(page):
        assert not (copy / name).exists()
        (copy / name).write_text(text)
    registry = copy / "dlcontainer/bench/probes/__init__.py"
    (entry,), imported = ENTRY.findall(page), IMPORTED.findall(page)
    registry.write_text("".join(imported) + ENTRY.sub(lambda _: entry, registry.read_text()))
    return copy


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = write_sif(tmp_path / "demo.sif")
    plan = plan_of(folder_of(tmp_path))
    facts = BuildFacts(
        plan=plan,
        host=HOST,
        trial=TRIAL,
        image=path,
        base=BaseTree(path=path, sha256="ab", made_at="2026-01-01T00:00:00Z", cached=True),
        text="",
        provenance={},
        packages=(),
        done=(),
        steps=(),
        seconds=1.0,
    )
    write_record.write(record.beside(path), facts)
    return path


def run(checkout: Path, probe: Path, *argv: object, code: int = 0) -> Any:
    """Run the copy's command line with an engine that finds a probe's folder in its image."""
    bin_folder = checkout.parent / "bin"
    bin_folder.mkdir(exist_ok=True)
    engine = bin_folder / "apptainer"
    engine.write_text(ENGINE.format(python=sys.executable, probe=str(probe)))
    engine.chmod(0o755)
    home = checkout.parent / "home"
    home.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, argv)],
        env={"PATH": f"{bin_folder}:{os.defpath}", "HOME": str(home)},
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def on_x86_64() -> None:
    """Let this test run where the image that is made by hand could."""
    if platform.machine() != "x86_64":
        skip("the image made by hand is x86_64's", elsewhere="another processor")


def session(image: Path, *more: object) -> tuple[object, ...]:
    recipe = image.parent / "it's a recipe"
    words = ("--site", "local", "--image", image, "--recipe", recipe, "--native", sys.prefix)
    return (*words, "--pairs", 2, "--controls", 1, "--threads", 1, "--seed", 4, *more)


@pytest.mark.usefixtures("real_processes", "on_x86_64")
def test_a_probe_is_two_files_and_one_entry(checkout: Path, image: Path, tmp_path: Path) -> None:
    probe, samples = checkout / "dlcontainer/probe", tmp_path / "x.jsonl"
    shown = run(checkout, probe, "bench", "hash", "--help").stdout
    assert "--size MIB" in shown
    assert "--module" not in shown
    options = session(image, "--size", 1, "--steps", 3, "-o", samples, "--json")
    said = json.loads(run(checkout, probe, "bench", "hash", *options).stdout)
    assert (said["probe"], said["pairs"]) == ("hash", 2)
    report = json.loads(
        run(checkout, probe, "report", samples, "--json", "-o", tmp_path / "x.html").stdout
    )
    (judged,) = report["sessions"]
    declared = judged["declared"]
    assert (declared["probe"], declared["metric"], declared["steps"]) == ("hash", "wall_s", 3)
    settled = {"calibration": dict(calibration.DECLARED), "steady_s": 0.0}
    assert declared["workload"] == {"threads": 1, "size": 1, **settled}
    assert declared["secondary"] == {"counts.max_rss_mb": 0.05}
    assert judged["complete"]
    # Two pairs are too few for a verdict; nothing stands against comparing the two sides but what
    # others do to the kernels' times on a busy machine.
    if judged["verdict"] != "INCONCLUSIVE":
        assert judged["verdict"] == "NOT COMPARABLE"
        assert all("; allowed: " in reason for reason in judged["reasons"]), judged["reasons"]
    assert list(judged["phases_s"]["container"])[-1] == "ready"
    page = (tmp_path / "x.html").read_text()
    assert "This session compared the time of hashing 1 MiB" in page
    (row,) = [row for row in ROW.findall(page) if "counts.mib_per_s" in row]
    rate = [TAG.sub("", cell).strip() for cell in CELL.findall(row)]
    assert rate[:4] == ["counts.mib_per_s", "MiB/s", "rate", "more is better"]
    assert all(float(value) > 0 for value in rate[4:])
    # Options of one probe are no other's.
    refused = run(checkout, probe, "bench", "import", *session(image, "--size", 1), code=2)
    assert "--size applies to 'bench hash' only" in refused.stderr


@pytest.mark.usefixtures("real_processes", "on_x86_64")
def test_a_probe_with_rows(checkout: Path, image: Path, tmp_path: Path) -> None:
    probe, samples = checkout / "dlcontainer/probe", tmp_path / "x.jsonl"
    words = ("--site", "local", "--image", image, "--recipe", image.parent / "it's a recipe")
    more = ("--native", sys.prefix, "--pairs", 1, "--threads", 1, "--quick", "-o", samples)
    run(checkout, probe, "bench", "copy", *words, *more)
    done = run(checkout, probe, "report", samples, "--json", "-o", tmp_path / "x.html")
    (judged,) = json.loads(done.stdout)["sessions"]
    declared = judged["declared"]
    assert (declared["metric"], declared["control_pairs"]) == ("rows_s", 0)
    assert declared["rows"]["rows"] == [{"kib": 1}, {"kib": 16}]
    assert [row["parameters"] for row in judged["rows"]] == [{"kib": 1}, {"kib": 16}]
    for row in judged["rows"]:
        native = row["arms"]["native"]
        assert 0 < native["best_s"] <= native["median_s"]
        wanted = row["parameters"]["kib"] / native["median_s"] / 2**20
        assert native["rate_GiB/s"] == pytest.approx(wanted)
    assert "Time over kib" in (tmp_path / "x.html").read_text()


@pytest.mark.usefixtures("real_processes", "on_x86_64")
def test_an_image_from_before_is_refused_in_one_line(
    checkout: Path, image: Path, tmp_path: Path
) -> None:
    options = session(image, "--steps", 3, "-o", tmp_path / "x.jsonl")
    done = run(checkout, resources.PROBE, "bench", "hash", *options, code=1)
    assert "does not contain the probe 'hash'" in done.stderr
    assert "rebuild the image" in done.stderr
    assert not (tmp_path / "x.jsonl").exists()
