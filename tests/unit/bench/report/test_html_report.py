import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, json_report, markdown_report
from dlcontainer.bench.report import svg as plot
from dlcontainer.bench.report.figures import session_plots
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import ArmDescription, AttestedStack, Json, SessionHeader
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.errors import BenchDataError
from dlcontainer.system import report_files
from tests import benchseries, values
from tests.benchseries import INSIDE, RECORDED, Plan
from tests.judging import analyse
from tests.unit.bench.analysis.test_session_analysis import changing, recorded

TEMPLATES = [values.TEMPLATES]
HOSTILE = "</title><script>alert('x')</script>\"'><svg onload=x>&amp;\n# heading {{ 7*7 }}"


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_page_is_whole_and_fetches_nothing(name: str) -> None:
    page = html_report.html([recorded(name)], TEMPLATES)
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "<script" not in page
    assert not re.search(r"""(src|href)=["'](?!#)|url\(|@import""", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
        assert "nan" not in svg
        assert "inf" not in svg
    verdict = recorded(name).verdict
    assert verdict.word in page
    for reason in verdict.reasons:
        # A number and its % stay on one line.
        assert reason.split(" differs")[0].split(":")[0] in page.replace("\N{NO-BREAK SPACE}", " ")


def test_every_figure_names_its_raw_lines() -> None:
    analysis = recorded("import")
    page = html_report.html([analysis], TEMPLATES)
    figures_found = page.count("<figure>")
    assert figures_found == 5
    assert page.count("Raw values: <a href=") == figures_found
    assert f">lines 4-61</a> of {analysis.series.path}" in page


def test_sections_are_never_pooled() -> None:
    analyses = [recorded("equal"), recorded("slower-3-percent")]
    page = html_report.html(analyses, TEMPLATES)
    assert page.count('class="session"') == 2
    assert "2 sessions" in page
    alone = [html_report.html([analysis], TEMPLATES) for analysis in analyses]
    for text in alone:
        for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
            assert svg in page


def hostile(folder: Path) -> Analysis:
    facts: dict[str, Json] = {**INSIDE, HOSTILE: HOSTILE, "torch": HOSTILE}
    plan = Plan(
        pairs=4, control_pairs=2, candidate=facts,
        change=lambda s: replace(
            s, error=HOSTILE if s.index == 3 else None, phases={HOSTILE: 1.0},
            values={**s.values, HOSTILE: 1.0},
        ),
    )  # fmt: skip
    session: SessionHeader = benchseries.session(plan)
    declared = replace(session.declared, site=HOSTILE, recipe=HOSTILE, image=HOSTILE)
    arms = {name: ArmDescription(what=HOSTILE, why=HOSTILE) for name in declared.arms}
    session = replace(session, declared=declared, arms=arms, machine={HOSTILE: HOSTILE})
    path = folder / "a'; echo <b>\n\".jsonl"
    with Writer(path, session) as out:
        out.stack(AttestedStack(arm="native", facts=benchseries.FACTS))
        out.stack(AttestedStack(arm="container", facts=facts))
        for sample in benchseries.draw(plan):
            out.sample(sample)
    return analyse(reader.read(path))


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    analysis = hostile(tmp_path)
    page = html_report.html([analysis], TEMPLATES)
    assert "<script" not in page
    assert "<svg onload" not in page
    assert "<b>" not in page
    assert "49" not in page.split("heading", 1)[1][:10]
    assert "&lt;script&gt;alert(&#39;x&#39;)" in page
    for svg in re.findall(r"<svg (?!onload).*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
    summary = markdown_report.summary([analysis])
    assert "\n# heading" not in summary
    json.dumps(json_report.session(analysis), allow_nan=False)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_json_is_json(name: str) -> None:
    analysis = recorded(name)
    found = json.loads(json.dumps(json_report.session(analysis), allow_nan=False))
    assert found["verdict"] == analysis.verdict.word
    assert found["declared_sha256"] == analysis.series.declared_sha256


def test_json_of_few_pairs_has_no_infinity(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "a.jsonl", Plan(pairs=2, control_pairs=1))
    analysis = analyse(reader.read(path))
    found = json.loads(json.dumps(json_report.session(analysis), allow_nan=False))
    assert found["intervals"]["difference"]["high"] is None
    page = html_report.html([analysis], TEMPLATES)
    assert "INCONCLUSIVE" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)


HERE = ", in this session"
IMPORT = (
    "+1.1 s once a node, +0.2 s each further rank; warm, file system not stated; "
    f"0.03 % of a one-hour job; SLOWER by 78 to 81 %{HERE}"
)


@pytest.mark.parametrize(
    ("name", "headline", "says"),
    [
        ("equal", f"EQUIVALENT within 2 %{HERE}", "as long in the container as in the native twin"),
        ("slower-3-percent", f"SLOWER by 2.8 to 4.2 %{HERE}", "3.5 % more time"),
        ("as-shipped", f"FASTER by 3.7 to 4.7 %{HERE}, as shipped", "4.2 % less time"),
        ("import", IMPORT, "Importing the framework takes 80 % more time"),
        ("noisy", "INCONCLUSIVE", "a new session would need about 224 pairs, 216 more"),
        ("outlier", "INCONCLUSIVE (tail: pair 7)", "look at pair 7 (lines 26 and 27)"),
        ("interrupted", "INCONCLUSIVE", "the session is incomplete: interrupted by the user"),
        ("unsteady", "NOT COMPARABLE", "compared a side with itself"),
        ("other-torch", "NOT COMPARABLE", "framework differs: native torch 2.5.1+cpu, container"),
    ],
)
def test_the_words(name: str, headline: str, says: str) -> None:
    analysis = recorded(name)
    assert verdict_text.headline(analysis) == headline
    assert says in verdict_text.sentence(analysis)
    assert says in markdown_report.summary([analysis])


def test_what_a_ratio_is_called() -> None:
    analysis = recorded("import")
    for low, high, wanted in (
        (3.1, 3.4, "SLOWER by 3.1 to 3.4 times, in this session"),
        (1.6, 1.9, "SLOWER by 60 to 90 %, in this session"),
        (1.01, 1.2, "SLOWER by 1.0 to 20.0 %, in this session"),
    ):
        interval = Interval(ratio=low, low=low, high=high, level=0.95)
        verdict = replace(analysis.verdict, difference=interval, equivalence=interval)
        assert verdict_text.headline(replace(analysis, verdict=verdict)).endswith(wanted)
    interval = Interval(ratio=3.2, low=3.1, high=3.4, level=0.95)
    verdict = replace(analysis.verdict, difference=interval, equivalence=interval)
    assert "takes 3.2 times the time" in verdict_text.sentence(replace(analysis, verdict=verdict))


def test_a_failed_launch_is_drawn_and_listed(tmp_path: Path) -> None:
    change = changing(lambda s: s.index == 9, returncode=1, error="no space left")
    path = benchseries.write(tmp_path / "a.jsonl", Plan(change=change))
    page = html_report.html([analyse(reader.read(path))], TEMPLATES)
    assert 'class="failed cross"' in page
    assert page.count("no space left") >= 2


def test_a_session_without_pairs_still_has_a_page(tmp_path: Path) -> None:
    change = changing(lambda s: s.arm == "container", returncode=139)
    path = benchseries.write(tmp_path / "a.jsonl", Plan(control_pairs=0, change=change))
    page = html_report.html([analyse(reader.read(path))], TEMPLATES)
    assert "no launch of container succeeded" in page
    assert page.count("<figure>") == 1


def test_a_report_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a b.html"
    target.write_text("old")
    report_files.write("new", target)
    assert target.read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a b.html"]
    with pytest.raises(BenchDataError, match="cannot be written"):
        report_files.write("new", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a b.html"]


def test_scales() -> None:
    scale = plot.AxisScale(low=1.0, high=4.0, start=0, end=100, log=True)
    assert scale.at(2.0) == pytest.approx(50)
    assert scale.at(100.0) == 100
    assert [label for _, label in scale.ticks()] == [
        "1.0",
        "1.5",
        "2.0",
        "2.5",
        "3.0",
        "3.5",
        "4.0",
    ]
    same = plot.spanning([5.0, 5.0], 0, 100)
    assert same.low < 5.0 < same.high
    assert plot.spanning([], 0, 100).low < 1
    assert [label for _, label in plot.AxisScale(low=0.97, high=1.03, start=0, end=1).ticks()] == [
        "0.97", "0.98", "0.99", "1.00", "1.01", "1.02", "1.03",
    ]  # fmt: skip


def test_phases_are_means_that_add_up() -> None:
    for name, means in session_plots.phase_means(recorded("import")):
        assert sum(means.values()) > 1
        assert name in {"native", "container", "container, joining"}
