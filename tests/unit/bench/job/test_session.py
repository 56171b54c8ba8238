"""Sessions of jobs without any job: their order, their file, what is lost, and the verdict."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import job_analysis, job_file, job_session
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.report import csv_report, inputs, json_report, markdown_report
from dlcontainer.bench.report.sections import jobs, predictions
from dlcontainer.bench.samples import hash_chain
from dlcontainer.errors import BenchDataError, InterruptedByUserError
from tests.jobsessions import Clockwork, context, declared


def measured(folder: Path, submitter: Clockwork, **changes: Any) -> JobSession:
    return job_file.read(job_session.run(context(folder, submitter, **changes)))


def test_a_session_is_whole_and_in_the_drawn_order(tmp_path: Path) -> None:
    clockwork = Clockwork()
    job = measured(tmp_path, clockwork)
    drawn = [
        side
        for pair in declared().order
        for side in (("native", "container") if pair.native_first else ("container", "native"))
    ]
    assert clockwork.sides == ["native", "container", *drawn]
    assert [one.side for one in job.launches] == clockwork.sides
    assert list(job.pairs()) == list(range(1, 9))
    assert job.end is not None
    assert job.end.complete
    assert {one.times.queue_s for one in job.launches if one.times} == {5.0}


@pytest.mark.parametrize(
    ("added", "noise", "margin", "word"),
    [
        (2.0, 0.1, 1.0, "SLOWER"),
        (-0.8, 0.1, 0.5, "FASTER"),
        (0.0, 0.1, 1.0, "EQUIVALENT"),
        (0.3, 0.1, 0.5, "EQUIVALENT"),
        (0.3, 2.0, 0.2, "INCONCLUSIVE"),
        (0.0, 0.0, 1.0, "INCONCLUSIVE"),  # no time is equal to the last digit
    ],
)
def test_the_verdict_where_the_truth_is_known(
    tmp_path: Path, added: float, noise: float, margin: float, word: str
) -> None:
    job = measured(
        tmp_path, Clockwork(added=added, noise=noise), declared=declared(margin_s=margin)
    )
    found = job_analysis.read(job)
    assert found.word == word, found.reasons
    assert found.judged is not None
    if 0 < noise < 1:
        assert found.judged.low - 0.1 <= added <= found.judged.high + 0.1
        assert abs(found.figures["steady_s"].added) < 0.1


def test_few_pairs_have_no_verdict(tmp_path: Path) -> None:
    found = job_analysis.read(measured(tmp_path, Clockwork(), declared=declared(pairs=4)))
    assert (found.word, found.reasons) == ("INCONCLUSIVE", ("4 pairs: a verdict takes 8",))


def test_a_lost_job_is_replaced_with_its_pair(tmp_path: Path) -> None:
    clockwork = Clockwork(odd=lambda n: ("NODE_FAIL", 0) if n in (3, 7) else None)
    job = measured(tmp_path, clockwork)
    assert len(clockwork.sides) == 2 + 16 + 4
    assert len(job.pairs()) == 8
    found = job_analysis.read(job)
    assert found.word == "SLOWER"
    assert sum(found.lost.values()) == 2


def test_more_are_lost_than_declared(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="3 jobs were lost, more than the 2 declared"):
        measured(tmp_path, Clockwork(odd=lambda n: ("NODE_FAIL", 0) if n > 3 else None))


@pytest.mark.parametrize(
    ("odd", "says"),
    [(("TIMEOUT", 0), "ask for more with --time"), (("COMPLETED", 9), "exit code 9")],
)
def test_a_job_that_fails_ends_the_session(tmp_path: Path, odd: tuple[str, int], says: str) -> None:
    with pytest.raises(BenchDataError, match="job of pair 2 failed") as caught:
        measured(tmp_path, Clockwork(odd=lambda n: odd if n == 5 else None))
    assert says in str(caught.value)
    assert "a last word" in str(caught.value)
    job = job_file.read(tmp_path / "j.jsonl")
    assert job.end is not None
    assert not job.end.complete
    with pytest.raises(BenchDataError, match="cannot be resumed"):
        measured(tmp_path, Clockwork(), cut=job)


def test_it_goes_on_after_an_interruption(tmp_path: Path) -> None:
    def cut(number: int) -> BaseException | None:
        return InterruptedByUserError("interrupted by Ctrl-C") if number == 7 else None

    with pytest.raises(InterruptedByUserError):
        measured(tmp_path, Clockwork(odd=cut))
    begun = job_file.read(tmp_path / "j.jsonl")
    assert begun.end is not None
    assert begun.end.reason == "interrupted by the user"
    assert len(begun.pairs()) == 2
    other = replace(declared(), margin_s=2.0)
    with pytest.raises(BenchDataError, match=r"margin_s: 1.0 in the file, now 2.0"):
        measured(tmp_path, Clockwork(), cut=begun, declared=other)
    clockwork = Clockwork()
    job = measured(tmp_path, clockwork, cut=begun)
    assert len(clockwork.sides) == 2 + 12
    assert (len(job.pairs()), len(job.resumes)) == (8, 1)
    assert job_analysis.read(job).word == "SLOWER"


def changed(path: Path, line: int, **changes: Any) -> None:
    """Change a line, and make every hash fit again."""
    chain, texts = "", []
    for number, text in enumerate(path.read_text().splitlines(), start=1):
        body = json.loads(text)
        del body["chain"]
        if number == line:
            body |= {k: {**body[k], **v} if isinstance(v, dict) else v for k, v in changes.items()}
        encoded, chain = hash_chain.encode(body, chain)
        texts.append(encoded)
    path.write_text("".join(texts))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"times": {"start_s": 9.0}}, "not the sum of its phases"),
        ({"times": {"process_s": 99.0}}, "longer than all of it"),
        ({"pair": 7}, "not the one that the seed draws"),
        ({"error": "none"}, "either its times or a reason"),
    ],
)
def test_a_file_that_contradicts_itself(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    measured(tmp_path, Clockwork())
    path = tmp_path / "j.jsonl"
    changed(path, 4, **changes)
    if "pair" in changes:
        changed(path, 5, **changes)
    with pytest.raises(BenchDataError, match=says):
        job_file.read(path)


def test_a_report_says_seconds_first(tmp_path: Path) -> None:
    measured(tmp_path, Clockwork())
    found = inputs.read(tmp_path / "j.jsonl")
    text = markdown_report.summary([], [found])
    assert "**SLOWER: +2.0 s start-up on 1 node, 1 rank**" in text
    assert "The wait in the queue (mean: native 5.0 s, container 5.0 s) is in no figure." in text
    assert "steady, until the first rank's exit: " in text
    body = json.loads(json.dumps(json_report.report([], [found])))
    assert body["findings"][0]["job"]["verdict"] == "SLOWER"
    with (tmp_path / "j.csv").open("w", newline="") as out:
        csv_report.write([], out, [found])
    rows = (tmp_path / "j.csv").read_text().splitlines()
    assert len(rows) == 1 + 18
    assert "times.start_s" in rows[0]
    assert "rank.first_s" in rows[0]


def test_the_bars_of_a_report_add_up(tmp_path: Path) -> None:
    job = measured(tmp_path, Clockwork())
    for side, parts in jobs.bars(job).items():
        own = [
            one.times.total_s for one in job.launches if one.pair and one.side == side and one.times
        ]
        assert sum(parts.values()) == pytest.approx(sum(own) / len(own))
    [exhibit] = predictions.exhibits([inputs.read(tmp_path / "j.jsonl")])
    assert [plate.name for plate in exhibit.plates] == ["Where the seconds go"]
