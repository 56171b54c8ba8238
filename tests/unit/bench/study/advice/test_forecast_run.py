"""A forecast's answers in their order, from facts and from studies; it stops where it must."""

from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.study.advice import fit_answers, forecast_text, ground, study_ground
from dlcontainer.bench.study.advice.forecast_records import FitAnswer, FitRow, Forecast
from dlcontainer.bench.study.advice.study_ground import StudyWords
from dlcontainer.errors import BenchDataError, UsageError
from tests import forecasts
from tests.forecasts import FACTS
from tests.planted_studies import Planted, StudyCase


def rows(made: Forecast) -> dict[tuple[str, int], object]:
    return {(row.strategy, row.ranks): row for row in made.speed.rows}


def text(made: Forecast) -> str:
    lines = []
    for part in forecast_text.parts(made):
        lines += [part.question, *part.above, *map(" | ".join, part.rows), *part.below]
        lines += [f"{each.label}: {each.command}" for each in part.commands]
    return "\n".join(lines)


def test_facts_answer_how_fast_and_how_many(tmp_path: Path) -> None:
    made = forecasts.made(forecasts.source(tmp_path), nodes=4, budget=100)
    assert [row.ranks for row in made.speed.rows] == [1, 2, 4, 8, 16]
    first, last = made.speed.rows[0], made.speed.rows[-1]
    assert first.efficiency.low == first.efficiency.high == 1
    assert first.step_s.middle == pytest.approx(128 / 360, rel=0.02)
    assert last.efficiency.low < last.efficiency.middle < last.efficiency.high < 1
    assert last.samples_an_hour.middle == pytest.approx(3600 * 128 / last.step_s.middle, rel=0.05)
    assert last.input is not None
    assert last.input.key == "machine.between_nodes.bandwidth"
    assert last.command.startswith("dlcontainer bench collectives")
    advice = made.many.advice
    assert advice is not None
    assert advice.tried == (1, 2, 4, 8, 16)
    bought = made.many.budget[0]
    assert bought.wall_hours == pytest.approx(100 / bought.ranks)
    assert made.notes[0].endswith(
        "machine.in_node.latency, machine.between_nodes.latency, machine.neighbours, "
        "machine.overlap, machine.scatter"
    )
    assert made.notes[1].endswith("machine.between_nodes.bandwidth")


def test_the_same_facts_give_the_same_forecast(tmp_path: Path) -> None:
    given = forecasts.source(tmp_path)
    assert forecasts.made(given, nodes=2) == forecasts.made(given, nodes=2)


def test_a_batch_that_is_not_known_is_drawn(tmp_path: Path) -> None:
    wide = FACTS.replace("value: 128", "choices: [64, 256]")
    one = forecasts.made(forecasts.source(tmp_path), nodes=2).speed.rows[-1]
    two = forecasts.made(forecasts.source(tmp_path, wide), nodes=2).speed.rows[-1]
    assert two.step_s.high > 3 * two.step_s.low
    assert two.efficiency.width > one.efficiency.width


def test_core_hours_count_the_cores_of_a_rank(tmp_path: Path) -> None:
    cores = FACTS.replace(
        "  device: gpu",
        "  device: cpu\n  cores_per_rank: {value: 8, unit: cores, source: s, independent: yes}",
    )
    gpu = forecasts.made(forecasts.source(tmp_path), nodes=1)
    cpu = forecasts.made(forecasts.source(tmp_path, cores), nodes=1)
    ratio = gpu.speed.rows[0].samples_an_hour.middle / cpu.speed.rows[0].samples_an_hour.middle
    assert ratio == pytest.approx(8)
    assert "samples a core-hour" in forecast_text.many(cpu).head


def test_strategies_that_tie_are_not_told_apart(tmp_path: Path) -> None:
    # With so quick a network nothing is lost by either.
    quick = FACTS.replace("[20, 60]", "[20000, 60000]")
    made = forecasts.made(forecasts.source(tmp_path, quick, ("dp", "fsdp")), nodes=1)
    assert set(made.speed.equals[4]) == {"dp4", "fsdp4"}
    assert "at 4 ranks not told apart: " in text(made)
    slow = FACTS.replace("[20, 60]", "[0.2, 0.6]")
    made = forecasts.made(forecasts.source(tmp_path, slow, ("dp", "fsdp")), nodes=1)
    assert 4 not in made.speed.equals


def test_a_limit_that_nobody_can_hold_memory_against_stops_it(tmp_path: Path) -> None:
    given = forecasts.source(tmp_path)
    fit = fit_answers.not_known(given.ground, 40 * 10**9, has_image=False)
    made = forecasts.made(given, fit=fit)
    assert made.speed.rows == ()
    assert made.many.advice is None
    said = text(made)
    assert "not known: its PyTorch tells it: give --image" in said
    assert "--image IMAGE --script FILE:build --memory 40GB" in said


def test_what_does_not_fit_is_left_out(tmp_path: Path) -> None:
    given = forecasts.source(tmp_path, strategies=("dp", "fsdp"))
    listed = ground.listed(given.ground, 1).candidates
    fit_rows = tuple(
        FitRow(
            strategy=one.choice.strategy.name, ranks=one.ranks, parts={"parameters": 5e10},
            reserve=1e9, source="s",
            word="does not fit" if one.choice.strategy.fsdp == 1 else "fits",
        )
        for one in listed
    )  # fmt: skip
    made = forecasts.made(given, nodes=1, fit=FitAnswer(limit=4e10, rows=fit_rows))
    assert {row.strategy for row in made.speed.rows} == {"fsdp2", "fsdp4"}
    assert "does not fit" in text(made)
    none = FitAnswer(limit=4e10, rows=tuple(replace(row, word="does not fit") for row in fit_rows))
    assert "no strategy fits" in text(forecasts.made(given, nodes=1, fit=none))


