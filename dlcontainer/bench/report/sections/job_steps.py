"""The steps of a session of jobs in words: the verdict, seconds of an hour, and what they are."""

import math
from collections.abc import Iterator

from dlcontainer.bench.job.job_records import SIDES, StepDeclaration
from dlcontainer.bench.job.step_analysis import StepReading
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.text.verdict_text import percent
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats.paired import Interval

_HOUR_S = 3600


def headline(reading: StepReading) -> str:
    """Return the verdict on steps in a few words."""
    if reading.verdict is None:
        return f"steps not measured: {reading.reason}"
    word: str = reading.verdict.word
    difference = reading.verdict.difference
    if word == "EQUIVALENT":
        word = f"{word} within {percent(reading.rule.margin)}"
    if difference is None or not _is_bounded(difference):
        return f"steps {word}"
    return f"steps {word}: {an_hour(difference)}"


def an_hour(difference: Interval) -> str:
    """Write what a ratio adds to an hour, with its interval."""
    added, low, high = (
        f"{_HOUR_S * (ratio - 1):+.0f}"
        for ratio in (difference.ratio, difference.low, difference.high)
    )
    return f"{added} s an hour ({low} to {high} s)"


def words(reading: StepReading) -> Iterator[str]:
    """Yield what a step is, what came out, and what it is not about."""
    verdict, rule = reading.verdict, reading.rule
    if verdict is None:
        yield f"Steps were not measured: {reading.reason}."
        return
    yield _meant(rule)
    difference = verdict.difference
    if difference is not None and _is_bounded(difference):
        yield (
            f"A step takes {_ms(reading.seconds['container'])} in the container and "
            f"{_ms(reading.seconds['native'])} natively, in {counted(reading.steps, 'step')} a "
            f"job: {verdict.word}, ratio {difference.ratio:.4f}, 95 % interval "
            f"{difference.low:.4f} to {difference.high:.4f}, which is {an_hour(difference)}; "
            f"{percent(rule.margin)} were declared not to matter."
        )
    if verdict.word == "INCONCLUSIVE":
        reasons = "; ".join(verdict.reasons) or "neither a difference nor that there is none"
        yield f"No verdict on steps: {reasons}."
    if verdict.more_pairs:
        yield f"A session that decides takes {verdict.more_pairs} more pairs."


def _meant(rule: StepDeclaration) -> str:
    end = "an optimizer of PyTorch has stepped, by the host's clock"
    if rule.source == "output":
        end = f"a line that matches {rule.mark!r} is read"
    return (
        f"A step ends when {end}; the first {rule.warm_up} of each process are left out, and the "
        "mean of all others counts, with whatever lies between two steps: input, evaluation, "
        "checkpoints. Work of a GPU that is still queued then is in a later step: over many steps "
        "the mean is the device's."
    )


def table(reading: StepReading | None, anchor: str) -> tuple[Table, ...]:
    """Return the steps' figures."""
    verdict = reading.verdict if reading else None
    if reading is None or verdict is None or verdict.difference is None:
        return ()
    difference = verdict.difference
    row = (
        verdict.word,
        *(f"{reading.seconds[side]:.6f}" for side in SIDES),
        f"{difference.ratio:.4f}",
        f"{difference.low:.4f} to {difference.high:.4f}" if _is_bounded(difference) else "none",
        f"{_HOUR_S * (difference.ratio - 1):+.1f}",
    )
    return (
        Table(
            name="Seconds of a step",
            head=("verdict", "native, s", "container, s", "ratio", "95 % interval", "s an hour"),
            rows=(row,),
            note="The unit is a job: its mean step, the median over its processes. Every job's are "
            "in the session's file.",
            numeric=True,
            anchor=anchor,
        ),
    )


def figures(reading: StepReading | None) -> dict[str, object] | None:
    """Return the steps for programs; None where nobody asked for them."""
    if reading is None:
        return None
    verdict = reading.verdict
    difference = verdict.difference if verdict else None
    bounded = difference if difference and _is_bounded(difference) else None
    return {
        "verdict": verdict.word if verdict else None,
        "headline": headline(reading),
        "reasons": list(verdict.reasons) if verdict else [reading.reason],
        "source": reading.rule.source,
        "margin": reading.rule.margin,
        "steps": reading.steps,
        "seconds": dict(reading.seconds),
        "ratio": difference.ratio if difference else None,
        "low": bounded.low if bounded else None,
        "high": bounded.high if bounded else None,
        "added_s_an_hour": _HOUR_S * (difference.ratio - 1) if difference else None,
    }


def _is_bounded(difference: Interval) -> bool:
    return difference.low > 0 and math.isfinite(difference.high)


def _ms(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds >= 1 else f"{1000 * seconds:.3f} ms"
