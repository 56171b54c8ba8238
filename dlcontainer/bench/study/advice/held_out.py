"""A frozen forecast against points that were measured afterwards: error and interval score. Pure.

Interval score of 90 % (Gneiting and Raftery 2007): the interval's width, and 20 times what the
measured value lies outside of it; here in per cent of the measured seconds. A wide interval pays
for its width, so that nobody wins by [0, 100]. Against two baselines that know no model: "as at the
last measured point" keeps that point's time for a rank's samples, "perfect scaling" that of the
first one; both with the interval of that point's launches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.advice.forecast_file import FrozenForecast
from dlcontainer.bench.study.advice.forecast_records import (
    Forecast,
    MeasuredEnd,
    PointName,
    SpeedRow,
)
from dlcontainer.bench.study.study_records import MeasuredPoint, MeasuredStudy
from dlcontainer.errors import BenchDataError

# 2 / (1 - 0.9).
PENALTY = 20.0
ForecastName = Literal["forecast", "as at the last measured point", "perfect scaling"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredPoint:
    """One forecast of one point: per cent of the measured seconds."""

    name: ForecastName
    strategy: str
    ranks: int
    measured_s: float
    foreseen_s: Spread
    error: float
    score: float

    @property
    def is_inside(self) -> bool:
        """Whether the measured seconds lie in the interval."""
        return self.foreseen_s.low <= self.measured_s <= self.foreseen_s.high


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoreLine:
    """One forecast over all held-out points: mean and worst error, mean interval score."""

    name: ForecastName
    mean_error: float
    worst_error: float
    score: float
    inside: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutScore:
    """A forecast's score; `wins` names the lowest interval score, and the lowest mean error."""

    frozen: str
    study: str
    points: tuple[ScoredPoint, ...]
    lines: tuple[ScoreLine, ...]
    wins: ForecastName
    nearest: ForecastName
    # Points that the forecast was made of, and those it did not foresee.
    not_counted: tuple[str, ...]
    notes: tuple[str, ...] = ()


def score(path: str, frozen: FrozenForecast, study: MeasuredStudy) -> HeldOutScore:
    """Score a forecast on a study; raises BenchDataError where that is no test of it."""
    forecast = frozen.forecast
    _require_comparable(path, forecast, study)
    made_of = set(forecast.subject.calibrated_on)
    foreseen = {PointName(row.strategy, row.ranks): row for row in forecast.speed.rows}
    scored: list[ScoredPoint] = []
    not_counted: list[str] = []
    for point in study.points:
        name = PointName(point.plan.strategy.name, point.plan.ranks)
        words = f"{name.strategy} at {name.ranks} ranks"
        seconds = _seconds(point, forecast.subject.arm)
        if seconds is None:
            not_counted.append(f"{words}: not measured")
        elif name in made_of:
            not_counted.append(f"{words}: the forecast was made of it")
        elif name not in foreseen:
            not_counted.append(f"{words}: not in the forecast")
        else:
            scored += _scored(forecast, foreseen[name], point, seconds)
    if not scored:
        raise BenchDataError(
            "no point of the study was foreseen",
            where=path,
            why="; ".join(not_counted),
            next_step="measure points beyond those that the forecast was made of, up to its "
            "--nodes",
        )
    lines = _lines(scored)
    return HeldOutScore(
        frozen=frozen.frozen,
        study=study.digest,
        points=tuple(scored),
        lines=lines,
        wins=min(lines, key=lambda line: line.score).name,
        nearest=min(lines, key=lambda line: line.mean_error).name,
        not_counted=tuple(not_counted),
        notes=tuple(_notes(forecast, study)),
    )


