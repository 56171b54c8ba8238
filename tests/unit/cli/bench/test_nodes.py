"""`bench nodes`: exit codes, the page, the baseline, what is refused before anything is read."""

import json
from pathlib import Path

import pytest

from dlcontainer.bench.stats.scatter import outside
from dlcontainer.cli import main
from tests import benchseries, stepseries
from tests.stepseries import Plant


def run(*arguments: object) -> int:
    words = ["bench", "nodes", *map(str, arguments)]
    return main._run(words, as_json="--json" in words)


def write(folder: Path, number: int, seed: int, factor: float = 1.0) -> Path:
    name = f"n{number:02}"
    plant = Plant(nodes=(name,), seed=seed, processes=0.005, pairs=3, steps=50, slow={name: factor})
    return stepseries.write(folder / f"{name}-{seed}.jsonl", plant)


@pytest.fixture
def before(tmp_path: Path) -> list[Path]:
    return [write(tmp_path, number, number) for number in range(outside.FEWEST)]


def test_a_baseline_then_a_slowed_node(
    before: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline, page = tmp_path / "b.json", tmp_path / "x.html"
    assert run(*before, "--write-baseline", baseline) == 0
    assert f"0 of {len(before)} nodes are outside" in capsys.readouterr().out
    slow, fine = write(tmp_path, 3, 50, 1.25), write(tmp_path, 4, 51)
    assert run(fine, "--baseline", baseline) == 0
    assert run(slow, fine, "--baseline", baseline, "-o", page) == 1
    said = capsys.readouterr()
    assert "1 of 2 nodes is outside: n03" in said.err
    assert "slower: its median step is 1.2" in said.out
    text = page.read_text()
    assert "1 of 2 nodes is outside" in text
    assert "n04" in text
    # Claims of the seeds are about sessions.
    assert "scorecard" not in text.partition("</style>")[2]
    # And launches of one node's sessions do count together.
    assert "a second session" not in text
    assert "docs/measure/variability.md" in text
    assert run(slow, fine, "--baseline", baseline, "-o", tmp_path / "x.md") == 1
    assert "| **n03** | **outside** |" in (tmp_path / "x.md").read_text()


def test_json(before: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = write(tmp_path, 40, 50, 1.2)
    assert run(*before, slow, "--json", "--arm", "native") == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["outside"]) == ("dlcontainer/nodes/1", ["n40"])
    (first, *rest) = body["nodes"]
    assert first["median_s"] > first["usual"]["high_s"]
    assert {one["state"] for one in rest} == {"usual"}


def test_too_few(before: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*before[1:]) == 7
    assert f"{outside.FEWEST} are needed" in capsys.readouterr().err


def test_what_is_no_session_of_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = benchseries.write(tmp_path / "x.jsonl", benchseries.Plan(pairs=2, control_pairs=2))
    assert run(other) == 7
    assert "measure each node with `bench variability`" in capsys.readouterr().err
    assert run(tmp_path / "none.jsonl") == 7


def test_nothing_that_is_read_is_replaced(
    before: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = tmp_path / "b.json"
    assert run(*before, "--write-baseline", baseline) == 0
    kept = baseline.read_bytes(), before[0].read_bytes()
    assert run(*before, "--baseline", baseline, "--write-baseline", baseline) == 2
    assert run(*before, "-o", before[0]) == 2
    assert run(*before, "-o", tmp_path / "y", "--write-baseline", tmp_path / "y") == 2
    assert run(*before, "--write-baseline", before[0].with_name("none") / "b.json") == 7
    assert (baseline.read_bytes(), before[0].read_bytes()) == kept
    assert not (tmp_path / "y").exists()
    capsys.readouterr()
    # A baseline takes the place of one.
    assert run(*before, "--write-baseline", baseline) == 0
