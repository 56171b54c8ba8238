import json
from pathlib import Path

import pytest

from dlcontainer.cli import main
from tests import findings as made
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS

EQUAL, SLOWER = str(RECORDINGS / "equal.jsonl"), str(RECORDINGS / "slower-3-percent.jsonl")


def run(*arguments: str) -> int:
    return main._run(["report", *arguments], as_json="--json" in arguments)


def test_a_slower_verdict_alone_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SLOWER) == 0
    assert "SLOWER by 2.0 to 3.2 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code"),
    [("slower", 1), ("slower,inconclusive", 1), ("inconclusive, NOT-COMPARABLE", 0), ("", 0)],
)
def test_fail_on(words: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EQUAL, SLOWER, "--fail-on", words) == code
    said = capsys.readouterr()
    assert "EQUIVALENT within" in said.out
    assert ("slower-3-percent.jsonl: SLOWER" in said.err) == (code == 1)


def test_fail_on_an_unknown_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EQUAL, "--fail-on", "slowr") == 2
    said = capsys.readouterr().err
    assert "slower" in said
    assert "not-comparable" in said


def test_json_is_one_object_also_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SLOWER, "--fail-on", "slower", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "dlcontainer/report/1"
    assert found["sessions"][0]["verdict"] == "SLOWER"


def test_a_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a b.html"
    assert run(EQUAL, SLOWER, "-o", str(target)) == 0
    assert "EQUIVALENT" in target.read_text()
    assert f"wrote {target}, {tmp_path}/a b.md, {tmp_path}/a b.csv" in capsys.readouterr().out
    assert "EQUIVALENT" in (tmp_path / "a b.md").read_text()
    assert (tmp_path / "a b.csv").read_bytes().startswith(b"file,line,seal,index,role")
    assert run(EQUAL, "-o", str(target), "--format", "html", "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"] == [str(target)]


def test_findings_beside_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in made.all_of(tmp_path)]
    assert run(*paths, EQUAL, "-o", str(tmp_path / "a.html")) == 0
    said = capsys.readouterr().out
    assert "EQUIVALENT within" in said
    assert "Storm prediction" in said
    assert run(*paths, EQUAL, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["findings"]) == 4
    standings = {score["id"]: score["standing"] for score in found["scorecard"]}
    assert standings["copper-byte-code"] == standings["summit-no-impact"] == "supported"


def test_format_needs_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EQUAL, "--format", "csv") == 2
    assert "-o report.html" in capsys.readouterr().err


def test_the_samples_are_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(EQUAL).read_bytes()
    assert run(EQUAL, "-o", EQUAL) == 2
    assert Path(EQUAL).read_bytes() == before
    assert "replace its own samples" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "no json\n"])
def test_bad_files_are_bench_data_errors(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    assert run(str(path)) == 7
    assert "next:" in capsys.readouterr().err
    assert run(str(tmp_path / "no.jsonl"), "--json") == 7
    assert json.loads(capsys.readouterr().out)["exit_code"] == 7
