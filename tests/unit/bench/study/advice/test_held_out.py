"""A frozen forecast against later measurements: refused, scored, and held to its baselines."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlcontainer.bench.study.advice import forecast_file, held_out, score_text
from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.advice.forecast_file import FrozenForecast
from dlcontainer.bench.study.advice.forecast_records import Forecast
from dlcontainer.bench.study.study_records import MeasuredStudy
from dlcontainer.errors import BenchDataError
from tests import forecasts


@pytest.fixture
def frozen(tmp_path: Path) -> FrozenForecast:
    return forecast_file.read(written(tmp_path))


def written(folder: Path) -> Path:
    path = folder / "f.json"
    body = forecast_file.body(forecasts.of_study(forecasts.study()))
    path.write_text(json.dumps({"schema": "dlcontainer/forecast/1", **body}, indent=1))
    return path


def foreseen(frozen: FrozenForecast, ranks: int) -> Spread:
    return next(row.step_s for row in frozen.forecast.speed.rows if row.ranks == ranks)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    read = forecast_file.read(path)
    assert read.forecast == forecasts.of_study(forecasts.study())
    assert forecast_file.is_one(path)
    assert not forecast_file.is_one(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"goal": 0.85', '"goal": 0.8', "changed after it was frozen"),
        ('"seed": 34', '"seed": 35', "changed after it was frozen"),
        ('"frozen": "', '"frozen": "0', "changed after it was frozen"),
        ("dlcontainer/forecast/1", "dlcontainer/forecast/2", "not a forecast"),
        ("{", "", "not a forecast"),
        ('"seed": 34', '"seed": NaN', "not a forecast"),
        ('"seed": 34', '"seed": 34, "seed": 34', "not a forecast"),
    ],
)
def test_a_forecast_that_was_changed_is_refused(
    tmp_path: Path, old: str, new: str, why: str
) -> None:
    path = written(tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BenchDataError, match=why) as caught:
        forecast_file.read(path)
    assert caught.value.exit_code == 7


def test_a_digest_does_not_make_a_forecast(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    for settled in ({}, {"subject": 1}, {**forecast_file.body(made()), "speed": {"rows": [{}]}}):
        body = {key: part for key, part in settled.items() if key != "frozen"}
        frozen = {"schema": "dlcontainer/forecast/1", "frozen": forecast_file.digest(body), **body}
        path.write_text(json.dumps(frozen))
        with pytest.raises(BenchDataError, match="not a forecast"):
            forecast_file.read(path)


def made() -> Forecast:
    return forecasts.of_study(forecasts.study())


def test_the_score_of_an_interval() -> None:
    spread = Spread(low=1, middle=1.5, high=2)
    assert held_out.interval_score(spread, 1.7) == 1
    assert held_out.interval_score(spread, 2.1) == pytest.approx(1 + 20 * 0.1)
    assert held_out.interval_score(spread, 0.9) == pytest.approx(1 + 20 * 0.1)


def test_a_forecast_that_is_right_wins(frozen: FrozenForecast) -> None:
    later = forecasts.later({ranks: foreseen(frozen, ranks).middle for ranks in (8, 32, 64)})
    score = held_out.score("later", frozen, later)
    assert (score.wins, score.nearest) == ("forecast", "forecast")
    assert {point.ranks for point in score.points} == {32, 64}
    assert score.not_counted == ("dp8 at 8 ranks: the forecast was made of it",)
    forecast, last, perfect = score.lines
    assert forecast.mean_error == pytest.approx(0, abs=0.1)
    assert (forecast.inside, perfect.inside) == (2, 0)
    assert forecast.score < last.score < perfect.score
    said = [score_text.headline(score), *score_text.below(score)]
    assert said[0] == "2 held-out points: best interval score: forecast; least mean error: forecast"


def test_a_baseline_that_is_right_wins(frozen: FrozenForecast) -> None:
    last = frozen.forecast.subject.last
    assert last is not None
    score = held_out.score("later", frozen, forecasts.later({64: last.step_s.middle}))
    assert score.wins == score.nearest == "as at the last measured point"
    assert score.points[0].error > 3
    first = frozen.forecast.subject.first
    assert first is not None
    score = held_out.score("later", frozen, forecasts.later({64: first.step_s.middle}))
    assert score.wins == "perfect scaling"


def test_a_wide_interval_pays_for_its_width(frozen: FrozenForecast) -> None:
    right = foreseen(frozen, 64).middle
    row = next(row for row in frozen.forecast.speed.rows if row.ranks == 64)
    wide = replace(row, step_s=Spread(low=0, middle=right, high=100 * right))
    speed = replace(frozen.forecast.speed, rows=(wide,))
    vague = replace(frozen, forecast=replace(frozen.forecast, speed=speed))
    score = held_out.score("later", vague, forecasts.later({64: right}))
    assert score.points[0].is_inside
    assert score.wins != "forecast"


def other(name: str) -> MeasuredStudy:
    later = forecasts.later({64: 0.04})
    changed = {
        "image": {"image_sha256": "1" * 64},
        "workload": {"workload": "alexnet"},
        "precision": {"precision": "bf16"},
        "scaling": {"scaling": "strong"},
        "site": {"site": "lumi"},
    }
    return replace(later, plan=replace(later.plan, **changed[name]))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["image", "workload", "precision", "scaling", "site"])
def test_other_work_is_refused_by_the_fact(frozen: FrozenForecast, name: str) -> None:
    with pytest.raises(BenchDataError, match=f"not comparable: the forecast is of {name} "):
        held_out.score("later", frozen, other(name))


def test_another_batch_is_refused(frozen: FrozenForecast) -> None:
    later = forecasts.later({64: 0.04})
    point = replace(later.points[0], plan=replace(later.points[0].plan, global_batch=64))
    with pytest.raises(BenchDataError, match="a batch of 2048 samples, the study of 64"):
        held_out.score("later", frozen, replace(later, points=(point,)))


def test_the_study_that_it_was_made_of_is_no_test(frozen: FrozenForecast) -> None:
    with pytest.raises(BenchDataError, match="made of this very study"):
        held_out.score("study", frozen, forecasts.study())
    again = forecasts.study(digest="ef" * 32)
    with pytest.raises(BenchDataError, match="no point of the study was foreseen"):
        held_out.score("study", frozen, again)


def test_a_study_begun_before_is_named(frozen: FrozenForecast) -> None:
    early = forecasts.later({64: 0.04}, created="2026-11-01T00:00:00Z")
    score = held_out.score("later", frozen, early)
    assert "this is no forecast of what nobody knew" in score.notes[0]
    assert not held_out.score("later", frozen, forecasts.later({64: 0.04})).notes


def test_facts_have_no_baseline_and_say_so(tmp_path: Path) -> None:
    facts = forecasts.made(forecasts.source(tmp_path, forecasts.FACTS.replace("128,", "32,")))
    frozen = FrozenForecast(path=tmp_path, frozen="0" * 64, forecast=facts)
    score = held_out.score("later", frozen, forecasts.later({64: 0.1}))
    assert [line.name for line in score.lines] == ["forecast"]
    assert "no image" in score.notes[0]
    assert "no baseline to beat" in score.notes[1]
