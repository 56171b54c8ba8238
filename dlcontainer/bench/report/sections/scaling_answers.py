"""What is asked first of scaling studies, each in a line: the container's cost, the efficiency."""

from collections.abc import Iterator, Sequence

from dlcontainer.bench.analysis.verdict import Word
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import scaling_cells as cells
from dlcontainer.bench.report.sections import scaling_comparison, scaling_inputs
from dlcontainer.bench.report.sections import scaling_words as words
from dlcontainer.bench.report.sections.shared_answer import CANNOT_TELL
from dlcontainer.bench.report.sections.spoken_answer import SpokenAnswer
from dlcontainer.bench.report.text import scope_text
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.study import study_analysis
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.study_analysis import PointAnalysis
from dlcontainer.bench.study.study_comparison import StudyComparison

_COSTS: dict[Word, str] = {"EQUIVALENT": "No", "FASTER": "No, it saves time", "SLOWER": "Yes"}
_NO_POINT = "No point was measured"


def of(findings: Sequence[InputFinding]) -> tuple[SpokenAnswer, ...]:
    """Return two answers for each study, and one for each two side by side."""
    judged = [study for _, study in scaling_inputs.studies(findings)]
    together = (_together(comparison) for comparison in scaling_inputs.comparisons(findings))
    alone = (answer for study in judged for answer in _study(study, len(judged)))
    return (*together, *alone)


def _study(judged: JudgedStudy, count: int) -> Iterator[SpokenAnswer]:
    points = study_analysis.read(judged)
    finals = study_analysis.last(points)
    plan = judged.study.plan
    where = "" if count == 1 else f" at {plan.site} ({judged.study.folder.name})"
    if not finals:
        question = f"How does {plan.workload} scale{where}?"
        yield SpokenAnswer(question=question, reply=CANNOT_TELL, figures=_NO_POINT, sure="unsure")
        return
    for final in finals:
        under = f" under {final.strategy}" if len(finals) > 1 else ""
        size = f"{counted(final.ranks, 'rank')}{under}{where}"
        yield _cost(judged, final, points, f"Does the container cost anything at {size}?")
        if final.losses:
            below = words.below(study_analysis.against_first_points(judged, points), final)
            question = f"How well does it scale to {size}?"
            busy = _busy(judged, (points[0], final))
            yield _scale(final, points, question, below, busy)


def _cost(
    judged: JudgedStudy, final: PointAnalysis, points: Sequence[PointAnalysis], question: str
) -> SpokenAnswer:
    verdict, busy = final.verdict, _busy(judged, (final,))
    figures = f"{words.cost(final, judged)}"
    if verdict and verdict.difference and verdict.word:
        figures += f", ratio {cells.bracketed(verdict.difference)}"
    reply = _COSTS.get(verdict.word, CANNOT_TELL) if verdict and verdict.word else CANNOT_TELL
    reply = CANNOT_TELL if busy else reply
    sure = reply != CANNOT_TELL
    return _spoken(question, reply, _seen(figures, busy), points, is_likely=sure)


def _busy(judged: JudgedStudy, points: Sequence[PointAnalysis]) -> str:
    """Return the load of the first of these points at which others were at work."""
    sessions = (judged.session(point.point) for point in points)
    loads = (scope_text.others_at_work(a.series.session.machine) for a in sessions if a)
    return next(filter(None, loads), "")


def _seen(figures: str, busy: str) -> str:
    return (
        f"others were at work on this machine ({busy}); seen then: {figures}" if busy else figures
    )


def _scale(
    final: PointAnalysis, points: Sequence[PointAnalysis], question: str, below: str, busy: str
) -> SpokenAnswer:
    shown = words.candidate(final)
    readings = {arm: final.efficiencies[arm].efficiency for arm in final.losses}
    interval = readings[shown] if shown in readings else next(iter(readings.values()))
    arms = [f"{arm} {cells.bracketed(reading)}" for arm, reading in readings.items()]
    loss = final.losses.get(shown)
    figures = ", ".join(arms) + (f"; what is lost: {words.lost(loss)}" if loss else "")
    figures += f"; {below}" if below else ""
    reply = f"Efficiency {interval.ratio:.2f}"
    figures = _seen(figures, busy)
    return _spoken(question, reply, figures, points, is_likely=interval.low > 0 and not busy)


def _spoken(
    question: str, reply: str, figures: str, points: Sequence[PointAnalysis], *, is_likely: bool
) -> SpokenAnswer:
    """Say it; of emulated compute in its own line, since an answer is quoted alone."""
    unreal = words.emulated(points)
    return SpokenAnswer(
        question=question,
        reply=reply,
        figures=f"{figures} ({unreal})" if unreal else figures,
        sure="likely" if is_likely and not unreal else "unsure",
    )


def _together(comparison: StudyComparison) -> SpokenAnswer:
    first, second = scaling_comparison.names(comparison)
    question = f"Which is faster, {first} or {second}?"
    headline = scaling_comparison.headline(comparison)
    reply = CANNOT_TELL
    if not comparison.refusals:
        ratio = scaling_comparison.final(comparison).ratio
        if ratio.excludes_one():
            reply = second if ratio.high < 1 else first
    sure = reply != CANNOT_TELL
    return SpokenAnswer(
        question=question, reply=reply, figures=headline, sure="likely" if sure else "unsure"
    )
