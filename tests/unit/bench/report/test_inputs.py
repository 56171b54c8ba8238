import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dlcontainer.bench.report import html_report, import_trees, inputs
from dlcontainer.bench.report.figures import count_plots
from dlcontainer.bench.report.inputs import PredictionTrial
from dlcontainer.errors import BenchDataError
from dlcontainer.lab.filesystem.count_file import CountingRun, ImportNode
from dlcontainer.lab.storm.prediction_file import Storm
from tests import findings as made
from tests import values
from tests.unit.bench.analysis.test_session_analysis import RECORDINGS, recorded

TEMPLATES = [values.TEMPLATES]


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """`lab count -o` and `lab storm -o` write these models, and nothing beside them."""
    for written, body in ((made.prediction(), made.storm()), (made.counting(), made.count())):
        assert inputs.read(made.write(tmp_path / "a.json", body)).finding == written


def test_each_kind_is_read_and_sessions_are_none(tmp_path: Path) -> None:
    paths = made.all_of(tmp_path)
    assert all(inputs.is_one(path) for path in paths)
    kinds = [type(inputs.read(path).finding) for path in paths]
    assert kinds == [Storm, PredictionTrial, CountingRun, CountingRun]
    assert not inputs.is_one(RECORDINGS / "equal.jsonl")
    assert not inputs.is_one(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"schema": "dlcontainer/storm/2"}, "known here"),
        ({"schema": "dlcontainer/count/1"}, "command"),
        ({**made.storm(), "rows": [{"way": "tree"}]}, "rows.0"),
        ({**made.count(), "slowest_s": -1.0}, "slowest_s"),
    ],
)
def test_others_are_refused(body: dict[str, object], says: str, tmp_path: Path) -> None:
    path = made.write(tmp_path / "a.json", body)
    with pytest.raises(BenchDataError, match="not a file") as caught:
        inputs.read(path)
    assert says in str(caught.value.why)


@pytest.mark.parametrize("text", ['{"schema"', '{"schema": [], "a": NaN}', '{"schema": 1}'])
def test_broken_files_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert inputs.is_one(path)
    with pytest.raises(BenchDataError):
        inputs.read(path)


def test_a_prediction_mended_afterwards_is_found(tmp_path: Path) -> None:
    body = json.loads(json.dumps(made.trial()))
    body["points"][0]["predicted"] *= 1.1
    with pytest.raises(BenchDataError) as caught:
        inputs.read(made.write(tmp_path / "a.json", body))
    assert "is not the frozen one" in str(caught.value.why)
    body["predicted"][body["points"][0]["name"]] *= 1.1
    with pytest.raises(BenchDataError) as caught:
        inputs.read(made.write(tmp_path / "a.json", body))
    assert "its digest was made of" in str(caught.value.why)


def test_a_page_of_findings(tmp_path: Path) -> None:
    found = [inputs.read(path) for path in made.all_of(tmp_path)]
    # A number and its unit are not parted.
    page = html_report.html([], TEMPLATES, found).replace("\N{NO-BREAK SPACE}", " ")
    assert page.count('class="session exhibit"') == 4
    # Two counting runs of two tools are not on one axis.
    assert page.count("What was asked of the file system</p>") == 2
    assert "<b>" not in page
    assert "Mean error 3.8 %, worst 3.8 %" in page
    assert "The aim (mean at most 10 %, worst at most 25 %) is met" in page
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
        assert "nan" not in svg


def test_a_missed_aim_is_said(tmp_path: Path) -> None:
    path = made.write(tmp_path / "a.json", made.trial(factor=1.6))
    page = html_report.html([], TEMPLATES, [inputs.read(path)])
    assert "is missed" in page


def test_every_link_of_a_page_leads_somewhere(tmp_path: Path) -> None:
    found = [inputs.read(path) for path in made.all_of(tmp_path)]
    page = html_report.html([recorded("import"), recorded("equal")], TEMPLATES, found)
    ids = re.findall(r' id="([^"]+)"', page)
    links = re.findall(r'href="#([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(links) <= set(ids)
    # Each launch is drawn, and its mark leads to its line.
    for sample in recorded("import").series.samples:
        place = f"raw-{recorded('import').series.seal[:12]}-{sample.line}"
        assert page.count(f'href="#{place}"') >= 1


def test_assumed_figures_are_said(tmp_path: Path) -> None:
    path = made.write(tmp_path / "a.json", made.storm(assumed=True))
    page = html_report.html([], TEMPLATES, [inputs.read(path)])
    assert "1 of 1 figures of the file system are assumed" in page
    assert "Predicted, not measured" in page
    assert "by rusage, at load 71.2 on 64 cores" in page
    assert "longer than predicted; the seconds here are not raised" in page


def test_an_import_tree_is_read_backwards() -> None:
    said = """
warning: something else
import time: self [us] | cumulative | imported package
import time:       300 |        300 |     b.c
import time:       100 |        400 |   b
import time:        50 |         50 |   d
import time:        10 |        460 | a
""".splitlines()
    tree = import_trees.parse(said)
    assert [(m.name, m.depth, m.total_us) for m in tree] == [
        ("a", 0, 460), ("d", 1, 50), ("b", 1, 400), ("b.c", 2, 300),
    ]  # fmt: skip
    boxes = {item.name: begun for _, item, begun in count_plots.placed(tree)}
    assert boxes == {"a": 0, "b": 0, "d": 400, "b.c": 0}
    assert import_trees.parse(["no word of it"]) == ()


def test_a_deep_tree_is_no_recursion() -> None:
    deep = [ImportNode(name=f"m{i}", depth=i, self_us=1, total_us=5000 - i) for i in range(5000)]
    assert len(count_plots.placed(deep)) == 5000
