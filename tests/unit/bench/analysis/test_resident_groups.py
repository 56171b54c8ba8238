"""Groups whose truth is known: what is said of their ratio, and of where the scatter comes from."""

import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis import resident_groups
from dlcontainer.bench.analysis.resident_groups import ResidentGroups
from dlcontainer.bench.report import html_report
from dlcontainer.bench.samples import reader
from tests import benchseries, residents
from tests.judging import analyse
from tests.residents import Truth
from tests.unit.bench.report.test_html_report import TEMPLATES


def described(folder: Path, truth: Truth) -> ResidentGroups:
    found = resident_groups.of(reader.read(residents.write(folder / "a.jsonl", truth)))
    assert found is not None
    return found


def test_the_endpoint_is_the_ratio_of_mean_step_times(tmp_path: Path) -> None:
    series = reader.read(residents.write(tmp_path / "a.jsonl", Truth(ratio=1.03)))
    found, analysis = resident_groups.of(series), analyse(series)
    assert found is not None
    assert analysis.main is not None
    d = {group.number: group.log_ratio for group in found.groups}
    for pair in analysis.pairs["pair"]:
        ours, theirs = series.samples[pair.reference.index], series.samples[pair.candidate.index]
        steps = [
            statistics.fmean(s for one in arm.residents for t in one.turns for s in t.steps_s)
            for arm in (ours, theirs)
        ]
        assert d[pair.number] == pytest.approx(math.log(steps[1] / steps[0]), abs=1e-9)


def test_nothing_scatters(tmp_path: Path) -> None:
    found = described(tmp_path, Truth(ratio=1.03, between=0.0, turns=0.0))
    assert found.trimmed == pytest.approx(1.03, abs=1e-6)
    assert found.cpu == pytest.approx(1.03, abs=1e-6)
    for part in (found.reference, found.candidate):
        assert (part.between, part.turns, part.farthest) == pytest.approx((0, 0, 0), abs=1e-7)


def test_the_seconds_of_a_group_are_accounted_for(tmp_path: Path) -> None:
    series = reader.read(residents.write(tmp_path / "a.jsonl", Truth(rounds=4)))
    found = resident_groups.of(series)
    assert found is not None
    spent = found.spent
    elapsed = [s.figure("elapsed_s") or 0.0 for s in series.samples if s.role == "pair"]
    assert spent.whole_s == pytest.approx(statistics.fmean(elapsed))
    turns = [t for s in series.samples for one in s.residents for t in one.turns]
    assert spent.turns_s == pytest.approx(sum(t.first_s + t.wall_s for t in turns) / 8)
    assert spent.start_s > 3.0
    page = html_report.html([analyse(series)], TEMPLATES)
    assert f"{spent.start_s:.1f} until all processes had imported" in page


def test_scatter_is_told_apart(tmp_path: Path) -> None:
    truth = Truth(between=0.02, turns=0.005, pairs=32, per_arm=4)
    found = described(tmp_path, truth)
    for part in (found.reference, found.candidate):
        assert part.processes == 128
        assert part.between == pytest.approx(0.02, rel=0.3)
        assert part.turns == pytest.approx(0.005, rel=0.3)
        assert part.farthest > 0.03


def test_scatter_of_turns_is_not_taken_for_one_of_processes(tmp_path: Path) -> None:
    found = described(tmp_path, Truth(between=0.0, turns=0.02, pairs=32))
    assert found.reference.between < 0.004
    assert found.reference.turns == pytest.approx(0.02, rel=0.2)


def test_one_far_round_moves_the_mean_and_not_the_diagnostic(tmp_path: Path) -> None:
    series = reader.read(residents.write(tmp_path / "a.jsonl", Truth(between=0, turns=0)))
    ours, theirs = sorted(list(series.samples)[:2], key=lambda one: one.arm == "container")
    process = theirs.residents[0]
    far = replace(process.turns[3], wall_s=9 * process.turns[3].wall_s)
    turns = (*process.turns[:3], far, *process.turns[4:])
    stalled = (replace(process, turns=turns), *theirs.residents[1:])
    wall = sum(one.wall_s for one in stalled)
    figure = resident_groups._figure(1, ours, replace(theirs, residents=stalled, wall_s=wall))
    assert figure.log_ratio == pytest.approx(math.log(1.5), abs=1e-6)
    assert figure.trimmed == pytest.approx(0, abs=1e-6)


def test_turns_of_other_lengths(tmp_path: Path) -> None:
    # Cold caches cost both arms the same share here, and the ratio stays; only steps are fewer.
    found = described(tmp_path, Truth(ratio=1.05, between=0, turns=0, cold=0.5))
    assert [one.steps for one in found.lengths] == [1, 2, 4, 8]
    assert [one.ratio for one in found.lengths] == pytest.approx([1.05] * 4, abs=1e-6)


def test_lost_groups_are_counted_by_arm(tmp_path: Path) -> None:
    found = described(tmp_path, Truth(lost=("native", "container", "native")))
    assert (found.reference.lost, found.candidate.lost) == (2, 1)


def test_launches_have_no_groups(tmp_path: Path) -> None:
    path = benchseries.write(tmp_path / "a.jsonl", benchseries.Plan(pairs=4, control_pairs=2))
    assert resident_groups.of(reader.read(path)) is None


@pytest.mark.parametrize(
    ("truth", "word"),
    [
        (Truth(between=0.005, turns=0.005), "EQUIVALENT"),
        (Truth(ratio=1.08, between=0.01), "SLOWER"),
        (Truth(between=0.05), "INCONCLUSIVE"),
    ],
)
def test_the_verdict_and_what_it_is_about(tmp_path: Path, truth: Truth, word: str) -> None:
    analysis = analyse(reader.read(residents.write(tmp_path / "a.jsonl", truth)))
    assert analysis.verdict.word == word
    page = html_report.html([analysis], TEMPLATES)
    assert "Processes of the groups" in page
    assert "with new processes of both, taking turns in random order" in page
    assert "data loaders or a whole job" in page
    assert "The A/A control has too few pairs" not in page
    if word != "INCONCLUSIVE":
        assert "Training in 1 thread on 1 quiet core of this node takes" in page


def test_the_page_counts_lost_groups(tmp_path: Path) -> None:
    path = residents.write(tmp_path / "a.jsonl", Truth(lost=("container",)))
    page = html_report.html([analyse(reader.read(path))], TEMPLATES)
    assert (
        "1 group lost a process and had to be measured again (native 0, container 1; lines 4)"
        in page
    )
