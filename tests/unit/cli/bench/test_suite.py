"""`bench suite`: a probe that does not fit is named, one that fails stops no other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.measure import bench_image
from dlcontainer.bench.probes import suite_folder as suites
from dlcontainer.cli import main, options
from dlcontainer.cli.bench import sessions
from dlcontainer.cli.bench import suite as command
from dlcontainer.cli.bench.session_options import SessionOptions
from dlcontainer.errors import (
    BenchDataError,
    ChecksFailedError,
    InterruptedByUserError,
    UsageError,
)
from tests.unit.cli.bench.test_defaults import IMAGE

Settle = Callable[[str], None]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[SessionOptions]:
    """Settle and run nothing; what would have been measured."""
    found: list[SessionOptions] = []

    def settled(probe: Any, typed: SessionOptions, *_: object) -> SessionOptions:
        ANSWERS.get(probe.name, lambda: None)()
        found.append(typed)
        return typed

    monkeypatch.setattr(options, "image_file", lambda path: path)
    monkeypatch.setattr(bench_image, "read", lambda *_: IMAGE)
    monkeypatch.setattr(sessions, "settled", settled)
    monkeypatch.setattr(sessions, "run", lambda *_: None)
    monkeypatch.setattr(command, "_report", lambda _files, page, _world: page)
    ANSWERS.clear()
    return found


ANSWERS: dict[str, Callable[[], None]] = {}


def answer(probe: str, error: Exception) -> None:
    def fail() -> None:
        raise error

    ANSWERS[probe] = fail


def run(folder: Path, *more: str) -> int:
    words = ["bench", "suite", "--site", "local", "--image", "x.sif", "-o", str(folder), *more]
    return main._run(words, as_json="--json" in more)


def test_every_probe_is_measured_as_its_own_command_would(
    measured: list[SessionOptions], tmp_path: Path
) -> None:
    assert run(tmp_path / "new", "--only", "import,collectives,kernels") == 0
    files = [one.target.name for one in measured if one.target]
    assert files == ["import.jsonl", "collectives.jsonl", "kernels.jsonl"]
    assert [one.ranks for one in measured] == [None, 2, None]
    assert [one.pairs for one in measured] == [None, None, None]


def test_a_quick_suite_takes_the_small_sets(measured: list[SessionOptions], tmp_path: Path) -> None:
    more = ("--quick", "--only", "import,collectives,kernels", "--ranks", "4")
    assert run(tmp_path, *more, "--launcher", "mpirun") == 0
    assert [one.values.get("quick") for one in measured] == [None, True, True]
    assert [one.pairs for one in measured] == [8, None, None]
    assert [one.ranks for one in measured] == [None, 4, None]
    assert [one.launcher for one in measured] == [None, "mpirun", None]


def test_what_does_not_fit_is_left_out_by_name(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer("kernels", ChecksFailedError("nothing to compute with", why="no torch"))
    assert run(tmp_path, "--only", "import,kernels", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [(one["probe"], one["outcome"], one["why"]) for one in said["probes"]] == [
        ("import", "measured", ""),
        ("kernels", "left out", "nothing to compute with (no torch)"),
    ]
    assert said["report"] == str(tmp_path / "report.html")


@pytest.mark.parametrize("error", [UsageError("no such thing"), BenchDataError("a launch failed")])
def test_one_that_fails_stops_no_other(
    error: Exception,
    measured: list[SessionOptions],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer("import", error)
    assert run(tmp_path, "--only", "import,kernels") == 1
    assert len(measured) == 1
    said = capsys.readouterr()
    assert "1 of 2 probes failed" in said.err
    assert "complete sessions are kept" in said.err


def test_the_table_has_one_line_for_each_probe(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer("import", BenchDataError("exit code 1 (the last that it said:\n  not as root\n  ever)"))
    assert run(tmp_path, "--only", "import,kernels") == 1
    assert len(measured) == 1
    said = capsys.readouterr()
    table = said.out.split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in table] == ["probe", "import", "kernels"]
    assert table[1].endswith("(the last that it said: …")
    assert "not as root" in said.err


def test_ctrl_c_ends_the_suite(measured: list[SessionOptions], tmp_path: Path) -> None:
    answer("import", InterruptedByUserError("ended"))
    assert run(tmp_path, "--only", "import,kernels") == 130
    assert measured == []


@pytest.mark.parametrize(
    ("state", "ran", "asides"), [("whole", 0, 0), ("cut", 1, 0), ("begun", 1, 1), ("new", 1, 0)]
)
def test_a_suite_that_is_given_again(
    state: str,
    ran: int,
    asides: int,
    measured: list[SessionOptions],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "import.jsonl").touch()
    monkeypatch.setattr(suites, "state", lambda *_: state)
    assert run(tmp_path, "--only", "import", "--quick") == 0
    assert len(measured) == ran
    assert len(list(tmp_path.glob("*.begun-*"))) == asides
    for typed in measured:
        goes_on = state == "cut"
        assert (typed.resume is not None) == goes_on
        assert (typed.target is None) == goes_on
        assert typed.pairs == (None if goes_on else 8)
        assert typed.controls == (None if goes_on else "4")


def test_a_quick_training_stays_in_groups(measured: list[SessionOptions], tmp_path: Path) -> None:
    assert run(tmp_path, "--only", "train", "--quick") == 0
    (typed,) = measured
    # Controls would make its groups launches.
    assert (typed.pairs, typed.controls) == (8, None)


def test_a_folder_that_can_not_be_made(
    measured: list[SessionOptions], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert run(tmp_path / "file") == 2
    assert "name a folder" in capsys.readouterr().err
