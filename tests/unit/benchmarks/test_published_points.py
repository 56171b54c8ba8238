"""Published points: inputs with their sources, scores that punish width, the page's own rows."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import published_points
from benchmarks.published_points import INPUTS, Input, Point, Score
from dlcontainer.system import digests
from tests.values import ROOT

PAGE = ROOT / "docs" / "measurements" / "scaling.md"


@cache
def read() -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load(INPUTS.read_text(encoding="utf-8"))
    return body


def given(*values: object, is_range: bool = False) -> Input:
    return Input(
        values=values, is_range=is_range, unit="s", source="made up", independent="assumed"
    )


def made_up(
    published: float = 60.0, scaling: str = "weak", inputs: Mapping[str, Input] | None = None
) -> Point:
    usual = {
        "overlap": given(0.3, 1.0, is_range=True),
        "link_share": given(0.3, 0.9, is_range=True),
        "scatter": given(0.02),
        "latency_s": given(1e-5),
        "bucket_bytes": given(2e6, 64e6),
        "coordinator_s": given(0.0),
        "algorithm": given("ring", "ring or tree"),
        "ranks_per_node": given(4),
        "in_node_bytes_per_s": given(5e10),
        "between_nodes_bytes_per_s": given(1e10),
        "samples_per_s": given(100.0),
        "gradient_bytes": given(4e8),
        "batch": given(8),
    }
    return Point(
        name="made up",
        published=published,
        scaling=scaling,
        ranks=64,
        source="none",
        inputs={**usual, **(inputs or {})},
    )


def test_every_input_and_every_point_has_its_source() -> None:
    listed = published_points.points()
    assert len(listed) == len({point.name for point in listed}) == len(read()["points"])
    for point in listed:
        assert point.source
        for name, one in point.inputs.items():
            assert one.source, name
            assert one.unit, name
    taken = {group for point in read()["points"] for group in point["takes"]}
    assert taken == read()["groups"].keys()


@pytest.mark.parametrize(
    "facts",
    [
        {"value": 1, "unit": "s", "source": "x", "independent": True},
        {"value": 1, "unit": "s", "independent": "yes"},
        {"value": 1, "range": [1, 2], "unit": "s", "source": "x", "independent": "yes"},
        {"unit": "s", "source": "x", "independent": "yes"},
        {"value": "5e9", "unit": "s", "source": "x", "independent": "yes"},
    ],
)
def test_an_input_without_a_source_is_refused(tmp_path: Path, facts: dict[str, object]) -> None:
    body = {"schema": read()["schema"], "groups": {"one": {"latency_s": facts}}, "points": []}
    path = tmp_path / "inputs.yaml"
    path.write_text(yaml.safe_dump(body))
    with pytest.raises(SystemExit, match=r"one\.latency_s"):
        published_points.points(path)


def test_an_interval_of_everything_loses_to_the_constant() -> None:
    everything = Score(point=made_up(80.0), low=0.0, high=100.0, middle=50.0, shares=())
    assert everything.outside == 0
    assert everything.interval_score == 100 > everything.constant_score == 30


def test_a_miss_costs_twenty_times_its_distance() -> None:
    narrow = Score(point=made_up(50.0), low=88.0, high=90.0, middle=89.0, shares=())
    assert narrow.interval_score == 2 + 20 * 38
    assert narrow.constant_score == 30 + 20 * 15
    assert "**50, outside by 38**" in published_points.row(narrow)


def test_the_input_that_rules_is_the_one_that_moves_the_forecast() -> None:
    fixed = {
        name: given(0.5) for name in ("overlap", "link_share")
    } | {"bucket_bytes": given(8e6), "algorithm": given("ring")}  # fmt: skip
    waiting = made_up(
        inputs=fixed | {"scatter": given(0.001, 0.4, is_range=True), "overlap": given(0.49, 0.5)}
    )
    (first, share), *_ = published_points.scored(waiting, 400, 1).shares
    assert first == "scatter"
    assert share > 0.9


def test_what_one_input_would_have_to_be_gives_the_published_value() -> None:
    point = made_up(40.0)
    share = published_points.needed(point, "link_share", (0.001, 1.0))
    assert share is not None
    draw = {name: published_points._middle(one) for name, one in point.inputs.items()}
    reached = published_points.efficiency(point, {**draw, "link_share": share})
    assert reached == pytest.approx(40.0, abs=0.01)
    assert published_points.needed(point, "pass_share", (0.0, 0.95)) is None


def test_a_part_that_no_batch_shortens_lowers_strong_scaling_alone() -> None:
    quiet = {
        "scatter": given(0.0),
        "gradient_bytes": given(1.0),
        "batch": given(640),
        "samples_per_s": given(1.0),
    }
    for scaling, expected in (("weak", 100.0), ("strong", 100 / (0.9 + 0.1 * 64))):
        point = made_up(scaling=scaling, inputs={**quiet, "pass_share": given(0.1)})
        draw = {name: published_points._middle(one) for name, one in point.inputs.items()}
        assert published_points.efficiency(point, draw) == pytest.approx(expected, rel=1e-3)


def test_the_page_has_the_rows_of_these_inputs() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text.partition(published_points.BEGIN)[2].partition(published_points.END)[0]
    assert f"Inputs `{digests.of_file(INPUTS)[:16]}`, {read()['draws']:,} draws" in shown
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    listed = published_points.points()
    assert [line.split(" | ")[0][2:] for line in rows[1:-3]] == [one.name for one in listed]
    # Each kind of point once; the script alone scores them all.
    for number in (1, 7, len(listed) - 1):
        score = published_points.scored(listed[number], read()["draws"], read()["seed"])
        assert published_points.row(score) == rows[number + 1]


def test_an_input_at_one_value_rules_no_more() -> None:
    point = published_points.fixed(made_up(), ["algorithm=ring", "link_share=0.5"])
    named = [name for name, _ in published_points.scored(point, 50, 1).shares]
    assert "algorithm" not in named
    assert "link_share" not in named
    assert "overlap" in named
    with pytest.raises(SystemExit, match="no input ring"):
        published_points.fixed(point, ["ring=1"])


def test_few_draws_print_a_table_and_replace_a_page_s() -> None:
    scores = [published_points.scored(point, 20, 1) for point in published_points.points()]
    text = published_points.table(scores, 20, 1, "0123456789abcdef" * 4)
    assert text.startswith("Inputs `0123456789abcdef`, 20 draws")
    assert len(text.splitlines()) == 4 + len(scores) + 3
    page = f"before\n{published_points.BEGIN}\nold\n{published_points.END}\nafter\n"
    assert published_points.replaced(page, text).count(text) == 1
    with pytest.raises(SystemExit, match="no <!--"):
        published_points.replaced("a page", text)
