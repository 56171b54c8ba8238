"""Rows in a report: each is shown, one statistic is judged, and programs get the same."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.probes import traits
from dlcontainer.bench.report import csv_report, html_report, json_report, markdown_report
from dlcontainer.bench.report.figures import row_curves
from dlcontainer.bench.report.tables import row_tables
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import hash_chain, reader
from dlcontainer.bench.stats import bandwidth
from tests import rowseries
from tests.judging import analyse
from tests.rowseries import PLAN, SIZES, Plant, truth
from tests.unit.bench.analysis.test_session_analysis import recorded
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.samples.test_reader import chained, fields


def judged(folder: Path, **planted: Any) -> Analysis:
    return analyse(reader.read(rowseries.write(folder / "a.jsonl", Plant(**planted))))


def told(analysis: Analysis) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for one in analysis.rows:
        found.setdefault(str(one.parameters["operation"]), set()).add(one.direction)
    return found


def test_the_geometric_mean_is_judged(tmp_path: Path) -> None:
    # Four of nine rows take 1.5 times as long: 1.5 ** (4 / 9) = 1.197.
    analysis = judged(tmp_path, ratios={"all_reduce": 1.5})
    assert analysis.verdict.word == "SLOWER"
    difference = analysis.verdict.difference
    assert difference is not None
    assert difference.low < 1.5 ** (4 / 9) < difference.high
    assert told(analysis) == {
        "all_reduce": {"slower"},
        "send_recv": {"not told apart"},
        "barrier": {"not told apart"},
    }
    for one in analysis.rows[:4]:
        assert one.figure.interval.ratio == pytest.approx(1.5, rel=0.05)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (10.2, 4, "10.2"), (848.9, 4, "848.9"), (1000.4, 4, "1,000"), (145900.3, 4, "145,900"),
        (104321.0, 3, "104,000"), (0.000123456, 3, "0.000123"), (0.0, 3, "0"), (3e15, 3, "3e+15"),
    ],
)  # fmt: skip
def test_figures_have_digits_and_no_powers_of_ten(value: float, digits: int, text: str) -> None:
    assert row_tables.significant(value, digits) == text


def test_times_that_never_scatter_ask_for_no_more_of_them(tmp_path: Path) -> None:
    analysis = judged(tmp_path, sd=0.0)
    said = verdict_text.sentence(analysis)
    assert said.endswith("are the same to the last digit: nothing was measured.")


def test_nothing_planted_is_told_apart_nowhere(tmp_path: Path) -> None:
    analysis = judged(tmp_path)
    assert analysis.verdict.word == "EQUIVALENT"
    assert {word for words in told(analysis).values() for word in words} == {"not told apart"}


def test_a_scatter_that_exceeds_the_effect_tells_nothing(tmp_path: Path) -> None:
    analysis = judged(tmp_path, ratios={"all_reduce": 1.2}, sd=0.5)
    assert analysis.verdict.word == "INCONCLUSIVE"
    assert {word for words in told(analysis).values() for word in words} == {"not told apart"}


def test_rows_are_in_no_other_table(tmp_path: Path) -> None:
    analysis = judged(tmp_path)
    assert not [one.metric for one in analysis.secondary if one.metric.startswith("rows.")]


def test_the_tables(tmp_path: Path) -> None:
    analysis = judged(tmp_path, ratios={"all_reduce": 1.5})
    times, beside = row_tables.times(analysis), row_tables.beside(analysis)
    assert len(times.rows) == len(beside.rows) == len(PLAN.rows)
    assert times.head[:3] == ("operation", "bytes", "native, best, us")
    assert times.rows[0][:2] == ("all_reduce", "4")
    assert times.rows[0][-1] == "slower"
    head = dict(zip(beside.head, beside.rows[3], strict=True))
    native = analysis.rows[3].sides[0].median
    assert head["native, busbw, GB/s"] == f"{(1 << 20) / native / 1e9:.3g}"
    assert head["native, steal, s"] == "0.25"
    assert beside.rows[-1][:4] == ("barrier", "0", "-", "-")
    assert "algbw (GB/s): more is better" in beside.note


def test_the_line_of_each_operation_and_arm(tmp_path: Path) -> None:
    section = judged(tmp_path, sd=0.001).traits.section
    assert section is not None
    assert [row[:2] for row in section.rows] == [
        (name, arm) for name in ("all_reduce", "send_recv") for arm in ("native", "container")
    ]
    for row in section.rows:
        assert float(row[2]) == pytest.approx(1e6 * rowseries.ALPHA_S, rel=0.02)
        assert float(row[3]) == pytest.approx(1e-9 / rowseries.BETA_S, rel=0.02)
        assert row[5] == "fitted"


def test_more_ranks_than_cores_stand_in_the_report(tmp_path: Path) -> None:
    series = reader.read(rowseries.write(tmp_path / "a.jsonl", Plant()))
    for cores, says in ((2, False), (1, True)):
        machine = {**series.session.machine, "cores": cores}
        section = traits(replace(series, session=replace(series.session, machine=machine))).section
        assert section is not None
        assert ("2 ranks shared 1 core here" in section.note) == says


def test_curves_have_a_point_for_each_size_and_arm(tmp_path: Path) -> None:
    analysis = judged(tmp_path)
    drawn = list(row_curves.of(analysis))
    # A barrier has no size: it is in the table alone.
    assert [name for name, _, _ in drawn] == ["operation all_reduce", "operation send_recv"]
    for _, words, svg in drawn:
        assert svg.count("<title>") == 2 * len(SIZES)
        assert "native, bytes 1,048,576: median" in svg
        assert "lower is quicker" in words


def test_a_page_and_markdown_have_them(tmp_path: Path) -> None:
    analysis = judged(tmp_path, ratios={"all_reduce": 1.5})
    page = html_report.html([analysis], TEMPLATES)
    for text in ("The rows", "Latency and bandwidth", "operation all_reduce"):
        assert text in page
    text = markdown_report.page(html_report.page([analysis]))
    assert "### The rows" in text
    assert "A collective operation of 2 ranks by gloo takes" in text


def test_programs_get_each_row(tmp_path: Path) -> None:
    analysis = judged(tmp_path, ratios={"all_reduce": 1.5})
    said = json.loads(json.dumps(json_report.session(analysis)))
    assert [row["parameters"] for row in said["rows"]] == [dict(row) for row in PLAN.rows]
    first, *_, last = said["rows"]
    assert (first["reading"], first["pairs"]) == ("slower", 8)
    assert first["low"] < 1.5 < first["high"]
    native = first["arms"]["native"]
    assert native["median_s"] == pytest.approx(truth(0), rel=0.05)
    assert native["algbw_GB/s"] == bandwidth.algorithm(4, native["median_s"])
    assert last["arms"]["container"]["busbw_GB/s"] is None
    assert said["section"]["rows"][0]["fit"] == "fitted"


def test_a_session_without_rows_says_nothing_of_them() -> None:
    analysis = recorded("equal")
    assert analysis.rows == ()
    assert row_tables.times(analysis).rows == row_tables.beside(analysis).rows == ()
    assert list(row_curves.of(analysis)) == []
    assert "rows" not in json_report.session(analysis)


def test_csv_has_one_line_for_each_row_arm_and_launch(tmp_path: Path) -> None:
    series = reader.read(rowseries.write(tmp_path / "a.jsonl", Plant(pairs=2)))
    file = io.StringIO()
    csv_report.write([series], file)
    lines = list(csv.DictReader(io.StringIO(file.getvalue())))
    launches = [one for one in lines if not one["row.n"]]
    rows = [one for one in lines if one["row.n"]]
    assert len(launches) == 4
    keys = [
        (one["row.parameters.operation"], one["row.parameters.bytes"], one["arm"], one["index"])
        for one in rows
    ]
    assert len(set(keys)) == len(keys) == 4 * len(PLAN.rows)
    sample = series.samples[2]
    own = [one for one in rows if one["index"] == "2"]
    assert [float(one["row.median"]) for one in own] == [row.median for row in sample.rows]
    assert {(one["line"], one["seal"], one["row.unit"]) for one in own} == {
        (str(sample.line), series.seal, "s")
    }


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"operation": 5, "bytes": 4},
        {"operation": "all_reduce", "bytes": "four"},
        {"operation": "all_reduce", "bytes": (1 << 63) - 1},
        {"operation": "<script>", "bytes": 1},
        {"bytes": 0},
    ],
)
@pytest.mark.parametrize("ranks", [None, 0, "two"])
def test_rows_of_anybody_s_file(
    tmp_path: Path, parameters: dict[str, object], ranks: object
) -> None:
    records: list[Any] = fields(rowseries.write(tmp_path / "a.jsonl", Plant()))
    declared = records[0]["declared"]
    declared["rows"]["rows"][0] = parameters
    declared["workload"]["ranks"] = ranks
    records[0]["declared_sha256"] = hash_chain.digest(hash_chain.canonical(declared))
    for record in records:
        if record["kind"] == "sample":
            record["rows"][0]["parameters"] = parameters
    analysis = analyse(reader.read(chained(tmp_path / "a.jsonl", records)))
    page = html_report.html([analysis], TEMPLATES)
    assert "<script>" not in page
    assert len(json_report.session(analysis)["rows"]) == len(PLAN.rows)  # type: ignore[arg-type]
