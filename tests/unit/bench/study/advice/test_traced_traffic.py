"""A trace in a forecast: its bytes, its messages, and what computing hides of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.samples.parallel_strategy import ParallelStrategy, parse
from dlcontainer.bench.samples.step_traffic import RankTraffic, StepTraffic, TrafficAxis
from dlcontainer.bench.study.advice import facts_file, facts_ground, study_ground
from dlcontainer.bench.study.advice.facts_ground import ForecastSource
from dlcontainer.bench.study.advice.forecast_records import TraceSource
from dlcontainer.bench.study.advice.study_ground import StudyWords
from dlcontainer.bench.study.advice.traced_traffic import BYTES, OVERLAP, TracedTraffic
from dlcontainer.bench.study.forecast import step_model
from tests import forecasts
from tests.forecasts import FACTS

SOURCE = TraceSource(origin="t.json", sha256="ab" * 32, side="container", steps=12, ranks=2)


def traffic(
    axis: TrafficAxis = "dp", megabytes: float = 50, messages: int = 4, exposed: float = 0.2
) -> TracedTraffic:
    rank = RankTraffic(computing_s=0.9, transfer_s=0.4, exposed_s=exposed)
    step = StepTraffic(
        axis=axis, gradient_bytes=megabytes * 1e6, messages=messages, ranks=(rank, rank), waiting=0
    )
    return TracedTraffic(source=SOURCE, step=step)


def facts(
    folder: Path, traced: TracedTraffic | None, text: str = FACTS, *strategies: str
) -> ForecastSource:
    read = facts_file.read(forecasts.write(folder, text), is_traced=traced is not None)
    source = facts_ground.of_facts(Path("facts.yaml"), read, "", strategies)
    return facts_ground.with_trace(source, read, traced)


@pytest.mark.parametrize("exposed", [0.13, 0.2, 0.3])
def test_the_overlap_is_the_one_that_exposes_as_much(exposed: float) -> None:
    traced = traffic(exposed=exposed)
    estimate = traced.overlap()
    assert estimate is not None
    again = step_model.buckets_s(4, 0.1, 0.6, estimate.value)
    assert again == pytest.approx(exposed, rel=1e-4)
    assert estimate.source == "t.json, side container, 12 steps"


def test_what_a_trace_can_not_tell_of_the_overlap_stays_as_it_was(tmp_path: Path) -> None:
    # The last message stands behind the pass anyway: of one alone nothing can be hidden.
    assert traffic(messages=1).overlap() is None
    assert traffic(axis="fsdp").overlap() is None
    assert replace(traffic(), is_elsewhere=True).overlap() is None
    keys = {each.key for each in facts(tmp_path, traffic(messages=1)).ground.inputs}
    assert "machine.overlap" in keys
    assert OVERLAP not in keys


def test_facts_take_bytes_and_overlap_from_a_trace(tmp_path: Path) -> None:
    without = forecasts.made(facts(tmp_path, None), nodes=2)
    half = forecasts.made(facts(tmp_path, traffic()), nodes=2)
    keys = {each.key: each for each in half.inputs}
    assert keys[BYTES].low == keys[BYTES].high == 50e6
    assert keys[BYTES].source == "t.json, side container, 12 steps"
    assert "network.gradient_bytes" not in keys
    assert "machine.overlap" not in keys
    assert half.subject.trace == SOURCE
    before, after = without.speed.rows[-1], half.speed.rows[-1]
    assert after.terms["exposed communication"] < before.terms["exposed communication"]
    assert after.step_s.width < before.step_s.width
    assert any("50 MB a step in 4 messages, of which computing can hide" in n for n in half.notes)


def test_an_overlap_that_is_stated_stays(tmp_path: Path) -> None:
    stated = FACTS.replace(
        "  samples_per_s",
        "  overlap: {value: 1, unit: share, source: s, independent: yes}\n  samples_per_s",
    )
    keys = {each.key for each in facts(tmp_path, traffic(), stated).ground.inputs}
    assert "machine.overlap" in keys
    assert OVERLAP not in keys


def test_a_trace_serves_its_own_strategy_alone(tmp_path: Path) -> None:
    both = ("dp", "fsdp")
    without = forecasts.made(facts(tmp_path, None, FACTS, *both), nodes=2)
    traced = forecasts.made(facts(tmp_path, traffic(), FACTS, *both), nodes=2)
    for row, before in zip(traced.speed.rows, without.speed.rows, strict=True):
        same = row.step_s == before.step_s
        assert same is ("fsdp" in row.strategy or row.ranks == 1)
    # What the other strategy takes is drawn as it was.
    assert "network.gradient_bytes" in {each.key for each in traced.inputs}


def test_without_stated_bytes_the_other_strategies_are_left_out(tmp_path: Path) -> None:
    lines = [line for line in FACTS.splitlines() if "gradient_bytes" not in line]
    text = "\n".join([*lines, ""])
    made = forecasts.made(facts(tmp_path, traffic(), text, "dp", "fsdp"), nodes=2)
    assert {row.strategy.rstrip("0123456789") for row in made.speed.rows} == {"dp"}
    (why,) = {omitted.why for omitted in made.left_out}
    assert why == "number of bytes of its gradients was not measured"
    assert all("--script" in omitted.command for omitted in made.left_out)


def test_hybrids_are_not_the_trace_s() -> None:
    assert traffic().serves(parse("dp", 8))
    assert traffic().serves(ParallelStrategy())
    assert not traffic().serves(parse("dp2xtp2", 4))
    assert not traffic().serves(parse("fsdp", 8))
    assert traffic(axis="fsdp").serves(parse("fsdp", 8))


def test_fsdp_sends_as_many_units_as_were_traced(tmp_path: Path) -> None:
    one, eight = (
        forecasts.made(facts(tmp_path, traffic("fsdp", 100, units), FACTS, "fsdp"), nodes=2)
        for units in (1, 8)
    )
    # The first unit's gather and the last one's scatter are exposed.
    exposed = [made.speed.rows[-1].terms["exposed communication"] for made in (one, eight)]
    assert exposed[1] < 0.7 * exposed[0]


def test_a_study_s_own_steps_tell_the_overlap_by_what_was_sent() -> None:
    measured = forecasts.study()
    words = StudyWords(origin="study")
    assert measured.parameters is not None
    # So few bytes cost the study's steps too little to tell it: then the trace does.
    for megabytes, source in ((4e-6 * measured.parameters, "data-parallel steps"), (50, "t.json")):
        given = study_ground.of_study(measured, words, None, traffic(megabytes=megabytes))
        inputs = {each.key: each for each in forecasts.made(given).inputs}
        assert inputs[OVERLAP].source.startswith(source)
        assert "overlap" not in inputs


def test_a_study_of_a_network_that_nobody_counted_is_forecast_by_its_trace() -> None:
    measured = forecasts.study()
    unknown = replace(
        measured,
        plan=replace(measured.plan, workload="train.py:build"),
        counted_parameters=None,
    )
    words = StudyWords(origin="study")
    assert "or a trace" in study_ground.of_study(unknown, words).ground.memory_only
    made = forecasts.made(study_ground.of_study(unknown, words, None, traffic()))
    assert made.speed.rows
    assert made.subject.trace == SOURCE
