"""`bench suite` with a real engine: each probe that fits, one report, nothing measured twice."""

import json
import re
from pathlib import Path

import pytest

from dlcontainer.bench.samples import reader
from tests.integration.world import Built, World

pytestmark = pytest.mark.timeout(2400)


def suite(user: World, built: Built, folder: Path, *more: object) -> list[tuple[str, str]]:
    argv = ["--site", "local", "--image", built.image, "-o", folder, "--quick", "--json", *more]
    said = json.loads(user.run("bench", "suite", *map(str, argv)).stdout)
    assert said["report"] == str(folder / "report.html")
    return [(one["probe"], one["outcome"]) for one in said["probes"]]


def test_what_fits_is_measured_once(
    launching: World, tiny_image: Built, tiny: Path, tmp_path: Path
) -> None:
    more = ("--recipe", tiny, "--only", "import,kernels")
    folder = tmp_path / "a suite"
    assert suite(launching, tiny_image, folder, *more) == [
        ("import", "measured"),
        ("kernels", "left out"),
    ]
    series = reader.read(folder / "import.jsonl")
    assert series.complete
    assert series.session.declared.pairs == 8
    before = (folder / "import.jsonl").read_bytes()
    assert suite(launching, tiny_image, folder, *more)[0] == ("import", "was whole")
    assert (folder / "import.jsonl").read_bytes() == before
    assert (folder / "report.md").is_file()


@pytest.mark.long
def test_all_that_pytorch_has_in_one_report(
    launching: World, pytorch_image: Built, tmp_path: Path
) -> None:
    found = suite(launching, pytorch_image, tmp_path)
    assert {name for name, outcome in found if outcome == "measured"} >= {
        "import",
        "train",
        "collectives",
        "input",
        "kernels",
        "threads",
    }
    page = (tmp_path / "report.html").read_text()
    for name in ("collectives", "input", "kernels", "threads"):
        assert re.search(rf"\b{name}\b", page), name
