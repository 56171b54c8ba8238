import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples.records import AttestedStack
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.cli import main
from tests import benchseries
from tests import findings as made
from tests.benchseries import FACTS, INSIDE
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS
from tests.unit.proof.cases import content, write
from tests.unit.proof.cases import image as proved

EQUAL, SLOWER = str(RECORDINGS / "equal.jsonl"), str(RECORDINGS / "slower-3-percent.jsonl")


def run(*arguments: str) -> int:
    return main._run(["report", *arguments], as_json="--json" in arguments)


def test_a_slower_verdict_alone_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SLOWER) == 0
    assert "SLOWER by 2.8 to 4.2 %" in capsys.readouterr().out


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
    assert "overwrite its own samples" in capsys.readouterr().err


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


def session_at(folder: Path, site: str) -> str:
    own = benchseries.session(benchseries.Plan())
    declared = replace(own.declared, site=site)
    path = folder / "a.jsonl"
    samples = benchseries.draw(benchseries.Plan())
    with Writer(path, replace(own, declared=declared)) as writer:
        writer.stack(AttestedStack(arm="native", facts=FACTS))
        writer.stack(AttestedStack(arm="container", facts=INSIDE))
        for sample in samples:
            writer.sample(sample)
        writer.end(complete=True)
    return str(path)


def test_a_proof_says_how_far_the_session_s_site_got(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = proved(site="delta", node_type="a100x4")
    proof = str(write(tmp_path / "proof.json", content(image=there, date="2026-11-22T10:00:00Z")))
    session, page = session_at(tmp_path, "delta:a100x4"), tmp_path / "a.html"
    assert run(session, "--proof", proof, "-o", str(page)) == 0
    built = "built: 2026-11-22, an image for it ran in a job"
    said = capsys.readouterr().out
    assert "## How far delta:a100x4 got" in said
    assert f"- {built}" in said
    for path in (page, tmp_path / "a.md"):
        assert "How far delta:a100x4 got" in path.read_text()
        assert "an image for it ran in a job" in path.read_text()
    assert run(session, "--proof", proof, "--json") == 0
    assert built in json.loads(capsys.readouterr().out)["reached"]["delta:a100x4"]
    assert run(session) == 0
    assert "How far" not in capsys.readouterr().out


def test_a_proof_without_a_session_has_no_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(path) for path in made.all_of(tmp_path)]
    assert run(*paths, "--proof", str(tmp_path / "proof.json")) == 2
    assert "site show SITE --proof PATH" in capsys.readouterr().err
