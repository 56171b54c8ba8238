"""A scaling study in a report: what the first lines say, verdicts, comparisons, refusals."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.report import csv_report, given, html_report, json_report, markdown_report
from dlcontainer.bench.report.figures import scaling_plots
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import answers, scaling, scaling_inputs
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.study import study_analysis, study_sessions
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.errors import BenchDataError
from tests import benchseries
from tests import planted_studies as studies
from tests.benchseries import INSIDE, OTHER_TORCH, Plan
from tests.planted_studies import FULL, Planted, StudyCase
from tests.unit.bench.report.test_html_report import HOSTILE, TEMPLATES


def finding(folder: Path, case: StudyCase) -> InputFinding:
    judged = studies.judged(folder, case)
    return InputFinding(path=judged.study.folder, sha256=judged.study.digest, finding=judged)


def planned(found: InputFinding, file: str, plan: Plan) -> InputFinding:
    """Measure a point again, otherwise."""
    assert isinstance(found.finding, JudgedStudy)
    benchseries.write_quickly(found.path / file, plan)
    judged = study_sessions.judge(found.finding.study)
    return replace(found, finding=judged)


def first_lines(*findings: InputFinding) -> list[str]:
    return [answer.line for answer in answers.of([], findings)]


def page_of(*findings: InputFinding) -> str:
    page = html_report.html([], TEMPLATES, findings)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg
    return page.replace("\N{NO-BREAK SPACE}", " ")


def test_the_first_lines_answer_at_the_last_point(tmp_path: Path) -> None:
    cost, scale = first_lines(finding(tmp_path, StudyCase()))
    assert cost.startswith("No: the container costs nothing (EQUIVALENT within 2 %), ratio 1.00")
    assert re.match(
        r"Efficiency 0\.9\d: native 0\.9\d\d \[0\.9\d\d, 0\.9\d\d\], container 0\.9\d\d \[.*\]; "
        r"what is lost: exposed communication 3\.\d %, waiting 2\.\d %",
        scale,
    )
    assert scale.endswith("(likely)")
    exhibit = scaling.exhibits([finding(tmp_path, StudyCase(folder="again"))])[0]
    assert exhibit.headline.startswith(
        "At 8 ranks the container costs nothing (EQUIVALENT within 2 %); efficiency 0.9"
    )


@pytest.mark.parametrize(
    ("plan", "reply", "said"),
    [
        (Plan(ratio=1.05, pairs=FULL), "Yes", "the container costs 4."),
        (Plan(ratio=0.95, pairs=FULL), "No, it saves time", "the container saves "),
        (Plan(sd=0.07, pairs=8, control_pairs=4), "Can't tell", "it is open whether"),
        (Plan(candidate=OTHER_TORCH), "Can't tell", "the two sides can't be compared (NOT COMPARA"),
        (Plan(pairs=3, control_pairs=0), "Can't tell", "no verdict on the container (3 pairs; a v"),
        (Plan(question="deployment", pairs=FULL), "No", "within 2 %, as shipped)"),
    ],
)
def test_the_verdict_is_that_of_the_last_points_session(
    tmp_path: Path, plan: Plan, reply: str, said: str
) -> None:
    found = planned(finding(tmp_path, StudyCase()), "8-dp8.jsonl", plan)
    cost = first_lines(found)[0]
    assert cost.startswith(f"{reply}: ")
    assert said in cost


def test_a_point_of_few_pairs_has_an_estimate_and_no_verdict(tmp_path: Path) -> None:
    found = finding(tmp_path, StudyCase(ratio=1.3))
    (exhibit,) = scaling.exhibits([found])
    points = exhibit.tables[0]
    by_ranks = {row[0]: row for row in points.rows}
    assert by_ranks["2"][-1] == "none (3 pairs)"
    assert by_ranks["2"][-2].startswith("1.")
    assert by_ranks["8"][-1] == "SLOWER"
    assert "a point of few pairs gives an estimate with its interval, and no verdict" in (
        exhibit.words
    )


def test_emulated_compute_is_named_in_the_first_lines_and_in_the_section(tmp_path: Path) -> None:
    why = "emulated: 8 ranks on 2 cores of a node; they tell of communication alone"
    found = finding(tmp_path, StudyCase(emulated=why))
    lines = first_lines(found)
    assert all(f"({why}) (unsure)" in line for line in lines)
    (exhibit,) = scaling.exhibits([found])
    assert why in exhibit.headline
    assert why[1:] in exhibit.words
    assert page_of(found).count(why[1:]) >= 4


def test_on_a_busy_machine_nothing_is_likely(tmp_path: Path) -> None:
    found = finding(tmp_path, StudyCase())
    assert isinstance(found.finding, JudgedStudy)
    sessions = {
        file: replace(
            analysis, series=busy(analysis.series) if file[0] in "18" else analysis.series
        )
        for file, analysis in found.finding.sessions.items()
    }
    loaded = replace(found, finding=replace(found.finding, sessions=sessions))
    cost, scale = first_lines(loaded)
    assert cost.startswith("Can't tell: others were at work on this machine (load 9.0 on 2 cores")
    assert "; seen then: the container costs nothing" in cost
    assert scale.startswith("Efficiency 0.9")
    assert "others were at work on this machine" in scale
    assert cost.endswith("(unsure)")
    assert scale.endswith("(unsure)")


def busy(series: Series) -> Series:
    machine = {**series.session.machine, "load_1min": 9.0, "busy_cores": 2.0}
    return replace(series, session=replace(series.session, machine=machine))


def test_a_term_that_may_be_nothing_says_so(tmp_path: Path) -> None:
    terms = {1: Planted(), 4: Planted(communication=0.003)}
    found = finding(tmp_path, StudyCase(terms=terms, sd=0.01))
    (exhibit,) = scaling.exhibits([found])
    table = next(table for table in exhibit.tables if table.name.startswith("What is lost"))
    rows = {row[2]: row[3:] for row in table.rows}
    assert all("not told apart from 0" in cell for cell in rows["idle neighbours"])
    assert not any("not told apart" in cell for cell in rows["exposed communication"])
    assert "idle neighbours" not in exhibit.headline


def test_a_page_has_its_figures_and_a_fair_json(tmp_path: Path) -> None:
    found = finding(tmp_path, StudyCase(strategies=("dp", "tp2"), baseline=True))
    page = page_of(found)
    for name in ("Efficiency, dp", "Efficiency, tp2", "What is lost", "The sessions of the points"):
        assert f"<h3>{name}</h3>" in page or f"<summary>{name}" in page
    assert page.count("<figure>") == 3
    assert "In short" in page
    assert "In three lines" not in page
    assert 'id="scaling-abcdef01"' in page
    body: dict[str, Any] = json_report.report([], [found])
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    (study,) = (part["study"] for part in body["findings"])
    last = study["points"][-1]
    assert (last["ranks"], last["strategy"]) == (8, "dp4xtp2")
    assert last["verdict"]["word"] == "EQUIVALENT"
    container = last["arms"]["container"]
    shares = [term["value"] for term in container["loss"]["terms"].values()]
    assert sum(shares) == pytest.approx(container["loss"]["share"]["value"])
    assert container["efficiency"]["level"] == 0.95
    text = markdown_report.page(html_report.page([], [found]))
    assert "## Scaling study: resnet50, pytorch at local" in text
    assert "| ranks | strategy |" in text


def test_the_csv_has_every_launch_of_every_point(tmp_path: Path) -> None:
    found = finding(tmp_path, StudyCase())
    out = io.StringIO()
    csv_report.write([a.series for a in scaling_inputs.sessions([found])], out, [found])
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    files = {Path(row["file"]).name for row in rows}
    assert files == {"1-dp1.jsonl", "2-dp2.jsonl", "4-dp4.jsonl", "8-dp8.jsonl"}
    assert sum(row["role"] == "pair" for row in rows) == 2 * (3 + 3 + 3 + FULL)


def test_two_studies_stand_side_by_side_with_both_attestations(tmp_path: Path) -> None:
    mine = finding(tmp_path, StudyCase(seed=1))
    other = StudyCase(folder="other", site="arm-cluster", seed=2, alone_s=0.024)
    theirs = finding(tmp_path, other)
    facts = {**INSIDE, "isa_dispatch": "SVE2"}
    theirs = planned(theirs, "8-dp8.jsonl", Plan(pairs=FULL, candidate=facts, reference=facts))
    lines = first_lines(mine, theirs)
    assert lines[0].startswith(
        "arm-cluster: At 8 ranks (dp8, container) a step at arm-cluster takes 0.8"
    )
    together = scaling.exhibits([mine, theirs])[0]
    assert [row[:4] for row in together.tables[0].rows][-2:] == [
        ("8", "2", "dp8", "native"),
        ("8", "2", "dp8", "container"),
    ]
    differing, alike = together.folded
    assert differing.head == ("fact", "local, native", "local, container", "arm-cluster, native",
                              "arm-cluster, container")  # fmt: skip
    by_fact = {row[0]: row[1:] for row in differing.rows}
    assert by_fact["isa_dispatch"] == ("AVX2", "AVX2", "SVE2", "SVE2")
    assert "torch" in {row[0] for row in alike.rows}
    assert "SVE2" in page_of(mine, theirs)
    body: dict[str, Any] = json_report.report([], [mine, theirs])
    (comparison,) = body["studies_compared"]
    assert len(comparison["points"]) == 8
    assert comparison["refusals"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"workload": "alexnet"}, "workload differs: resnet50 and alexnet"),
        ({"precision": "bf16"}, "precision differs: fp32 and bf16"),
        ({"scaling": "strong"}, "scaling differs: weak and strong"),
        ({"batch": 64}, "8 ranks, dp8: the batch differs: 256 and 512 samples of all ranks"),
        (
            {"strategies": ("fsdp",)},
            "8 ranks, dp8: the strategy differs: the other study has fsdp8",
        ),
        ({"work": {"optimizer": "lamb"}}, "8 ranks, dp8: optimizer differs"),
        ({"emulated": "a sleep"}, "8 ranks, dp8: the compute of one of them is emulated"),
    ],
)
def test_where_the_work_differs_there_is_no_ratio(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    mine = finding(tmp_path, StudyCase())
    other = replace(StudyCase(folder="other", site="else"), **change)  # type: ignore[arg-type]
    theirs = finding(tmp_path, other)
    together = scaling.exhibits([mine, theirs])[0]
    texts = " ".join([together.headline, together.words, *together.lines])
    assert said in texts
    # One rank has one strategy, whatever is typed.
    rows = [row for table in together.tables for row in table.rows]
    assert {row[0] for row in rows} <= {"1"}
    if not rows:
        assert together.headline.startswith("local and else can't be compared: ")
        assert first_lines(mine, theirs)[0].startswith("Can't tell: ")


def test_a_study_without_its_last_point_says_what_is_missing(tmp_path: Path) -> None:
    judged = studies.judged(tmp_path, StudyCase())
    *points, last = judged.study.points
    study = replace(judged.study, points=(*points, replace(last, arms={}, complete=False)))
    (study.folder / "8-dp8.jsonl").unlink()
    cut = InputFinding(path=study.folder, sha256=study.digest, finding=study_sessions.judge(study))
    (exhibit,) = scaling.exhibits([cut])
    assert exhibit.headline.startswith("At 4 ranks no verdict on the container (3 pairs;")
    assert exhibit.headline.endswith("not measured: 8 ranks (dp8)")
    assert "Not complete: 8-dp8.jsonl" in exhibit.words
    sessions = next(t for t in exhibit.folded if t.name == "The sessions of the points")
    assert ("8-dp8.jsonl", "2", "not measured", "", "", "") in sessions.rows
    nothing = replace(study, points=tuple(replace(point, arms={}) for point in study.points))
    empty = replace(cut, finding=JudgedStudy(study=nothing, sessions={}))
    assert first_lines(empty) == ["Can't tell: No point was measured (unsure)"]
    assert "no point of this study was measured" in page_of(empty)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    case = StudyCase(site=HOSTILE, workload=HOSTILE, emulated=HOSTILE)
    page = html_report.html([], TEMPLATES, [finding(tmp_path, case)])
    assert "<script>alert" not in page
    assert "<svg onload" not in page
    summary = markdown_report.summary([], [finding(tmp_path, replace(case, folder="again"))])
    assert not [line for line in summary.splitlines() if line.startswith("# heading")]


def test_families_are_told_by_what_does_not_grow(tmp_path: Path) -> None:
    case = StudyCase(strategies=("dp", "fsdp", "tp2", "pp2"))
    points = study_analysis.read(studies.judged(tmp_path, case))
    assert scaling_plots.families(points) == ("dp", "fsdp", "tp2", "pp2")
    assert [len([p for p in points if p.family == name]) for name in ("dp", "tp2")] == [4, 3]


def test_a_folder_that_is_no_study_is_refused(tmp_path: Path) -> None:

    with pytest.raises(BenchDataError, match="this folder is not a scaling study"):
        given.read([tmp_path])
