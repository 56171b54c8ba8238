"""Files of other versions, and what the reader checks beyond the hashes."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from dlcontainer.bench.analysis.qualification import standings
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.samples import hash_chain, reader
from dlcontainer.bench.samples.records import Resume, Sample
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.cli import main
from dlcontainer.errors import BenchDataError
from tests import benchseries, residents
from tests.benchseries import Plan
from tests.judging import analyse
from tests.residents import Truth
from tests.unit.bench.samples.test_reader import chained, fields


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return benchseries.write(tmp_path / "a.jsonl", Plan(pairs=4, control_pairs=2))


@pytest.mark.parametrize("number", [1, 2])
def test_a_format_of_before_07_is_refused_with_who_reads_it(
    written: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    records = fields(written)
    records[0] |= {"schema": f"dlcontainer/bench/{number}", "dlcontainer": "0.1.0"}
    with pytest.raises(BenchDataError, match=r"before 0\.7\.0") as caught:
        reader.read(chained(written, records))
    assert str(caught.value.where) == f"{written}:1"
    assert caught.value.why == "dlcontainer 0.1.0 wrote this file"
    assert "dlcontainer 0.9.1, the last version that can" in str(caught.value.next_step)
    assert main._run(["report", str(written)], as_json=False) == 7
    assert "0.9.1" in capsys.readouterr().err


@pytest.mark.parametrize("procedure", [1, None])
def test_a_procedure_of_before_07_is_refused_with_who_reads_it(
    written: Path, procedure: int | None
) -> None:
    """A declaration that does not say is of the first, as 0.3 wrote it."""
    with pytest.raises(BenchDataError, match="procedure 1 for launches") as caught:
        reader.read(declaring(written, procedure))
    assert "before 0.7.0" in str(caught.value)
    assert "0.9.1" in str(caught.value.next_step)


def test_groups_whose_turns_were_drawn_by_lot_are_refused(tmp_path: Path) -> None:
    path = residents.write(tmp_path / "groups.jsonl", Truth())
    with pytest.raises(BenchDataError, match="procedure 2 for groups") as caught:
        reader.read(declaring(path, 2))
    assert "0.9.1" in str(caught.value.next_step)


def test_a_procedure_of_tomorrow_is_refused(written: Path) -> None:
    with pytest.raises(BenchDataError, match="unsupported procedure 3 for launches") as caught:
        reader.read(declaring(written, 3))
    assert "this version reads procedure 2" in str(caught.value.why)
    assert "or a newer one" in str(caught.value.next_step)


@pytest.mark.parametrize("procedure", [True, "2", 2.0, [2]])
def test_what_is_no_procedure_is_refused(written: Path, procedure: object) -> None:
    with pytest.raises(BenchDataError, match=r"declared\.procedure") as caught:
        reader.read(declaring(written, procedure))
    assert str(caught.value.where) == f"{written}:1"


@pytest.mark.parametrize("unpaired", [None, 3])
def test_a_resume_line_of_091_is_read(tmp_path: Path, unpaired: int | None) -> None:
    """It holds a key of bench/2, which has been null since."""
    path = benchseries.write(tmp_path / "a.jsonl", Plan(pairs=4, complete=False))
    resume: dict[str, object] = {
        "kind": "resume",
        "started": "2026-01-05T10:00:00Z",
        "unpaired": unpaired,
    }
    chained(path, [*fields(path), resume])
    if unpaired is None:
        assert len(reader.read(path).resumes) == 1
        return
    with pytest.raises(BenchDataError, match="unpaired"):
        reader.read(path)


def declaring(path: Path, procedure: object) -> Path:
    """Write a file again, each hash right, with another procedure; None: without the key."""
    records = fields(path)
    declared = dict(cast("dict[str, object]", records[0]["declared"]))
    declared |= {"procedure": procedure}
    if procedure is None:
        del declared["procedure"]
    stated = hash_chain.digest(hash_chain.canonical(declared))
    records[0] |= {"declared": declared, "declared_sha256": stated}
    return chained(path, records)


def test_an_edited_declaration(written: Path) -> None:
    records = fields(written)
    declared = records[0]["declared"]
    assert isinstance(declared, dict)
    declared["margin"] = 0.05
    with pytest.raises(BenchDataError, match="does not match its hash"):
        reader.read(chained(written, records))


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
