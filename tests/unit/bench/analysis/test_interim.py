"""Looks: a session ends at the first that decides, and a report takes the same."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import reader
from dlcontainer.bench.samples.records import AttestedStack, Sample, SessionHeader
from dlcontainer.bench.samples.writer import Writer
from dlcontainer.cli import main
from tests import benchseries
from tests.benchrunner import Bench, ProbeRunner
from tests.benchseries import Plan
from tests.judging import analyse

LOOKS = (8, 16, 32)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def counted(samples: Sequence[Sample], role: str) -> int:
    return sum(sample.role == role for sample in samples)


def test_a_session_ends_at_the_first_look_that_decides(bench: Bench) -> None:
    bench.run(ProbeRunner(), probe="train", looks=LOOKS, controls=32)
    series = bench.read()
    assert series.complete
    assert series.end is not None
    assert series.end.reason == "ended at its look at 8 pairs"
    assert (counted(series.samples, "pair"), counted(series.samples, "control")) == (16, 16)
    assert series.session.declared.looks == LOOKS
    assert analyse(series).verdict.word == "EQUIVALENT"


def test_an_undecided_session_is_exhausted_and_ends(bench: Bench) -> None:
    # Import times that are the same are never EQUIVALENT, and never different.
    bench.run(ProbeRunner(), looks=(8, 12), controls=0)
    series = bench.read()
    assert series.complete
    assert counted(series.samples, "pair") == 24
    assert analyse(series).verdict.word == "INCONCLUSIVE"
    assert analyse(series).verdict.reasons == ()


def test_a_slower_container_ends_a_session(bench: Bench) -> None:
    bench.run(ProbeRunner(wall=lambda inside: 1.5 if inside else 1.0), looks=LOOKS, controls=0)
    analysis = analyse(bench.read())
    assert counted(bench.read().samples, "pair") == 16
    said = verdict_text.headline(analysis)
    assert said.startswith("+0.5 s a launch; warm, ")
    assert said.endswith("; 0.01 % of a one-hour job; SLOWER by 50 to 50 %, in this session")
    assert analysis.alpha == 0.019


def test_no_figure_is_shown_while_it_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr("tests.fakes.Quiet.step", lambda _, title: said.append(title))
    monkeypatch.setattr("tests.fakes.Quiet.note", lambda _, text: said.append(text))
    bench.run(ProbeRunner(wall=lambda inside: 1.2345 if inside else 1.0), looks=(8, 12))
    assert said[2].startswith("a result at 8 measured pairs: ")
    assert said[4].startswith("pair 1 of ")
    words = ("1.2345", "0.2345", "ratio", "SLOWER", "FASTER", "EQUIVALENT", "INCONCLUSIVE")
    assert not [word for word in words for line in said if word in line]


def declared(plan: Plan, looks: tuple[int, ...]) -> SessionHeader:
    session = benchseries.session(plan)
    return replace(session, declared=replace(session.declared, looks=looks, pairs=looks[-1]))


def written(folder: Path, plan: Plan, looks: tuple[int, ...], *, complete: bool = True) -> Analysis:
    path = folder / "a.jsonl"
    with Writer(path, declared(plan, looks)) as out:
        out.stack(AttestedStack(arm="native", facts=plan.reference))
        out.stack(AttestedStack(arm="container", facts=plan.candidate))
        for sample in benchseries.draw(plan):
            out.sample(sample)
        out.end(complete=complete)
    return analyse(reader.read(path))


def test_a_session_that_went_on_after_it_had_decided_decides_nothing(tmp_path: Path) -> None:
    verdict = written(tmp_path, Plan(pairs=16, ratio=1.05), LOOKS).verdict
    assert verdict.word == "INCONCLUSIVE"
    assert verdict.reasons == ("it went on to 16 pairs after its look at 8 had decided",)


def test_a_session_that_ended_at_a_look_that_does_not_decide(tmp_path: Path) -> None:
    verdict = written(tmp_path, Plan(pairs=8, sd=0.07), LOOKS).verdict
    assert verdict.word == "INCONCLUSIVE"
    assert verdict.reasons[0] == "it ended at its look at 8 pairs, which does not decide"


def test_each_look_takes_more_than_a_single_one(tmp_path: Path) -> None:
    # Alpha is spent: the same pairs that decide alone do not at the first of three looks.
    plan = Plan(pairs=8, control_pairs=8, ratio=1.028, sd=0.006, seed=5)
    (tmp_path / "one").mkdir()
    (tmp_path / "three").mkdir()
    alone = written(tmp_path / "one", plan, (8,))
    first = written(tmp_path / "three", plan, LOOKS)
    assert alone.verdict.difference is not None
    assert first.verdict.difference is not None
    assert alone.verdict.difference.level == 0.95
    assert first.verdict.difference.level == pytest.approx(0.981)
    assert first.verdict.difference.low < alone.verdict.difference.low
    assert (alone.verdict.word, first.verdict.word) == ("SLOWER", "INCONCLUSIVE")


def test_launches_without_a_time_are_named(tmp_path: Path) -> None:
    def change(sample: Sample) -> Sample:
        if sample.role == "pair" and sample.pair == 3 and sample.arm == "container":
            return replace(sample, values={**sample.values, "steady_s": 0.0})
        return sample

    verdict = written(tmp_path, Plan(pairs=8, change=change), (8,)).verdict
    assert verdict.word == "INCONCLUSIVE"
    assert "1 launches have no positive steady_s (lines " in verdict.reasons[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--looks", "8,x"), "numbers of pairs"),
        (("--looks", ""), "numbers of pairs"),
        (("--looks", "4,8"), "the first at least 8"),
        (("--looks", "16,8"), "strictly increasing multiples of 4"),
        (("--looks", "8,8"), "strictly increasing multiples of 4"),
        (("--looks", "8,18"), "strictly increasing multiples of 4"),
        (("--looks", "8,16", "--pairs", "8"), "give only one of them"),
        (("--resume", "a.jsonl", "-o", "b.jsonl"), "continues in its own file"),
    ],
)
def test_looks_that_are_none(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["bench", "import", "--site", "local", "--image", "no.sif", *arguments]
    assert main._run(argv, as_json=False) == 2
    assert says in capsys.readouterr().err