def test_a_study_is_measured_up_to_its_last_point_and_forecast_beyond() -> None:
    made = forecasts.of_study(forecasts.study())
    assert [row.ranks for row in made.speed.rows] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert [row.is_measured for row in made.speed.rows] == [True] * 4 + [False] * 4
    assert made.subject.last is not None
    assert made.subject.last.ranks == 8
    assert {point.ranks for point in made.subject.calibrated_on} == {1, 2, 4, 8}
    # The terms of a measured point are those of its launches.
    assert made.speed.rows[3].term == "exposed communication"
    assert not made.speed.rows[-1].widened


def test_beyond_sixteen_times_the_last_point_it_widens_and_says_why() -> None:
    made = forecasts.of_study(forecasts.study(), nodes=128)
    by_ranks = {row.ranks: row for row in made.speed.rows}
    near, far = by_ranks[128], by_ranks[512]
    assert not near.widened
    assert far.widened.startswith("64 times the last measured point (8): beyond 16 times")
    assert far.efficiency.width > 1.3 * near.efficiency.width
    assert far.widened in text(made)


def test_the_model_that_misses_the_last_point_says_so() -> None:
    slow = StudyCase(terms={1: Planted(), 2: Planted(), 4: Planted(communication=0.02)})
    made = forecasts.of_study(forecasts.study(slow))
    assert "THE MODEL MISSES the last measured point of dp4" in text(made)
    assert made.many.advice is not None
    assert made.many.advice.tried == (1, 2, 4)
    assert "of measured points alone" in text(made)
    even = StudyCase(terms={1: Planted(), 2: Planted(), 4: Planted()})
    assert "THE MODEL MISSES" not in text(forecasts.of_study(forecasts.study(even)))


def test_one_point_tells_memory_only() -> None:
    made = forecasts.of_study(forecasts.study(StudyCase(terms={1: Planted()})))
    assert made.speed.rows == ()
    said = text(made)
    assert "the study has one point (1 ranks): it tells memory only" in said
    assert "to know it: dlcontainer bench scaling --site local --image IMAGE" in said


def test_scatter_beyond_the_effect_is_not_told_apart() -> None:
    terms = {1: Planted(), 2: Planted(communication=0.001), 4: Planted(communication=0.002)}
    made = forecasts.of_study(
        forecasts.study(StudyCase(terms=terms, sd=0.25, few=4, full=8)), nodes=1
    )
    advice = made.many.advice
    assert advice is not None
    assert advice.surely == 1
    assert advice.at_most == 4
    assert "1 to 4 not told apart" in advice.words


def test_a_network_that_nobody_lists_takes_its_bytes_from_the_image() -> None:
    own = forecasts.study(StudyCase(workload="mine"))
    assert "nothing tells the bytes of mine's gradients" in text(forecasts.of_study(own))
    given = study_ground.of_study(own, StudyWords(origin="study"), gradient_bytes=1e8)
    assert forecasts.made(given).speed.rows


def test_a_link_that_nobody_measured_leaves_its_strategies_out() -> None:
    alone = replace(forecasts.study(), messages=())
    made = forecasts.of_study(alone)
    assert [row.ranks for row in made.speed.rows] == [1, 2, 4, 8]
    assert {each.strategy for each in made.left_out} == {"dp"}
    assert all(each.why.endswith(" was not measured") for each in made.left_out)
    assert "dp left out at 16, 32, 64, 128 ranks: bandwidth" in text(made)
    assert "measure bandwidth in a node: dlcontainer bench collectives" in text(made)


def test_arms_and_incomplete_points() -> None:
    study = forecasts.study()
    with pytest.raises(UsageError, match="--arm bare: the study has no such arm"):
        forecasts.of_study(study, StudyWords(origin="study", arm="bare"))
    cut = replace(study.points[-1], complete=False)
    made = forecasts.of_study(replace(study, points=(*study.points[:-1], cut)))
    assert "incomplete points, as far as they were measured: 8 ranks" in made.notes
    empty = tuple(replace(point, arms={}) for point in study.points)
    with pytest.raises(BenchDataError, match="no point of the study has steps"):
        forecasts.of_study(replace(study, points=empty))


def test_emulated_compute_is_named() -> None:
    made = forecasts.of_study(forecasts.study(StudyCase(emulated="emulated: 4 ranks on 2 cores")))
    assert "emulated: 4 ranks on 2 cores" in text(made)


def test_a_node_is_as_full_as_was_declared() -> None:
    study = forecasts.study(StudyCase(baseline=True))
    fuller = replace(study, plan=replace(study.plan, options={"ranks_per_node": 16}))
    assert [row.nodes for row in forecasts.of_study(study).speed.rows][-3:] != [1, 2, 4]
    made = forecasts.of_study(fuller)
    assert {row.ranks: row.nodes for row in made.speed.rows}[16] == 1
    beside = {one.key: one for one in made.inputs}["idle neighbours"]
    before = {one.key: one for one in forecasts.of_study(study).inputs}["idle neighbours"]
    assert beside.high > 2 * before.high
