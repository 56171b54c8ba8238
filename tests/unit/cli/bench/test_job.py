"""The options of `bench job`: what is wrong is said before a job is made."""

from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.job.job_records import StepDeclaration
from dlcontainer.cli.bench import job, job_words
from dlcontainer.errors import BenchDataError, UsageError
from tests.jobsessions import Clockwork, context
from tests.unit.cli.bench.test_defaults import typed


@pytest.mark.parametrize(("text", "found"), [("1s", 1.0), ("0.25", 0.25), (" 3 s", 3.0)])
def test_a_margin_is_in_seconds(text: str, found: float) -> None:
    assert job_words.seconds(text) == found


@pytest.mark.parametrize("text", ["0", "-1", "2%", "nan", "inf", ""])
def test_what_is_no_margin(text: str) -> None:
    with pytest.raises(UsageError, match="seconds of start-up"):
        job_words.seconds(text)


@pytest.mark.parametrize(
    ("text", "says"), [("step (", "not a regular expression"), ("", "the pattern is empty")]
)
def test_what_is_no_pattern(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        job_words.pattern(text)


@pytest.mark.parametrize("text", ["abc", "-1", "1:2:3:4", ""])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(UsageError, match="not a time limit of this scheduler"):
        job_words.limit(text)
    assert job_words.limit("0:20:00") == 1200


def test_a_limit_that_no_scheduler_reads_may_be_two() -> None:
    with pytest.raises(UsageError, match=r"--time 30:00 is 0:30:00 .*, and 30:00:00 to LSF"):
        job_words.limit("30:00")


def test_a_file_is_neither_replaced_nor_gone_on_with_when_complete(tmp_path: Path) -> None:
    from dlcontainer.bench.job import job_session

    path = job_session.run(context(tmp_path, Clockwork()))
    with pytest.raises(BenchDataError, match="the file exists already"):
        job._cut(typed(target=path))
    with pytest.raises(BenchDataError, match="the session is complete"):
        job._cut(typed(resume=path))
    assert job._cut(typed(target=tmp_path / "new.jsonl")) is None


def steps(**changes: Any) -> StepDeclaration | None:
    usual: dict[str, Any] = {"without": False, "mark": None, "warm_up": 10, "margin": "2%"}
    return job_words.steps(**{**usual, **changes})


def test_steps_as_they_are_typed() -> None:
    hooked, marked = steps(), steps(mark="step", warm_up=3, margin="5%")
    assert hooked is not None
    assert (hooked.source, hooked.mark, hooked.margin) == ("optimizer", None, 0.02)
    assert marked is not None
    assert (marked.source, marked.mark, marked.warm_up, marked.margin) == (
        "output",
        "step",
        3,
        0.05,
    )
    assert steps(without=True) is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mark": "step ("}, "--step-mark 'step \\(': not a regular expression"),
        ({"mark": ""}, "--step-mark: the pattern is empty"),
        ({"margin": "90%"}, "--step-margin 90%: must be a share"),
        ({"without": True, "mark": "step"}, "--no-steps and --step-mark are incompatible"),
    ],
)
def test_what_is_no_step(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        steps(**changes)


@pytest.mark.parametrize("name", ["a:b", "a,b"])
def test_a_folder_that_no_path_of_python_can_name(name: str) -> None:
    with pytest.raises(UsageError, match="has a colon or a comma in its name"):
        job_words.require_plain(Path("/home") / name, "")
    job_words.require_plain(Path("/home/a b"), "")
