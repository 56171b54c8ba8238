"""Files of other versions, and what the reader checks beyond the hashes."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.report import html_report
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.records import Resume, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError
from tests import benchseries
from tests.benchseries import Plan
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.samples.test_reader import chained, fields
from tests.values import ROOT

OLD = ROOT / "tests/recorded/bench-1"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return benchseries.write(tmp_path / "a.jsonl", Plan(pairs=4, control_pairs=2))


@pytest.mark.parametrize(
    ("name", "word"),
    [("equal", "EQUIVALENT"), ("import", "SLOWER"), ("interrupted", "INCONCLUSIVE")],
)
def test_the_first_version_is_read_as_it_was(name: str, word: str) -> None:
    series = reader.read(OLD / f"{name}.jsonl")
    assert series.version == 1
    assert series.looks == (series.session.declared.pairs,)
    analysis = analyse(series)
    assert analysis.verdict.word == word
    assert word in html_report.html([analysis], TEMPLATES)
    new = reader.read(OLD.parent / f"bench/{name}.jsonl")
    assert new.version == 3
    assert analyse(new).verdict == analysis.verdict


@pytest.mark.parametrize(
    ("name", "word"),
    [("equal", "EQUIVALENT"), ("import", "SLOWER"), ("interrupted", "INCONCLUSIVE")],
)
def test_the_second_version_is_read_as_it_was(name: str, word: str) -> None:
    series = reader.read(OLD.parent / f"bench-2/{name}.jsonl")
    assert (series.version, len(series.session.declared.arms)) == (2, 2)
    new = analyse(reader.read(OLD.parent / f"bench/{name}.jsonl"))
    assert analyse(series).verdict == new.verdict
    assert new.verdict.word == word


def test_the_second_version_named_one_launch_without_a_partner(tmp_path: Path) -> None:
    records = fields(OLD.parent / "bench-2/interrupted.jsonl")
    at = next(i for i, record in enumerate(records) if record.get("role") == "pair")
    alone = records[at]["index"]
    again = {**records[at], "index": len(records) - 4}
    resume: dict[str, object] = {
        "kind": "resume", "started": "2026-01-05T10:00:00Z", "unpaired": alone,
    }  # fmt: skip
    series = reader.read(chained(tmp_path / "a.jsonl", [*records, resume, again]))
    assert continuation.set_aside(series) == {alone}
    assert alone not in [sample.index for sample in continuation.used(series)]


def test_an_edited_declaration_of_the_first_version(tmp_path: Path) -> None:
    records = fields(OLD / "equal.jsonl")
    declared = records[0]["declared"]
    assert isinstance(declared, dict)
    declared["margin"] = 0.05
    with pytest.raises(BenchDataError, match="does not match its hash"):
        reader.read(chained(tmp_path / "a.jsonl", records))


def test_a_newer_version_says_which_dlcontainer(written: Path) -> None:
    records = fields(written)
    records[0] |= {"schema": "dlcontainer/bench/6", "dlcontainer": "9.1.0", "novelty": True}
    with pytest.raises(BenchDataError, match="unsupported format") as caught:
        reader.read(chained(written, records))
    assert "9.1.0" in str(caught.value)
    assert "dlcontainer/bench/5" in str(caught.value)


@pytest.mark.parametrize("index", [3, 5, 900])
def test_a_launch_that_is_missing_or_there_twice(written: Path, index: int) -> None:
    records = fields(written)
    records[7]["index"] = index
    with pytest.raises(BenchDataError, match=f"launch {index} found, launch 4 expected") as caught:
        reader.read(chained(written, records))
    assert str(caught.value.where) == f"{written}:8"


def test_after_a_complete_end_nothing_goes_on(written: Path) -> None:
    resume: dict[str, object] = {"kind": "resume", "started": "2026-01-05T10:00:00Z"}
    with pytest.raises(BenchDataError, match="a line follows the end"):
        reader.read(chained(written, [*fields(written), resume]))


def test_only_a_resume_follows_an_interruption(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "a.jsonl", Plan(pairs=4, complete=False))
    records = fields(path)
    sample = {**records[4], "index": len(records)}
    with pytest.raises(BenchDataError, match="a line follows the end"):
        reader.read(chained(path, [*records, sample]))


def test_a_resumed_file_is_read(tmp_path: Path) -> None:
    path, plan = tmp_path / "a.jsonl", Plan(pairs=4, control_pairs=0)
    with Writer(path, benchseries.session(plan)) as out:
        out.sample(benchseries.draw(plan)[0])
        out.end(complete=False, reason="interrupted by the user")
    begun = reader.read(path)
    assert begun.end is not None
    with Writer(path, begun.session, after=begun) as out:
        out.resume(Resume(started="2026-01-05T10:00:00Z", dropped_bytes=3))
        out.sample(benchseries.draw(plan)[1])
        out.end(complete=True)
    series = reader.read(path)
    assert (len(series.samples), series.complete) == (2, True)
    assert [resume.dropped_bytes for resume in series.resumes] == [3]


def test_a_clock_that_was_set_back_is_said(tmp_path: Path) -> None:
    def change(sample: Sample) -> Sample:
        return replace(sample, started="2025-12-31T23:00:00Z") if sample.index == 9 else sample

    path = benchseries.write(tmp_path / "a.jsonl", Plan(change=change))
    analysis = analyse(reader.read(path))
    (line,) = [s.line for s in analysis.series.samples if s.index == 9]
    standing = standings([analysis])[analysis.series.seal]
    assert any(f"set back before line {line}" in note for note in notes(analysis, standing))
