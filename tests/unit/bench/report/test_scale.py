"""A matrix in a report: its CSV, its figures, and where these lead."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from dlcontainer.bench.report import csv_report, html_report, inputs, markdown_report, output_files
from dlcontainer.bench.report.figures import scale_ratios
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import predictions
from dlcontainer.bench.report.svg import AxisScale, Drawing
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.tables import scale_glossary
from dlcontainer.bench.samples.declared_file import digest
from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.bench.scale import matrix, matrix_analysis, matrix_file
from tests.unit.bench.analysis.test_session_analysis import recorded
from tests.unit.bench.report.test_html_report import TEMPLATES
from tests.unit.bench.scale.test_analysis import CELLS, header, launched, seconds, write


def found_in(folder: Path, rounds: int = 6) -> InputFinding:
    return inputs.read(write(folder / "a <m>.jsonl", rounds=rounds))


def csv_of(*found: InputFinding, sessions: tuple[str, ...] = ()) -> list[dict[str, str]]:
    out = io.StringIO(newline="")
    csv_report.write([recorded(name).series for name in sessions], out, found)
    return list(csv.DictReader(io.StringIO(out.getvalue(), newline="")))


def test_csv_has_every_rank_with_its_launch(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    rows = csv_of(found)
    raw = [json.loads(line) for line in found.path.read_text().splitlines()]
    assert len(rows) == 6 * len(CELLS) * 2
    for row in rows:
        launch = raw[int(row["line"]) - 1]
        rank = launch["ranks"][int(row["rank.rank"])]
        cell = CELLS[launch["cell"]]
        assert float(row["rank.values.wall_s"]) == rank["values"]["wall_s"]
        assert float(row["t_last_s"]) == launch["t_last_s"]
        assert (row["round"], row["cell.ranks"]) == (str(launch["round"]), str(cell.ranks))
        assert row["cell.subject"] == cell.subject
        assert row["before.method"] == "drop_caches"
        assert (row["file"], row["seal"]) == (str(found.path), found.sha256)
    first = {row["line"]: float(row["t_last_s"]) for row in rows if row["rank.rank"] == "0"}
    assert sorted(first.values()) == sorted(seconds(c, n) for c in range(6) for n in range(6))


def test_csv_keeps_a_launch_without_ranks(tmp_path: Path) -> None:
    path = write(tmp_path / "m.jsonl", odd=launched(1, 6, None, error="=HYPERLINK()\nno"))
    rows = csv_of(inputs.read(path))
    bad = [row for row in rows if row["error"]]
    assert [(row["error"], row["t_last_s"]) for row in bad] == [("'=HYPERLINK()\nno", "")]
    assert bad[0]["rank.rank"] == ""


def test_csv_of_a_session_and_a_matrix(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    rows = csv_of(found, sessions=("equal",))
    samples = recorded("equal").series.samples
    assert [int(row["line"]) for row in rows[: len(samples)]] == [s.line for s in samples]
    assert rows[0]["cell.subject"] == rows[-1]["wall_s"] == ""
    assert (rows[0]["wall_s"], rows[-1]["cell.subject"]) == (
        str(samples[0].wall_s),
        CELLS[-1].subject,
    )


def test_a_report_of_a_matrix_writes_its_csv(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    output = tmp_path / "r.html"
    wanted = output_files.targets(output, "")
    output_files.write(wanted, html_report.page([], [found]), [], TEMPLATES, [found])
    with (tmp_path / "r.csv").open(newline="") as opened:
        assert len(list(csv.DictReader(opened))) == 72
    output_files.check(wanted, output, [])


def test_figures_lead_to_raw_lines(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    page = html_report.html([], TEMPLATES, [found])
    ids = set(re.findall(r' id="([^"]+)"', page))
    links = re.findall(r'href="#([^"]+)"', page)
    assert set(links) <= ids
    # Four ways are held against a reference in six rounds each; each dot leads to its launch.
    dots = re.findall(rf'href="#({found.anchor}-line-\d+)" tabindex="-1"><path class="faint', page)
    assert len(dots) == len(set(dots)) == 4 * 6
    assert f'href="#{found.anchor}-lines">lines 2-' in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
        assert "nan" not in svg
        assert '="inf' not in svg
    assert "All 36 launches" not in markdown_report.page(html_report.page([], [found]))


def test_the_figure_of_ratios_says_what_the_table_says(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    (section,) = predictions.exhibits([found])
    plate = section.plates[0]
    assert plate.name == "How much longer, by ranks?"
    label = str(ET.fromstring(plate.svg).get("aria-label"))
    assert "reference (native, files) by ranks" in label
    for row in section.tables[0].rows:
        assert f"{row[1]} ({row[2]}) at " in label
    # A way's two marks, at 1 and at 2 ranks, its legend's mark, and an interval of three strokes.
    assert plate.svg.count('class="pair diamond"') == 3
    assert plate.svg.count('class="whisker pair"') == 6
    assert ">1</text>" in plate.svg


def test_intervals_stand_where_the_axis_says() -> None:
    drawing = Drawing(title="", height=1)
    up = AxisScale(low=1, high=100, start=200, end=0, log=True)
    drawing.upright_whisker(up, 10, 1000, 50, "x")
    ends = [[float(n) for n in re.findall(r'[xy]\d="([\d.]+)"', part)] for part in drawing.parts]
    assert ends[0] == [50, 100, 50, 0]
    assert ends[1] == [45, 100, 55, 100]
    # Out of the figure: an arrow's two strokes, from the tip inwards.
    assert ends[2:] == [[50, 0, 46, 5], [50, 0, 54, 5]]


def test_one_round_has_no_interval_and_is_drawn(tmp_path: Path) -> None:
    (section,) = predictions.exhibits([found_in(tmp_path, rounds=1)])
    label = str(ET.fromstring(section.plates[0].svg).get("aria-label"))
    assert label.count("too few rounds for an interval") == 4
    assert section.tables[0].rows[0][2:5] == ("none: one round", "1", "")
    assert section.tables[1].rows[0][2] == "one launch"


def test_cells_in_other_states_have_figures_of_their_own(tmp_path: Path) -> None:
    cells = tuple(replace(cell, state=state) for state in ("cold", "warm") for cell in CELLS)
    declared = replace(header().declared, cells=cells)
    own = replace(header(), declared=declared, declared_sha256=digest(declared))
    with matrix_file.FORMAT.writer(tmp_path / "m.jsonl", own) as writer:
        for number in range(4):
            for cell in range(len(cells)):
                writer.write(launched(cell, number, seconds(cell % 6, number)))
    scale = matrix_file.read(tmp_path / "m.jsonl")
    panels = scale_ratios.panels(matrix_analysis.rows(scale))
    assert [panel.name for panel in panels] == ["cold", "warm"]
    assert [[row.cell.ranks for row in way.rows] for way in panels[0].series] == [[1, 2], [1, 2]]
    assert {row.cell.state for way in panels[1].series for row in way.rows} == {"warm"}


def test_many_launches_are_in_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = found_in(tmp_path)
    monkeypatch.setattr(predictions, "MOST_LISTED", 35)
    page = html_report.html([], TEMPLATES, [found])
    assert "-line-" not in page
    assert "lines 2-" in page
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(re.findall(r' id="([^"]+)"', page))


def test_columns_that_stay_on_one_line() -> None:
    rows = (("a", "1.0 to 2.0", "/a/very/long/path/of/many/folders"), ("b", "", "short"))
    table = Table(name="t", head=("x", "y", "z"), rows=rows)
    assert table.kinds == ("short", "short", "long")


def test_every_word_of_a_matrix_is_explained(tmp_path: Path) -> None:
    kinds: dict[str, Any] = {
        "where": matrix.Where, "open": matrix.Opened, "mount": matrix.Mounted,
        "state": matrix.State, "start": Start,
    }  # fmt: skip
    words = [
        replace(CELLS[0], **{name: value}) for name in kinds for value in get_args(kinds[name])
    ]
    scale = matrix_file.read(write(tmp_path / "m.jsonl"))
    declared = replace(scale.header.declared, cells=tuple(words))
    table = scale_glossary.table(replace(scale, header=replace(scale.header, declared=declared)))
    explained = {row[0] for row in table.rows}
    assert {"shared", "tmpfs", "squashfuse_ll", "one mount kept", "warm", "natural"} <= explained
    for cell in words:
        parts = (cell.where, cell.open, cell.mount_words, cell.state, cell.start)
        assert {part for part in parts if part} <= explained
