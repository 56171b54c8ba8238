"""Nodes beside their kind: a slowed one is outside; what can't be judged says why."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.steps import node_baseline, node_times
from dlcontainer.bench.analysis.steps.node_times import NodeJudgement, NodeTimes
from dlcontainer.bench.samples import reader
from dlcontainer.bench.stats.scatter import outside
from dlcontainer.errors import BenchDataError
from tests import stepseries
from tests.stepseries import Plant

COUNT = outside.FEWEST


def nodes(folder: Path, plants: Sequence[Plant]) -> list[NodeTimes]:
    folder.mkdir(exist_ok=True)
    paths = [
        stepseries.write(folder / f"{i}-{plant.nodes[0]}.jsonl", plant)
        for i, plant in enumerate(plants)
    ]
    return node_times.of([reader.read(path) for path in paths], "container")


def plant(number: int, **changes: object) -> Plant:
    usual = {"nodes": (f"n{number:02}",), "seed": number + 1, "processes": 0.005}
    return Plant(**{**usual, "pairs": 4, "steps": 60, **changes})  # type: ignore[arg-type]


def states(judged: Sequence[NodeJudgement], state: str) -> list[str]:
    return [one.node.name for one in judged if one.state == state]


def test_a_slowed_node_is_outside_among_its_fellows(tmp_path: Path) -> None:
    found = nodes(tmp_path, [plant(i, slow={"n03": 1.15}) for i in range(COUNT)])
    judged = node_times.judge(found, node_times.baseline(found))
    assert states(judged, "outside") == ["n03"]
    assert judged[0].why.startswith("slower: its median step is 1.1")
    assert len(states(judged, "usual")) == COUNT - 1


def test_a_node_slowed_later_is_outside_of_the_baseline(tmp_path: Path) -> None:
    before = nodes(tmp_path / "before", [plant(i) for i in range(COUNT)])
    node_baseline.write(tmp_path / "b.json", before, ["seal"])
    known = node_baseline.read(tmp_path / "b.json").usual()
    assert known == node_times.baseline(before)
    after = [
        plant(2, seed=90),
        plant(3, seed=91, slow={"n03": 1.1}),
        plant(4, seed=92, slow={"n04": 0.8}),
        plant(5, seed=93, tail=3.0),
    ]
    judged = node_times.judge(nodes(tmp_path / "after", after), known)
    assert [one.why.partition(":")[0].partition(" of ")[0] for one in judged] == [
        *("slower", "quicker", "a slow tail", ""),
    ]
    assert states(judged, "usual") == ["n02"]


def test_all_ranks_of_all_launches_of_a_node_count_together(tmp_path: Path) -> None:
    ranked = Plant(nodes=("a", "b"), ranks_per_node=2, slow={"b": 2.0}, pairs=4, steps=60)
    again = Plant(nodes=("a", "b"), ranks_per_node=2, slow={"b": 2.0}, pairs=3, steps=60, seed=5)
    found = nodes(tmp_path, [ranked, again])
    assert [(one.name, one.launches) for one in found] == [("a", 7), ("b", 7)]
    assert found[1].median_s == pytest.approx(2 * found[0].median_s, rel=0.02)
    assert "ranks a node 2" in found[0].kind.work


def test_too_few_nodes_are_refused(tmp_path: Path) -> None:
    found = nodes(tmp_path, [plant(i) for i in range(COUNT - 1)])
    with pytest.raises(BenchDataError, match=f"{COUNT - 1} of one kind, {COUNT} are needed"):
        node_times.baseline(found)
    # Those with launches enough alone count.
    few = nodes(tmp_path / "more", [plant(i, pairs=2 if i else 4) for i in range(COUNT)])
    with pytest.raises(BenchDataError, match="1 of one kind"):
        node_times.baseline(few)


def test_another_kind_is_not_judged(tmp_path: Path) -> None:
    before = nodes(tmp_path / "before", [plant(i) for i in range(COUNT)])
    bigger = {**stepseries.TYPE, "memory_gib": 16}
    after = [plant(0, seed=77, kernel="6.9.0"), plant(1, seed=78, type=bigger), plant(2, pairs=2)]
    judged = node_times.judge(nodes(tmp_path / "after", after), node_times.baseline(before))
    assert [(one.state, one.node.name) for one in judged] == [
        *(("not judged", "n00"), ("not judged", "n01"), ("not judged", "n02")),
    ]
    assert "no baseline of its kind" in judged[0].why
    assert "kernel 6.9.0" in judged[0].why
    assert "16 GiB" in judged[1].why
    assert judged[2].why == "2 launches, 3 are needed"


def test_what_can_not_count(tmp_path: Path) -> None:
    with pytest.raises(BenchDataError, match="n00: its hardware, kernel or measured work differs"):
        nodes(tmp_path, [plant(0), plant(0, kernel="6.9.0", seed=9)])
    path = stepseries.write(tmp_path / "x.jsonl", plant(0))
    with pytest.raises(BenchDataError, match="the same session"):
        node_times.of([reader.read(path), reader.read(path)], "container")
    with pytest.raises(BenchDataError, match="has no arm unpacked"):
        node_times.of([reader.read(path)], "unpacked")
    bare = stepseries.write(tmp_path / "y.jsonl", plant(0, type={"cpu_model": None}))
    with pytest.raises(BenchDataError, match="does not attest its processor"):
        node_times.of([reader.read(bare)], "container")


def test_a_baseline_that_was_edited_or_is_none(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    node_baseline.write(path, nodes(tmp_path / "n", [plant(i) for i in range(COUNT)]), ["seal"])
    whole = json.loads(path.read_text())
    whole["kinds"][0]["nodes"][0]["median_s"] *= 2
    for text, why in (
        (json.dumps(whole), "it was edited"),
        ("{}", "it has no 'schema'"),
        ('{"schema": "x", "sha256": ""}', "its schema is x"),
        ("[]", "it is not a JSON object"),
        ("no", "Expecting value"),
    ):
        other = tmp_path / "other.json"
        other.write_text(text)
        with pytest.raises(BenchDataError, match="not a baseline of nodes") as caught:
            node_baseline.read(other)
        assert why in str(caught.value.why)
        # Nor is it replaced.
        with pytest.raises(BenchDataError, match="not a baseline of nodes"):
            node_baseline.write(other, [], [])
        assert other.read_text() == text
