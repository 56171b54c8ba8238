"""Several sessions: two are never pooled, three allocations make a statement."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.across_sessions import across
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, json_report
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, SessionHeader
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.cli import main
from dlcontainer.errors import BenchDataError
from tests import benchseries
from tests.benchseries import Plan
from tests.judging import analyse
from tests.unit.bench.report.test_html_report import TEMPLATES


def written(folder: Path, plan: Plan, **machine: str) -> Analysis:
    path = folder / f"{plan.seed}.jsonl"
    session: SessionHeader = benchseries.session(plan)
    session = replace(session, machine={**session.machine, **machine})
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=plan.reference))
        out.stack(AttestedStack(arm="container", facts=plan.candidate))
        for sample in benchseries.draw(plan):
            out.sample(sample)
        out.end(complete=plan.complete, reason="" if plan.complete else "interrupted by the user")
    return analyse(reader.read(path))


def sessions(folder: Path, ratios: list[float], **changes: object) -> list[Analysis]:
    found = []
    for seed, ratio in enumerate(ratios, start=1):
        plan = replace(Plan(seed=seed, ratio=ratio), **changes)  # type: ignore[arg-type]
        found.append(written(folder, plan, allocation=f"SLURM_JOB_ID={seed}"))
    return found


def test_one_session_is_on_its_own(tmp_path: Path) -> None:
    assert across(sessions(tmp_path, [1.0])) == ()


def test_two_are_never_pooled(tmp_path: Path) -> None:
    (found,) = across(sessions(tmp_path, [1.05, 1.05]))
    assert found.word is None
    assert found.difference is None
    assert "2 allocations, and a verdict across them takes 3" in verdict_text.joint_sentence(found)


def test_sessions_of_one_node_and_day_are_one_place(tmp_path: Path) -> None:
    plans = [Plan(seed=seed, ratio=1.05) for seed in (1, 2, 3)]
    (same,) = across([written(tmp_path, plan, node="n1") for plan in plans])
    assert same.word is None
    assert "one node and day (n1 on 2026-01-05)" in same.reasons[0]
    (other,) = across(
        [
            written(tmp_path, replace(plan, seed=plan.seed + 3), node=f"n{i}")
            for i, plan in enumerate(plans)
        ]
    )
    assert other.word == "SLOWER"


@pytest.mark.parametrize(
    ("ratios", "word"),
    [
        ([1.001, 1.002, 0.999], "EQUIVALENT"),
        ([1.05, 1.052, 1.048, 1.051], "SLOWER"),
        ([0.9, 0.91, 0.905], "FASTER"),
        # Each is clearly slower by itself; over so different allocations nothing is shown.
        ([1.03, 1.30, 1.8], "INCONCLUSIVE"),
    ],
)
def test_the_words_across(tmp_path: Path, ratios: list[float], word: str) -> None:
    import scipy.stats

    members = sessions(tmp_path, ratios)
    (found,) = across(members)
    assert found.word == word
    assert found.difference is not None
    means = [m.main.fitted.mean for m in members if m.main]
    low, high = scipy.stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert math.log(found.difference.low) == pytest.approx(low)
    assert math.log(found.difference.high) == pytest.approx(high)
    page = html_report.html(members, TEMPLATES)
    assert verdict_text.joint_headline(found) in page
    assert page.count('class="joint"') == 1
    json.dumps(json_report.report(members), allow_nan=False)


def test_sessions_that_decided_nothing_count_too(tmp_path: Path) -> None:
    members = sessions(tmp_path, [1.0, 1.0, 1.0], sd=0.07, pairs=8)
    assert {m.verdict.word for m in members} <= {"INCONCLUSIVE", "NOT COMPARABLE"}
    (found,) = across(members)
    assert len(found.members) == 3


def test_one_that_is_not_comparable_refuses_all(tmp_path: Path) -> None:
    members = sessions(tmp_path, [1.0, 1.0])
    members.append(written(tmp_path, Plan(seed=9, candidate=benchseries.OTHER_TORCH)))
    (found,) = across(members)
    assert found.word == "NOT COMPARABLE"
    assert found.reasons[0].startswith("9.jsonl: ")


def test_an_interrupted_one_decides_nothing(tmp_path: Path) -> None:
    members = [*sessions(tmp_path, [1.05, 1.05]), written(tmp_path, Plan(seed=9, complete=False))]
    (found,) = across(members)
    assert (found.word, found.reasons) == (
        "INCONCLUSIVE",
        ("9.jsonl: the session is incomplete",),
    )


def test_one_allocation_twice_is_no_second_one(tmp_path: Path) -> None:
    members = [written(tmp_path, Plan(seed=n), allocation="PBS_JOBID=7") for n in (1, 2, 3)]
    (found,) = across(members)
    assert found.word is None
    assert "PBS_JOBID=7" in found.reasons[0]


def test_one_file_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = sessions(tmp_path, [1.0])
    with pytest.raises(BenchDataError, match="the same session"):
        across([one, one])
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(one.series.path.read_bytes())
    assert main._run(["report", str(one.series.path), str(copy)], as_json=False) == 7
    assert "the same session" in capsys.readouterr().err


def test_other_questions_and_machines_are_not_joined(tmp_path: Path) -> None:
    members = sessions(tmp_path, [1.0, 1.0])
    members.append(written(tmp_path, Plan(seed=7, margin=0.03)))
    members.append(written(tmp_path, Plan(seed=8), cpu_model="another"))
    (found,) = across(members)
    assert len(found.members) == 2


def test_fail_on_asks_the_joint_verdict_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each by itself is FASTER, as is the whole: four verdicts.
    files = [str(m.series.path) for m in sessions(tmp_path, [0.9, 0.91, 0.905])]
    assert main._run(["report", *files, "--fail-on", "faster"], as_json=False) == 1
    said = capsys.readouterr()
    assert "4 of 4 verdicts" in said.err
    assert "across 3 allocations: FASTER" in said.err
    assert "FASTER by 7.5 to 11.2 %, across 3 allocations" in said.out
