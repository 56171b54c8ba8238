"""`bench variability`: what is settled and refused; the report's table has what was planted."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlcontainer.bench.probes import PROBES, variability
from dlcontainer.bench.probes.probe import ParameterContext, ProbeCell, ProbeSubject
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import Json, Sample
from dlcontainer.bench.samples.traits import ProbeTable
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.errors import BenchDataError, UsageError
from tests import stepseries
from tests.judging import analyse
from tests.stepseries import Plant
from tests.values import ROOT

TORCH = ProbeSubject(image="x.sif", recipe="demo", modules=("numpy", "torch"))
NONE = ProbeSubject(image="x.sif", recipe="demo", modules=())
PROBE = PROBES["variability"]


def settled(contents: ProbeSubject = TORCH, **typed: Any) -> ProbeCell:
    return ProbeCell(values=PROBE.values(typed, ParameterContext(contents=contents)), threads=2)


def section(path: Path, plant: Plant) -> ProbeTable:
    found = analyse(reader.read(stepseries.write(path, plant))).traits.section
    assert found is not None
    return found


def lines(found: ProbeTable) -> dict[str, tuple[str, ...]]:
    return {row[0]: row[1:] for row in found.rows}


def percent(cell: str) -> float:
    return float(cell.partition(" ")[0])


def test_the_kernel_follows_the_image_and_the_steps_the_size() -> None:
    assert settled().values == {"kernel": "gemm", "device": "cpu", "timed": 1000, "quick": False}
    assert settled(NONE, quick=True).values == {
        "kernel": "hash",
        "device": "cpu",
        "timed": 200,
        "quick": True,
    }
    assert settled(kernel="hash", timed=300).values["timed"] == 300
    with pytest.raises(UsageError, match="--kernel gemm needs torch; the recipe demo"):
        settled(NONE, kernel="gemm")
    with pytest.raises(UsageError, match="--kernel hash runs on CPUs only, not with --device cuda"):
        settled(NONE, device="cuda")


def test_words_and_rows() -> None:
    cell = settled(timed=150)
    assert PROBE.words(cell) == (
        *("variability", "--kernel", "gemm", "--device", "cpu", "--timed", "150", "--threads", "2"),
    )
    plan = PROBE.rows(cell)
    assert plan is not None
    assert plan.rows == ({"kernel": "gemm", "device": "cpu", "threads": 2},)


def test_the_parts_of_the_scatter_are_those_planted(tmp_path: Path) -> None:
    plant = Plant(
        nodes=("n1", "n2", "n3"),
        ranks_per_node=4,
        processes=0.05,
        within=0.03,
        pairs=10,
        slow={"n2": 1.2},
    )
    found = lines(section(tmp_path / "x.jsonl", plant))
    # Logs of 1, 1.2 and 1: a standard deviation of 0.105.
    for arm in (1, 2):
        assert percent(found["between nodes"][arm]) == pytest.approx(10.5, rel=0.25)
        assert percent(found["between processes"][arm]) == pytest.approx(5, rel=0.15)
        assert percent(found["within a process"][arm]) == pytest.approx(3, rel=0.05)
        assert percent(found["between ranks"][arm]) < 2.5
    assert found["between nodes"][1].endswith("(from 3)")
    assert found["between processes"][1].endswith("(from 120)")


def test_one_process_has_no_ranks_to_tell(tmp_path: Path) -> None:
    found = section(tmp_path / "x.jsonl", Plant(container=1.1, tail=2.0, processes=0.01))
    known = lines(found)
    assert known["between nodes"][1:3] == known["between ranks"][1:3] == ("one only", "one only")
    assert float(known["median step"][3]) == pytest.approx(1.1, rel=0.02)
    # Two of each hundred steps take twice as long.
    assert float(known["slow tail"][1]) == pytest.approx(2.0, rel=0.1)
    assert not [name for name in known if name.startswith("rank ")]
    assert "nobody is named, fewer than 3 ranks" in found.note


def test_one_rank_a_node_is_not_told_from_its_node(tmp_path: Path) -> None:
    found = lines(section(tmp_path / "x.jsonl", Plant(nodes=("n1", "n2", "n3"))))
    assert found["between ranks"][1] == "in the line above"


def test_a_slow_rank_is_named_with_its_node(tmp_path: Path) -> None:
    plant = Plant(nodes=("n1", "n2"), ranks_per_node=2, slow={2: 1.35}, processes=0.01)
    found = section(tmp_path / "x.jsonl", plant)
    ranks = [row[0] for row in found.rows if row[0].startswith("rank ")]
    assert ranks[0] == "rank 2 on n2, a straggler"
    assert sorted(ranks[1:]) == ["rank 0 on n1", "rank 1 on n1", "rank 3 on n2"]
    assert "Stragglers, native: rank 2 on n2 (1.3" in found.note
    assert "container: rank 2 on n2 (1.3" in found.note


def test_equal_ranks_are_not_named(tmp_path: Path) -> None:
    found = section(tmp_path / "x.jsonl", Plant(ranks_per_node=4, processes=0.01))
    assert found.note.endswith("Stragglers, native: none; container: none.")


def test_the_judged_figure_is_the_slowest_rank_s_median(tmp_path: Path) -> None:
    path = stepseries.write(tmp_path / "x.jsonl", Plant(ranks_per_node=3, slow={1: 2.0}))
    judged = analyse(reader.read(path))
    assert judged.main is not None
    assert judged.main.means[0] == pytest.approx(2 * stepseries.STEP_S, rel=0.02)
    assert "of the slowest of 3 ranks" in judged.traits.subject


@pytest.mark.parametrize("steps", [None, [], [0.0], ["x"], [True], [1e-3, float("inf")]])
def test_a_launch_without_times_is_refused_with_its_line(tmp_path: Path, steps: Any) -> None:
    plant, path = Plant(pairs=4), tmp_path / "x.jsonl"

    def changed(sample: Sample) -> Sample:
        return replace(sample, values={**sample.values, "steps_s": steps})

    with Writer(path, stepseries.session(plant)) as out:
        for sample in stepseries.draw(plant):
            out.sample(changed(sample) if sample.index == 5 else sample)
        out.end(complete=True)
    with pytest.raises(BenchDataError, match="no step times in this launch") as caught:
        analyse(reader.read(path))
    # The session's line, and five launches before.
    assert caught.value.where == f"{path}:7"


def test_the_slow_tail_has_a_ratio_with_an_interval(tmp_path: Path) -> None:
    def tails(sample: Sample) -> Sample:
        # Ten steps of a hundred take half as long again, in the container alone.
        steps = list(sample.values["steps_s"])  # type: ignore[arg-type]
        if sample.arm == "container":
            for number in range(90, 100):
                steps[number] = 1.5 * float(str(steps[number]))
        tail = sorted(float(str(one)) for one in steps)[98] / stepseries.STEP_S
        counts: dict[str, Json] = {"tail_ratio": tail}
        return replace(sample, values={**sample.values, "steps_s": steps, "counts": counts})

    plant, path = Plant(processes=0.005), tmp_path / "x.jsonl"
    with Writer(path, stepseries.session(plant)) as out:
        for sample in stepseries.draw(plant):
            out.sample(tails(sample))
        out.end(complete=True)
    analysis = analyse(reader.read(path))
    (figure,) = (one for one in analysis.secondary if one.metric == "counts.tail_ratio")
    assert figure.interval.low > 1.2
    shown = lines(analysis.traits.section or ProbeTable(title="", head=(), rows=()))
    assert float(shown["slow tail"][3]) == pytest.approx(figure.interval.ratio, rel=0.05)


def test_what_was_read_beside_the_steps(tmp_path: Path) -> None:
    watched = {"processor_used": 51.25, "gpu_w": 412.0, "watch_cost": 0.3}
    found = section(tmp_path / "x.jsonl", Plant(watched=watched)).companion
    assert found is not None
    assert found.rows == (
        ("processor used", "%", "51.25 (51.25 to 51.25)", "51.25 (51.25 to 51.25)"),
        ("gpu w", "W", "412 (412 to 412)", "412 (412 to 412)"),
        ("watch cost", "% of a processor", "0.3 (0.3 to 0.3)", "0.3 (0.3 to 0.3)"),
    )
    assert section(tmp_path / "y.jsonl", Plant()).companion is None


def test_the_figures_beside_are_those_of_the_probe() -> None:
    text = (ROOT / "dlcontainer/probe/watch.py").read_text()
    assert all(name in text for name in variability.WATCHED)
    assert "--watch" not in PROBE.words(settled())
    assert "--watch" in PROBE.words(settled(watch=True))
