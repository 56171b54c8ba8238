"""A forecast in words and rows, as a terminal prints it and `report` shows it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlcontainer.bench.study.advice.drawn_inputs import DrawnInput, Spread
from dlcontainer.bench.study.advice.forecast_records import (
    BudgetRow,
    FitAnswer,
    FitRow,
    Forecast,
    LeftOutStrategy,
    ManyAnswer,
    SpeedAnswer,
    SpeedRow,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledCommand:
    """A command to copy, and what it would tell."""

    label: str
    command: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastPart:
    """One answer: its question, sentences above, a table (may be empty), sentences below."""

    question: str
    above: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    below: tuple[str, ...] = ()
    commands: tuple[LabelledCommand, ...] = ()


FIT_HEAD = ("strategy", "ranks", "bytes of a rank", "of these", "answer")
SPEED_HEAD = (
    *("strategy", "ranks", "nodes", "seconds a step", "efficiency", "term that rules"),
    *("input that rules the width", "known, it would be"),
)
INPUT_HEAD = ("input", "from", "to", "unit", "independent", "source")


def unit_of(forecast: Forecast) -> str:
    """Return what an hour is counted of: GPU or core."""
    return "GPU" if forecast.subject.device == "gpu" else "core"


def headline(forecast: Forecast) -> str:
    """Return what is forecast, and from what, in a line."""
    subject = forecast.subject
    points = f", {len(subject.calibrated_on)} points" if subject.calibrated_on else ""
    arm = f", {subject.arm} arm" if subject.arm else ""
    return (
        f"{subject.network} on {subject.machine}{arm}, {subject.scaling} scaling; from "
        f"{subject.origin}{points}"
    )


def parts(forecast: Forecast) -> tuple[ForecastPart, ...]:
    """Return the answers in their order."""
    return (
        fits(forecast.fit),
        fast(forecast),
        many(forecast),
        ForecastPart(
            question="what next?",
            above=forecast.next_step.lines() if forecast.next_step else (_no_next(forecast),),
        ),
    )  # fmt: skip


def _no_next(forecast: Forecast) -> str:
    kind = "no measurement shows where the time goes"
    return kind if forecast.subject.kind == "facts" else f"{kind} beyond the terms above"


def fits(fit: FitAnswer) -> ForecastPart:
    """Return the first answer."""
    if fit.unknown:
        above = (f"not known: {fit.unknown}",)
        return ForecastPart(question="does it fit?", above=above, commands=_one(fit.command))
    limit = "not asked: give --memory" if fit.limit is None else f"limit {_bytes(fit.limit)}"
    sources = dict.fromkeys(row.source for row in fit.rows)
    return ForecastPart(
        question="does it fit?",
        above=(limit, *sources),
        head=FIT_HEAD if fit.rows else (),
        rows=tuple(fit_row(row) for row in fit.rows),
    )


def fit_row(row: FitRow) -> tuple[str, ...]:
    """Return a row of FIT_HEAD."""
    shares = ", ".join(f"{name} {_bytes(size)}" for name, size in row.parts.items() if size)
    reserve = f", reserve {_bytes(row.reserve)}" if row.reserve else ""
    return (row.strategy, str(row.ranks), _bytes(row.bytes), shares + reserve, row.word or "-")


def fast(forecast: Forecast) -> ForecastPart:
    """Return the second answer."""
    speed = forecast.speed
    if speed.unknown:
        above = (f"not known: {speed.unknown}",)
        return ForecastPart(question="how fast?", above=above, commands=_one(speed.command))
    widened = dict.fromkeys(row.widened for row in speed.rows if row.widened)
    return ForecastPart(
        question="how fast? (intervals of 90 %)",
        head=SPEED_HEAD,
        rows=tuple(speed_row(row) for row in speed.rows),
        below=(
            *speed.misses,
            *_left_out(forecast.left_out),
            *_equal(speed),
            *widened,
            *forecast.notes,
        ),
        commands=(*_missing(forecast.left_out), *_telling(speed.rows)),
    )


def _equal(speed: SpeedAnswer) -> Iterator[str]:
    for ranks, names in speed.equals.items():
        yield f"at {ranks} {_noun(ranks)} not told apart: {', '.join(names)}"


def _noun(count: int) -> str:
    return "rank" if count == 1 else "ranks"


def _left_out(left_out: Sequence[LeftOutStrategy]) -> Iterator[str]:
    """Say each reason once, with its numbers of ranks."""
    reasons: dict[str, dict[str, list[int]]] = {}
    for omitted in left_out:
        # The number of ranks of a reason is the point's own: it is said before.
        why = omitted.why.removeprefix(f"{omitted.ranks} ranks ")
        reasons.setdefault(omitted.strategy, {}).setdefault(why, []).append(omitted.ranks)
    for strategy, whys in reasons.items():
        for why, ranks in whys.items():
            numbers = ", ".join(map(str, ranks))
            yield f"{strategy} left out at {numbers} {_noun(ranks[-1])}: {why}"


def _missing(left_out: Sequence[LeftOutStrategy]) -> Iterator[LabelledCommand]:
    """Name the measurements without which strategies are left out, each once."""
    for command in dict.fromkeys(omitted.command for omitted in left_out if omitted.command):
        why = next(omitted.why for omitted in left_out if omitted.command == command)
        yield LabelledCommand(
            label=f"measure {why.removesuffix(' was not measured')}", command=command
        )


def _telling(rows: Sequence[SpeedRow]) -> Iterator[LabelledCommand]:
    """Name the command of each ruling input once: that of the most ranks first."""
    commands = {
        row.input.key: row.command
        for row in reversed(rows)
        if row.input is not None and row.command
    }
    for key, command in commands.items():
        yield LabelledCommand(label=f"measure {key}", command=command)


def speed_row(row: SpeedRow) -> tuple[str, ...]:
    """Return a row of SPEED_HEAD."""
    ruled, narrowed = "-", "-"
    if row.is_measured:
        ruled = "measured"
    elif row.input is not None:
        ruled = f"{row.input.key}, {row.input.share:.0%} of the variance"
        narrowed = f"{row.input.narrowed:.0%} as wide"
    term = row.term
    total = sum(row.terms.values())
    if total:
        term = f"{row.term}, {row.terms[row.term] / total:.0%}"
    return (
        row.strategy, str(row.ranks), str(row.nodes), seconds(row.step_s), share(row.efficiency),
        term, ruled, narrowed,
    )  # fmt: skip


def many(forecast: Forecast) -> ForecastPart:
    """Return the third answer."""
    answer, unit = forecast.many, unit_of(forecast)
    question = "how many?"
    if answer.advice is None:
        return ForecastPart(question=question, above=(answer.unknown,))
    best = _best(answer, forecast.speed.rows)
    return ForecastPart(
        question=question,
        above=(answer.advice.words + (f" (with {answer.strategy})" if answer.strategy else ""),),
        head=("ranks", "strategy", f"samples a {unit}-hour", "efficiency"),
        rows=tuple(
            (str(row.ranks), row.strategy, count(row.samples_an_hour), share(row.efficiency))
            for row in best
        ),
        below=(
            *([answer.remark] if answer.remark else []),
            *(bought(row, unit) for row in answer.budget),
        ),
    )


def _best(answer: ManyAnswer, rows: Sequence[SpeedRow]) -> list[SpeedRow]:
    """Return the quickest strategy's row at each number of ranks that was tried."""
    assert answer.advice is not None  # noqa: S101 - asked for by the caller
    counted = [row for row in rows if row.is_measured or not answer.remark]
    return [
        max((row for row in counted if row.ranks == ranks), key=lambda row: row.efficiency.middle)
        for ranks in answer.advice.tried
    ]


