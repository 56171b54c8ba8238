"""The benchmark of the start-up runs, at its smallest."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

from benchmarks import startup
from dlcontainer.formats import texts
from tests.integration.world import missing

SCRIPT = Path(startup.__file__)


def test_further_texts(tmp_path: Path) -> None:
    samples = startup._further_texts({"PATH": "/usr/bin", "HOME": str(tmp_path)}, rounds=1)
    assert set(samples) == {"plan.resolve", "texts.text"}
    assert {len(values) for values in samples.values()} <= set(range(3, len(texts.FORMATS) + 1))


def test_the_script(tmp_path: Path) -> None:
    if importlib.util.find_spec("hpccm") is None:
        missing("hpccm")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "-n", "1", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    body = json.loads(done.stdout)
    assert len(body["rows"]) == 6
    assert body["rounds"] == 1
