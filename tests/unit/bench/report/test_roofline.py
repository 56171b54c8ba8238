"""The roofline of a session of kernels: measured roofs, a mark for each row and side."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report, json_report
from dlcontainer.bench.report.figures import roofline
from dlcontainer.bench.report.tables import row_tables
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.rows.row_records import RowPlan
from tests import kernelseries
from tests.judging import analyse
from tests.kernelseries import GIGABYTES, GIGAFLOPS, PLAN, Plant
from tests.unit.bench.analysis.test_session_analysis import recorded
from tests.unit.bench.report.test_html_report import TEMPLATES


def judged(folder: Path, **planted: Any) -> Analysis:
    return analyse(reader.read(kernelseries.write(folder / "a.jsonl", Plant(**planted))))


def test_roofs_are_those_that_were_measured(tmp_path: Path) -> None:
    drawn = list(roofline.of(judged(tmp_path, ratio=2.0)))
    # No product of matrices in bf16: its convolution has no roof to stand under.
    names = [name for name, _, _ in drawn]
    assert names == ["Roofline, fp32, threads 2", "Roofline, int8, threads 2"]
    _, words, svg = drawn[0]
    assert "The roofs are measured" in words
    assert f"native: {GIGAFLOPS:.3g} GFLOP/s, {GIGABYTES:.3g} GB/s" in svg
    assert f"container: {GIGAFLOPS / 2:.3g} GFLOP/s, {GIGABYTES / 2:.3g} GB/s" in svg
    # Two products, a convolution, a sum and the triad, on both sides; a copy computes nothing.
    assert svg.count("<title>") == 2 * 5
    assert "ResNet-50 conv3_x" in svg
    assert svg.count("<polyline") == 2


def test_the_largest_product_is_the_peak(tmp_path: Path) -> None:
    analysis = judged(tmp_path)
    roof = roofline._roof(analysis.rows, _roofline(analysis), ("fp32", "2"), 0)
    assert roof is not None
    assert roof.peak == pytest.approx(GIGAFLOPS)
    assert roof.at(0.5) == pytest.approx(GIGABYTES / 2)
    assert roof.at(1e6) == roof.peak
    assert roofline._roof(analysis.rows, _roofline(analysis), ("fp32", "1"), 0) is None


def _roofline(analysis: Analysis) -> Any:
    assert analysis.traits.roofline is not None
    return analysis.traits.roofline


@pytest.mark.parametrize("missing", ["gemm", "stream"])
def test_without_a_roof_there_is_no_figure(tmp_path: Path, missing: str) -> None:
    names = {"gemm": ("gemm",), "stream": ("copy", "triad")}[missing]
    rows = tuple(row for row in PLAN.rows if row["kernel"] not in names)
    assert list(roofline.of(judged(tmp_path, plan=RowPlan(rows=rows, rounds=3)))) == []


def test_rates_are_columns(tmp_path: Path) -> None:
    beside = row_tables.beside(judged(tmp_path))
    rows = [dict(zip(beside.head, row, strict=True)) for row in beside.rows]
    assert rows[1]["native, rate, GFLOP/s"] == f"{GIGAFLOPS:.3g}"
    copy = rows[-2]
    assert (copy["native, rate, GFLOP/s"], copy["native, moved, GB/s"]) == ("-", "10")


def test_a_page_and_programs_have_it(tmp_path: Path) -> None:
    analysis = judged(tmp_path, left_out="fp16")
    page = html_report.html([analysis], TEMPLATES)
    for text in ("Roofline, fp32", "Which library ran", "Left out: fp16", "oneDNN conv_forward"):
        assert text in page
    said = json.loads(json.dumps(json_report.session(analysis)))
    assert said["rows"][1]["arms"]["native"]["rate_GFLOP/s"] == pytest.approx(GIGAFLOPS)
    assert {row["libraries"] for row in said["section"]["rows"]} == {"the same"}


def test_another_library_on_one_side_is_named_and_refused(tmp_path: Path) -> None:
    other = {"conv_forward fp32 " + kernelseries.CONV + " x2": "aten::_slow_conv2d_forward"}
    analysis = judged(tmp_path, other=other)
    assert analysis.verdict.word == "NOT COMPARABLE"
    (reason,) = analysis.verdict.reasons
    assert "aten::_slow_conv2d_forward" in reason
    assert "oneDNN conv_forward" in reason
    section = analysis.traits.section
    assert section is not None
    assert [row[-1] for row in section.rows].count("DIFFERENT") == 1


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"kernel": "gemm", "precision": "fp32", "shape": "m1n1", "threads": 2},
        {"kernel": "gemm", "precision": "fp32", "shape": "m0n0k0", "threads": 2},
        {
            "kernel": "conv_data",
            "precision": "fp32",
            "shape": kernelseries.CONV.replace("g1", "g0"),
        },
        {"kernel": "<script>", "precision": 4, "shape": 7, "threads": "two"},
    ],
)
def test_rows_of_anybody_s_file(tmp_path: Path, row: dict[str, str | int]) -> None:
    analysis = judged(tmp_path, plan=RowPlan(rows=(row, *PLAN.rows), rounds=3))
    assert "<script>" not in html_report.html([analysis], TEMPLATES)


def test_other_sessions_have_none() -> None:
    assert list(roofline.of(recorded("equal"))) == []
