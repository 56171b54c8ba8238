"""The three lines that open a report: by one session, several, none, on a busy machine."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.seconds import Seconds
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, inputs, json_report, markdown_report
from dlcontainer.bench.report.sections import answers
from dlcontainer.bench.report.sections.answers import SHARED
from dlcontainer.bench.report.sections.spoken_answer import SpokenAnswer
from dlcontainer.bench.report.text import seconds_text
from dlcontainer.bench.samples.declared_file import digest
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.traits import START, TRAINING
from dlcontainer.bench.scale import matrix as matrices
from dlcontainer.bench.scale import matrix_file
from dlcontainer.errors import BenchDataError
from tests.benchseries import Plan
from tests.unit.bench.analysis.test_across_sessions import sessions, written
from tests.unit.bench.analysis.test_session_analysis import recorded
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.scale.test_analysis import cell, header, launched
from tests.unit.bench.scale.test_analysis import write as write_matrix

SIDES = (("native", "files", "none"), ("image", "engine", "node"))


def training(*analyses: Analysis) -> SpokenAnswer:
    answered = answers.of(analyses, ())
    assert [answer.question for answer in answered] == [TRAINING, START, SHARED]
    return answered[0]


@pytest.mark.parametrize(
    ("name", "said", "sure"),
    [
        ("equal", "Yes", "likely"),
        ("slower-3-percent", "No", "likely"),
        ("noisy", "Can't tell", "unsure"),
        ("other-torch", "Can't tell", "unsure"),
        ("interrupted", "Can't tell", "unsure"),
    ],
)
def test_one_session(name: str, said: str, sure: str) -> None:
    answer = training(recorded(name))
    assert (answer.reply, answer.sure) == (said, sure)
    verdict = recorded(name).verdict
    if sure == "likely":
        assert verdict.word in answer.figures
        difference = verdict.difference
        assert difference is not None
        hour = f"{3600 * (difference.ratio - 1):+.0f} s an hour"
        assert hour in answer.line
    elif verdict.reasons:
        reason = verdict.reasons[0]
        assert f"{reason[:1].lower()}{reason[1:]}" in answer.line
        is_refused = verdict.word == "NOT COMPARABLE"
        assert ("the two sides can't be compared: " in answer.line) == is_refused
    else:
        assert ": these pairs show neither a difference nor" in answer.line


def test_a_start_is_told_in_seconds() -> None:
    _, start, _ = answers.of([recorded("import")], ())
    assert start.reply == "No"
    assert seconds_text.added(recorded("import")) in start.line
    assert "an hour (" not in start.line


def test_what_was_not_measured_says_how_to() -> None:
    _, start, shared = answers.of([recorded("equal")], ())
    assert start.line.startswith("Not measured: use dlcontainer bench import")
    assert shared.line.startswith("Not measured: use dlcontainer bench import-matrix")
    assert (start.sure, shared.sure) == ("", "")


@pytest.mark.parametrize(
    ("command", "place"), [("bench train", 0), ("bench import", 1), ("bench import-matrix", 2)]
)
def test_what_was_left_out_says_why(tmp_path: Path, command: str, place: int) -> None:
    path = tmp_path / "left-out.json"
    body = {"schema": "dlcontainer/not-measured/1", "command": command, "why": "no /dev/<fuse>"}
    path.write_text(json.dumps(body))
    finding = inputs.read(path)
    said = [answer.line for answer in answers.of([], [finding])]
    assert said[place].startswith(f"Not measured: no /dev/<fuse>; use dlcontainer {command}")
    assert all("fuse" not in line for line in said if line is not said[place])
    page = html_report.html([], TEMPLATES, [finding])
    assert "no /dev/&lt;fuse&gt;" in page.replace("\N{NO-BREAK SPACE}", " ")
    assert "<title>Nothing was measured</title>" in page
    # What was measured is said, and no reason why not.
    behind_it = behind(tmp_path / "m.jsonl", 3.0)
    *_, shared = answers.of([recorded("equal"), recorded("import")], [finding, behind_it])
    assert "fuse" not in shared.line


@pytest.mark.parametrize(
    ("key", "value"), [("command", "rm"), ("why", "a\nb"), ("why", "x" * 401), ("why", 3)]
)
def test_a_reason_that_is_no_line_is_refused(tmp_path: Path, key: str, value: Json) -> None:
    path = tmp_path / "left-out.json"
    body = {"schema": "dlcontainer/not-measured/1", "command": "bench train", "why": "w"}
    path.write_text(json.dumps({**body, key: value}))
    with pytest.raises(BenchDataError) as caught:
        inputs.read(path)
    assert str(caught.value.why).startswith(f"{key}: ")


def test_a_delay_names_its_source_or_is_an_assumption(tmp_path: Path) -> None:
    *_, bare = answers.of([], [behind(tmp_path / "a.jsonl", 3.0)])
    assert "emulated, 1 ms a call (an assumption)" in bare.figures
    sourced = behind(tmp_path / "b.jsonl", 3.0, source="A's Lustre: 0.9 ms a stat")
    *_, shared = answers.of([], [sourced])
    assert "emulated, 1 ms a call (as A's Lustre: 0.9 ms a stat)" in shared.figures
    for finding, said in (
        (sourced, "The delay is taken from A's Lustre: 0.9 ms a stat."),
        (behind(tmp_path / "c.jsonl", 3.0), "The delay is an assumption."),
    ):
        (exhibit,) = html_report.page([], [finding]).exhibits
        assert said in exhibit.words


def test_the_demo_names_the_site_of_its_delay() -> None:
    matrix = matrices.read(Path(__file__).parents[4] / "benchmarks/demo-shared.yaml")
    assert matrix.stand_in is not None
    assert "Cirrus" in str(matrix.stand_in.source)
    assert matrix.stand_in.latency_ms == 1


def test_no_file_about_any_of_it_no_lines() -> None:
    assert answers.of([], ()) == ()


def busy(analysis: Analysis) -> Analysis:
    session = analysis.series.session
    machine = {**session.machine, "load_1min": 9.0, "busy_cores": 2.0, "cores": 2}
    series = replace(analysis.series, session=replace(session, machine=machine))
    return replace(analysis, series=series)


def test_a_session_on_a_busy_machine_can_not_tell() -> None:
    answer = training(busy(recorded("slower-3-percent")))
    assert (answer.reply, answer.sure) == ("Can't tell", "unsure")
    assert "others were at work on this machine (load 9.0 on 2 cores" in answer.line
    # What was seen is not lost.
    assert "SLOWER by" in answer.line


def test_several_allocations_are_sure(tmp_path: Path) -> None:
    answer = training(*sessions(tmp_path, [1.05, 1.05, 1.05]))
    assert (answer.reply, answer.sure) == ("No", "sure")
    assert "across 3 allocations" in answer.line


def test_eight_that_agree_but_are_of_one_allocation(tmp_path: Path) -> None:
    plans = [Plan(seed=seed, ratio=1.05) for seed in range(1, 9)]
    answer = training(*(written(tmp_path, plan, allocation="one") for plan in plans))
    assert (answer.reply, answer.sure) == ("No", "likely")
    assert answer.figures.endswith("; 8 results agree")


def test_sessions_that_contradict_each_other(tmp_path: Path) -> None:
    slower, equal = sessions(tmp_path, [1.05, 1.0])
    assert (slower.verdict.word, equal.verdict.word) == ("SLOWER", "EQUIVALENT")
    answer = training(slower, equal)
    assert (answer.reply, answer.sure) == ("Can't tell", "unsure")
    assert "2 results contradict each other: No, SLOWER by" in answer.line
    assert "; Yes, EQUIVALENT" in answer.line


def test_one_that_decides_beside_one_that_does_not(tmp_path: Path) -> None:
    answer = training(*sessions(tmp_path, [1.05]), recorded("noisy"))
    assert (answer.reply, answer.sure) == ("No", "likely")
    assert answer.figures.endswith("; 1 can't tell")


def test_a_matrix_answers_for_a_shared_file_system(tmp_path: Path) -> None:
    found = inputs.read(write_matrix(tmp_path / "m.jsonl", rounds=6))
    *_, shared = answers.of([], [found])
    assert shared.reply == "The native tree is ready first"
    assert shared.sure == "likely"


def behind(
    path: Path, image_s: float, *, source: str | None = None, **machine: Json
) -> inputs.InputFinding:
    """Write a matrix behind 1 ms a call, whose native tree takes 9 s."""
    cells = tuple(cell(subject=s, open=o, mount=m, ranks=4) for s, o, m in SIDES)
    layer: Json = {"profile": "lustre", "latency_ms": 1.0, "read_latency_ms": 1.0, "source": source}
    declared = replace(
        header().declared,
        cells=cells,
        matrix={**header().declared.matrix, "stand_in": layer},
    )
    session = replace(
        header(),
        declared=declared,
        declared_sha256=digest(declared),
        machine={"node": "n1", "cores": 2, **machine},
    )
    with matrix_file.FORMAT.writer(path, session) as writer:
        for number in range(6):
            for side, seconds in enumerate((9.0, image_s)):
                writer.write(launched(side, number, seconds * (1 + 0.01 * (number % 3))))
        writer.end(complete=True, reason="")
    return inputs.read(path)


def test_the_delay_at_which_both_take_as_long(tmp_path: Path) -> None:
    warm = recorded("import")
    assert warm.seconds is not None
    *_, shared = answers.of([warm], [behind(tmp_path / "m.jsonl", 3.0)])
    assert shared.reply == "The image is ready first"
    assert "4 ranks on 1 node" in shared.figures
    assert "emulated, 1 ms a call" in shared.figures
    # On a line from the warm seconds that the image costs to those that it saves here.
    even = warm.seconds.added / (warm.seconds.added + 6.06)
    assert f"both are equally fast at about {even:.1g} ms a call" in shared.figures
    *_, slower = answers.of([warm], [behind(tmp_path / "s.jsonl", 12.0)])
    assert slower.reply == "The native tree is ready first"
    assert "no break-even up to 1 ms a call" in slower.figures


def test_an_import_that_was_not_decided_is_no_ground_for_a_break_even(tmp_path: Path) -> None:
    found = behind(tmp_path / "m.jsonl", 3.0)
    for starts in ([], [busy(recorded("import"))]):
        *_, shared = answers.of(starts, [found])
        assert shared.reply == "The image is ready first"
        assert "both take as long" not in shared.figures


def test_a_matrix_of_a_busy_machine_can_not_tell(tmp_path: Path) -> None:
    *_, shared = answers.of([], [behind(tmp_path / "m.jsonl", 3.0, load_1min=1.0, busy_cores=1.5)])
    assert (shared.reply, shared.sure) == ("Can't tell", "unsure")
    assert "seen then: the image is ready first; 4 ranks" in shared.figures
    *_, idle = answers.of([], [behind(tmp_path / "i.jsonl", 3.0, load_1min=9.0, busy_cores=0.0)])
    assert idle.sure == "likely"


def test_all_three_stand_first_in_each_form(tmp_path: Path) -> None:
    analyses = [recorded("equal"), recorded("import")]
    lines = [answer.line for answer in answers.of(analyses, ())]
    page = html_report.html(analyses, TEMPLATES).replace("\N{NO-BREAK SPACE}", " ")
    assert page.index("In three lines") < page.index('class="session"')
    for answer in answers.of(analyses, ()):
        assert answer.reply.replace("'", "&#39;") in page
    settled = html_report.page(analyses)
    text = markdown_report.page(settled)
    assert text.index(markdown_report.text(lines[0])) < text.index("## ")
    assert [brief.headline for brief in html_report.briefs(analyses)][:3] == lines
    told = json_report.report(analyses)["answers"]
    assert isinstance(told, list)
    assert [each["question"] for each in told] == [TRAINING, START, SHARED]


@pytest.mark.parametrize(
    ("added", "low", "high", "text"),
    [
        (0.92, 0.83, 1.01, "+0.9 s"),
        (0.12, -0.04, 0.28, "+0.12 s (-0.04 to +0.28 s)"),
        (-0.3, -0.5, -0.1, "-0.3 s (-0.5 to -0.1 s)"),
        (0.004, -0.0004, 0.01, "+0.0040 s (-0.0004 to +0.0100 s)"),
        (0.0, 0.0, 0.0, "+0.000 s (+0.000 to +0.000 s)"),
    ],
)
def test_no_bound_is_rounded_to_nothing(added: float, low: float, high: float, text: str) -> None:
    assert seconds_text.cost(Seconds(added=added, low=low, high=high)) == text