def bought(row: BudgetRow, unit: str) -> str:
    """Return what a budget buys at one number of ranks."""
    return (
        f"{row.hours:g} {unit}-hours on {row.ranks} ranks ({row.strategy}): {count(row.samples)} "
        f"samples in {row.wall_hours:.3g} hours"
    )


def input_row(drawn_input: DrawnInput) -> tuple[str, ...]:
    """Return a row of INPUT_HEAD."""
    if drawn_input.choices:
        low, high = "one of", ", ".join(f"{choice:.4g}" for choice in drawn_input.choices)
    else:
        low, high = f"{drawn_input.low:.4g}", f"{drawn_input.high:.4g}"
    return (
        drawn_input.key,
        low,
        high,
        drawn_input.unit,
        drawn_input.independent,
        drawn_input.source,
    )


def seconds(spread: Spread) -> str:
    """Write seconds with their interval."""
    return f"{spread.middle:.3g} [{spread.low:.3g}, {spread.high:.3g}]"


def share(spread: Spread) -> str:
    """Write a share with its interval."""
    return f"{spread.middle:.3f} [{spread.low:.3f}, {spread.high:.3f}]"


def count(spread: Spread) -> str:
    """Write a number of samples with its interval."""
    for word, factor in ((" billion", 1e9), (" million", 1e6), ("", 1.0)):
        if spread.middle >= factor:
            ends = (spread.middle, spread.low, spread.high)
            middle, low, high = (_three(end / factor) for end in ends)
            return f"{middle} [{low}, {high}]{word}"
    return f"{spread.middle:.3g} [{spread.low:.3g}, {spread.high:.3g}]"


def _three(number: float) -> str:
    """Write three digits, or all those before the point."""
    return f"{number:,.0f}" if number >= 1000 else f"{number:.3g}"


def _bytes(size: float) -> str:
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B"


def _one(command: str) -> tuple[LabelledCommand, ...]:
    return (LabelledCommand(label="to know it", command=command),) if command else ()
