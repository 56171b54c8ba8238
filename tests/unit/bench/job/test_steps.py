"""The steps of a job: the files of events, the rule, and the verdict of a session."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job import job_analysis, job_file, job_session, step_events, step_times
from dlcontainer.bench.job.job_records import JobSession, Side, StepDeclaration
from dlcontainer.bench.report import csv_report, inputs, json_report, markdown_report
from dlcontainer.bench.report.sections import answers
from dlcontainer.bench.report.sections.shared_answer import CANNOT_TELL
from dlcontainer.errors import BenchDataError
from tests.jobsessions import Clockwork, context, declared, leave_events, steps_declared
from tests.unit.bench.job.test_session import changed
from tests.values import ROOT

OPTIMIZER = steps_declared()
OUTPUT = steps_declared(source="output", mark="step")
STEP = "optimizer-step/0"


def timed(folder: Path, rule: StepDeclaration = OPTIMIZER, ranks: int = 1) -> Any:
    return step_times.timed(step_events.read(folder), ranks, rule)


def test_a_mean_leaves_the_first_steps_out(tmp_path: Path) -> None:
    leave_events(tmp_path, {STEP: [9.0, *[5.0] * 9, *[0.1] * 19, 0.3]})
    found = timed(tmp_path)
    assert (found.reason, found.steps, found.processes[0].counted) == (None, 30, 20)
    assert found.mean_s == pytest.approx(0.11)
    assert found.processes[0].median_s == pytest.approx(0.1)
    assert found.processes[0].longest_s == pytest.approx(0.3)


def test_a_job_is_the_median_of_its_processes(tmp_path: Path) -> None:
    for number, length in enumerate([0.1, 0.2, 0.9]):
        leave_events(tmp_path, {STEP: [length] * 30}, number=number, pid=number)
    assert timed(tmp_path, ranks=3).mean_s == pytest.approx(0.2)


def test_two_optimizers_that_step_in_turn_are_one_step(tmp_path: Path) -> None:
    other = {"optimizer-step/1": [1.1, *[1.0] * 29], "optimizer-step/2": [0.1] * 5}
    leave_events(tmp_path, {STEP: [1.0] * 30, **other, "read": [0.1] * 90})
    assert (timed(tmp_path).steps, timed(tmp_path).mean_s) == (30, pytest.approx(1.0))


@pytest.mark.parametrize(
    ("each", "rule", "ranks", "says"),
    [
        ([], OPTIMIZER, 1, "no optimizer of PyTorch stepped"),
        ([], OUTPUT, 1, "no line of the output matches 'step'"),
        ([{"no-optimizer-hook": [1.0]}], OPTIMIZER, 1, "2.0 and later have"),
        ([{STEP: [1.0] * 19}], OPTIMIZER, 1, "19 steps: the first 10 are left out, and 10 more"),
        ([{STEP: [1.0] * 30}, {STEP: [1.0] * 29}], OPTIMIZER, 2, "numbers of steps: 29 to 30"),
        ([{STEP: [1.0] * 30}], OPTIMIZER, 2, "steps were seen in 1 process of 2 ranks"),
        ([{"mark": [1.0, *[0.0] * 29]}], OUTPUT, 1, "all steps ended at the same moment"),
        ([{"mark": [1.0, 0.001] * 20}], OUTPUT, 1, "came several at once"),
    ],
)  # fmt: skip
def test_why_steps_are_not_measured(
    tmp_path: Path,
    each: Sequence[dict[str, list[float]]],
    rule: StepDeclaration,
    ranks: int,
    says: str,
) -> None:
    for number, kinds in enumerate(each):
        leave_events(tmp_path, kinds, number=number, pid=number)
    found = timed(tmp_path, rule, ranks)
    assert found.mean_s is None
    assert says in found.reason


def test_one_rank_may_print_for_all_and_a_device_may_be_behind(tmp_path: Path) -> None:
    leave_events(tmp_path, {"mark": [1.0] * 30})
    assert timed(tmp_path, OUTPUT, ranks=4).reason is None
    # A full queue is waited for now and then: host times in bursts are steps all the same.
    leave_events(tmp_path, {STEP: [0.001, 0.001, 0.001, 1.0] * 10})
    found = timed(tmp_path)
    assert found.mean_s == pytest.approx(0.25, rel=0.1)


@pytest.mark.parametrize(
    "text",
    [
        "", "{}\n", "[]\n", '{"schema": "other"}\n', "\0\n",
        "HEAD\n1.0\n", "HEAD\nnan mark\n", "HEAD\n-1 mark\n", "HEAD\n2.0 mark\n1.0 mark\n",
    ],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, text: str) -> None:
    head = {"schema": "dlcontainer/events/1", "node": "n", "pid": 1, "rank": None, "mono": 1.0}
    (tmp_path / "x.events").write_text(text.replace("HEAD", json.dumps(head)))
    with pytest.raises(BenchDataError, match="the stamps of a process can't be read"):
        step_events.read(tmp_path)


def test_a_last_line_that_was_cut_is_none(tmp_path: Path) -> None:
    leave_events(tmp_path, {"mark": [1.0] * 3})
    path = next(tmp_path.glob("*.events"))
    path.write_text(path.read_text() + "4.00")
    [events] = step_events.read(tmp_path)
    assert list(events.steps()) == [1.0, 2.0, 3.0]


def lengths(slower: float, noise: float = 0.01) -> Callable[[int, Side], list[float]]:
    draw = random.Random(5)

    def of(_number: int, side: Side) -> list[float]:
        each = 0.1 * (slower if side == "container" else 1) * (1 + draw.uniform(-noise, noise))
        return [3.0, *[each] * 39]

    return of


def measured(folder: Path, clockwork: Clockwork, **changes: Any) -> JobSession:
    own = declared(steps=OPTIMIZER, **changes)
    return job_file.read(job_session.run(context(folder, clockwork, declared=own)))


def steps(job: JobSession) -> Any:
    found = job_analysis.read(job)
    assert found.word == "SLOWER"  # the start-up, in any case
    return found.steps


@pytest.mark.parametrize(
    ("slower", "noise", "word"),
    [
        (1.2, 0.01, "SLOWER"),
        (0.8, 0.01, "FASTER"),
        (1.0, 0.01, "EQUIVALENT"),
        (1.0, 0.3, "INCONCLUSIVE"),
        (1.0, 0.0, "INCONCLUSIVE"),  # no time is equal to the last digit
    ],
)
def test_the_verdict_where_the_truth_is_known(
    tmp_path: Path, slower: float, noise: float, word: str
) -> None:
    found = steps(measured(tmp_path, Clockwork(steps=lengths(slower, noise))))
    assert found.verdict.word == word, found.verdict.reasons
    if word in {"SLOWER", "FASTER"}:
        assert found.verdict.difference.low <= slower <= found.verdict.difference.high
    assert found.steps == 40


def other_count(number: int, side: Side) -> list[float]:
    return [0.1] * (41 if side == "container" else 40)


def none_once(number: int, _side: Side) -> list[float]:
    return [] if number == 5 else [0.1] * 40


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (lambda _number, _side: [], "no optimizer of PyTorch stepped"),
        (none_once, "pair 2, "),
        (other_count, "the jobs did different numbers of steps: 4"),
    ],
)
def test_steps_that_are_not_measured_leave_the_start_up(
    tmp_path: Path, of: Callable[[int, Side], list[float]], says: str
) -> None:
    found = steps(measured(tmp_path, Clockwork(steps=of)))
    assert found.verdict is None
    assert says in found.reason
    [_, training, *_] = ("", *answers.of([], [inputs.read(tmp_path / "j.jsonl")]))
    assert training.reply == answers.NOT_MEASURED
    assert found.reason in training.figures


def test_a_damaged_file_of_stamps_is_a_reason(tmp_path: Path) -> None:
    clockwork = Clockwork(steps=lengths(1.0))
    run = clockwork.run

    def damaging(frame: Path, log: Path) -> Any:
        done = run(frame, log)
        (frame.parent / "events" / "x.events").write_text("nothing\n")
        return done

    own = context(tmp_path, clockwork, declared=declared(steps=OPTIMIZER))
    object.__setattr__(own, "submitter", type("S", (), {"run": staticmethod(damaging)}))
    found = steps(job_file.read(job_session.run(own)))
    assert "can't be read" in found.reason


def test_few_pairs_and_a_cut_session_have_no_verdict(tmp_path: Path) -> None:
    found = job_analysis.read(measured(tmp_path, Clockwork(steps=lengths(1.5)), pairs=4)).steps
    assert found is not None
    assert found.verdict is not None
    assert found.verdict.word == "INCONCLUSIVE"
    assert found.verdict.reasons == ("4 pairs, and a verdict takes at least 8",)


def test_what_a_report_says(tmp_path: Path) -> None:
    measured(tmp_path, Clockwork(steps=lengths(1.2)))
    found = inputs.read(tmp_path / "j.jsonl")
    training, start, _ = answers.of([], [found])
    assert (training.reply, training.sure, start.reply) == ("No", "likely", "No")
    assert training.figures.startswith("of your own program: steps SLOWER: +")
    assert "s an hour (" in training.figures
    text = markdown_report.summary([], [found])
    assert "1 rank; steps SLOWER: +" in text
    assert "Work of a GPU that is still queued" in text
    body = json.loads(json.dumps(json_report.report([], [found])))["findings"][0]["job"]["steps"]
    assert (body["verdict"], body["steps"], body["source"]) == ("SLOWER", 40, "optimizer")
    assert body["low"] < body["ratio"] < body["high"]
    assert body["added_s_an_hour"] == pytest.approx(720, abs=40)
    with (tmp_path / "j.csv").open("w", newline="") as out:
        csv_report.write([], out, [found])
    assert "steps.mean_s" in (tmp_path / "j.csv").read_text().splitlines()[0]


def test_a_busy_machine_can_not_tell(tmp_path: Path) -> None:
    measured(tmp_path, Clockwork(steps=lengths(1.2)), scheduler="none")
    changed(tmp_path / "j.jsonl", 1, machine={"load_1min": 99.0})
    training, *_ = answers.of([], [inputs.read(tmp_path / "j.jsonl")])
    assert (training.reply, training.sure) == (CANNOT_TELL, "unsure")
    assert "others were at work on this machine" in training.figures


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": {"mean_s": None}}, "either a mean or a reason"),
        ({"steps": {"reason": "none"}}, "either a mean or a reason"),
    ],
)
def test_a_file_that_contradicts_itself(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    measured(tmp_path, Clockwork(steps=lengths(1.0)))
    changed(tmp_path / "j.jsonl", 4, **changes)
    with pytest.raises(BenchDataError, match=says):
        job_file.read(tmp_path / "j.jsonl")


def test_steps_that_nobody_asked_for(tmp_path: Path) -> None:
    job_session.run(context(tmp_path, Clockwork()))
    steps_of = {"mean_s": 1.0, "steps": 9, "processes": [], "reason": None}
    path = tmp_path / "j.jsonl"
    changed(path, 4, times={}, error=None, lost=False)
    assert job_analysis.read(job_file.read(path)).steps is None
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[3]["steps"] is None
    lines[3]["steps"] = steps_of
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    changed(path, 1)
    with pytest.raises(BenchDataError, match="nobody asked for"):
        job_file.read(path)


def test_a_file_of_a_release_without_steps_is_read(tmp_path: Path) -> None:
    job = job_file.read(ROOT / "tests/recorded/jobs/0.10.jsonl")
    assert job.declared.steps is None
    found = job_analysis.read(job)
    assert (found.word, found.steps) == ("SLOWER", None)