def _require_comparable(path: str, forecast: Forecast, study: MeasuredStudy) -> None:
    subject, plan = forecast.subject, study.plan
    if subject.kind == "study" and subject.digest == study.digest:
        raise BenchDataError(
            "the forecast was made of this very study",
            where=path,
            next_step="give a study that was measured afterwards",
        )
    for fact, ours, theirs in (
        ("image", subject.image_sha256, plan.image_sha256),
        ("workload", subject.workload, plan.workload),
        ("precision", subject.precision, plan.precision),
        ("scaling", subject.scaling, plan.scaling),
        ("site", subject.machine if subject.kind == "study" else "", plan.site),
    ):
        if ours and ours != theirs:
            raise BenchDataError(
                f"not comparable: the forecast is of {fact} {_short(ours)}, the study of "
                f"{_short(theirs)}",
                where=path,
                next_step=f"measure a study with the same {fact}, or forecast again",
            )
    batches = {(row.strategy, row.ranks): row.global_batch for row in forecast.speed.rows}
    for point in study.points:
        batch = batches.get((point.plan.strategy.name, point.plan.ranks))
        if batch is not None and batch != point.plan.global_batch:
            raise BenchDataError(
                f"not comparable: at {point.plan.ranks} ranks the forecast is of a batch of "
                f"{batch} samples, the study of {point.plan.global_batch}",
                where=path,
                next_step="measure a study with the same batch, or forecast again",
            )


def _short(words: str) -> str:
    return words[:12] if len(words) == 64 else words


def _seconds(point: MeasuredPoint, arm: str) -> float | None:
    """Return the mean of an arm's steps; the last arm's where the forecast names none."""
    name = arm or next(reversed(list(point.arms)), "")
    steps = point.arms[name].step_s if name in point.arms else ()
    return fmean(steps) if steps else None


def _scored(
    forecast: Forecast, row: SpeedRow, point: MeasuredPoint, seconds: float
) -> list[ScoredPoint]:
    foreseen: dict[ForecastName, Spread] = {"forecast": row.step_s}
    ends: tuple[tuple[ForecastName, MeasuredEnd | None], ...] = (
        ("as at the last measured point", forecast.subject.last),
        ("perfect scaling", forecast.subject.first),
    )
    for name, end in ends:
        if end is not None:
            # The same samples a second and rank.
            factor = (point.plan.global_batch / point.plan.ranks) / (end.global_batch / end.ranks)
            foreseen[name] = Spread(
                low=end.step_s.low * factor,
                middle=end.step_s.middle * factor,
                high=end.step_s.high * factor,
            )
    return [
        ScoredPoint(
            name=name,
            strategy=row.strategy,
            ranks=row.ranks,
            measured_s=seconds,
            foreseen_s=spread,
            error=100 * (spread.middle / seconds - 1),
            score=100 * interval_score(spread, seconds) / seconds,
        )
        for name, spread in foreseen.items()
    ]


def interval_score(spread: Spread, value: float) -> float:
    """Return the interval score of 90 %, in the unit of the value."""
    return spread.width + PENALTY * max(spread.low - value, value - spread.high, 0.0)


def _lines(scored: Sequence[ScoredPoint]) -> tuple[ScoreLine, ...]:
    names = dict.fromkeys(point.name for point in scored)
    lines = []
    for name in names:
        matching = [point for point in scored if point.name == name]
        lines.append(
            ScoreLine(
                name=name,
                mean_error=fmean(abs(point.error) for point in matching),
                worst_error=max(abs(point.error) for point in matching),
                score=fmean(point.score for point in matching),
                inside=sum(point.is_inside for point in matching),
            )
        )
    return tuple(lines)


def _notes(forecast: Forecast, study: MeasuredStudy) -> list[str]:
    remarks = []
    subject, plan = forecast.subject, study.plan
    if plan.created < forecast.created:
        remarks.append(
            f"the study was begun ({plan.created}) before the forecast was frozen "
            f"({forecast.created}): this is no forecast of what nobody knew"
        )
    if not subject.image_sha256:
        remarks.append("the forecast names no image: only scaling and batch were compared")
    if subject.kind == "facts":
        remarks.append("a forecast from facts has no measured point: no baseline to beat")
    remarks += dict.fromkeys(point.emulated for point in study.points if point.emulated)
    return remarks
