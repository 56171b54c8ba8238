"""A forecast from its ground: how fast and how many of what fits, the next step. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlcontainer.bench.study.advice import ground as ground_
from dlcontainer.bench.study.advice import how_many, speed_rows
from dlcontainer.bench.study.advice.drawn_inputs import Spread
from dlcontainer.bench.study.advice.forecast_records import (
    BudgetRow,
    FitAnswer,
    Forecast,
    ForecastSubject,
    ManyAnswer,
    SpeedAnswer,
    SpeedRow,
)
from dlcontainer.bench.study.advice.ground import ForecastGround, ForecastQuestion
from dlcontainer.bench.study.advice.how_many import RankedEfficiency
from dlcontainer.bench.study.forecast.next_step import NextStep

_MEASURED_ONLY = "of measured points alone: the model misses the last one"


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastStamp:
    """When and with which version a forecast is made, and what a study shows to change next."""

    created: str
    version: str
    next_step: NextStep | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastAnswers:
    """How fast, and how many."""

    speed: SpeedAnswer
    many: ManyAnswer


def answer(ground: ForecastGround, question: ForecastQuestion, fit: FitAnswer) -> ForecastAnswers:
    """Answer how fast and how many for the strategies that fit; stop where it is not known."""
    if ground.memory_only:
        unknown = SpeedAnswer(equals={}, unknown=ground.memory_only, command=ground.more)
        return ForecastAnswers(speed=unknown, many=_unknown("not answered: see how fast"))
    if fit.limit is not None and fit.unknown:
        unknown = SpeedAnswer(
            equals={}, unknown="not answered: does it fit is not known", command=fit.command
        )
        return ForecastAnswers(speed=unknown, many=_unknown("not answered: does it fit"))
    refused = {(row.strategy, row.ranks) for row in fit.rows if row.word == "does not fit"}
    refused |= {(refusal.strategy, refusal.ranks) for refusal in fit.refused}
    fitting = [
        candidate
        for candidate in ground_.listed(ground, question.nodes).candidates
        if (candidate.choice.strategy.name, candidate.ranks) not in refused
    ]
    if not fitting:
        unknown = SpeedAnswer(equals={}, unknown="no strategy fits", command="")
        return ForecastAnswers(speed=unknown, many=_unknown("no strategy fits"))
    speed = speed_rows.answer(ground, question, fitting)
    if not speed.misses:
        return ForecastAnswers(speed=speed, many=many(speed.rows, question, ground.subject))
    # A model that misses what was measured advises nobody.
    measured = [row for row in speed.rows if row.is_measured]
    advised = many(measured, question, ground.subject)
    return ForecastAnswers(speed=speed, many=replace(advised, remark=_MEASURED_ONLY))


def _unknown(why: str) -> ManyAnswer:
    return ManyAnswer(advice=None, unknown=why)


def many(
    rows: Sequence[SpeedRow], question: ForecastQuestion, subject: ForecastSubject
) -> ManyAnswer:
    """Advise a number of ranks by the strategy that is quickest at each, and what hours buy."""
    best: dict[int, SpeedRow] = {}
    for row in rows:
        if row.ranks not in best or row.efficiency.middle > best[row.ranks].efficiency.middle:
            best[row.ranks] = row
    advice = how_many.advise(
        [
            RankedEfficiency(
                ranks=row.ranks,
                efficiency=row.efficiency.middle,
                low=row.efficiency.low,
                high=row.efficiency.high,
            )
            for row in best.values()
        ],
        question.goal,
    )
    budget: tuple[BudgetRow, ...] = ()
    if question.budget_hours is not None:
        numbers = sorted({advice.surely or 0, advice.use or 0, advice.at_most or 0} - {0})
        budget = tuple(
            _bought(best[ranks], question.budget_hours, subject.units_per_rank) for ranks in numbers
        )
    strategy = best[advice.use].strategy if advice.use else ""
    return ManyAnswer(advice=advice, strategy=strategy, budget=budget)


def _bought(row: SpeedRow, hours: float, units_per_rank: int) -> BudgetRow:
    hourly = row.samples_an_hour
    return BudgetRow(
        ranks=row.ranks,
        strategy=row.strategy,
        hours=hours,
        wall_hours=hours / row.ranks / units_per_rank,
        samples=Spread(
            low=hours * hourly.low, middle=hours * hourly.middle, high=hours * hourly.high
        ),
    )


def notes(ground: ForecastGround) -> tuple[str, ...]:
    """Return what a reader must know beside the figures."""
    assumed = [
        drawn_input.key for drawn_input in ground.inputs if drawn_input.independent == "assumed"
    ]
    dependent = [
        drawn_input.key for drawn_input in ground.inputs if drawn_input.independent == "no"
    ]
    remarks = []
    if assumed:
        remarks.append(
            f"{len(assumed)} of {len(ground.inputs)} inputs are assumed: {', '.join(assumed)}"
        )
    if dependent:
        remarks.append(f"taken from what is forecast (not independent): {', '.join(dependent)}")
    return (*ground.remarks, *remarks)


def complete(
    ground: ForecastGround, question: ForecastQuestion, fit: FitAnswer, stamp: ForecastStamp
) -> Forecast:
    """Return the whole forecast."""
    answers = answer(ground, question, fit)
    return Forecast(
        subject=ground.subject,
        created=stamp.created,
        version=stamp.version,
        seed=question.seed,
        draws=speed_rows.draws_of(ground, question),
        inputs=speed_rows.inputs(ground),
        left_out=(*ground_.listed(ground, question.nodes).left_out, *fit.refused),
        fit=fit,
        speed=answers.speed,
        many=answers.many,
        next_step=stamp.next_step,
        notes=notes(ground),
    )
