"""A scaling study in words: the container's cost, the efficiency, what is lost."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dlcontainer.bench.report.sections import scaling_cells as cells
from dlcontainer.bench.report.text.verdict_text import percent
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study import shortfall, study_analysis
from dlcontainer.bench.study.judged_study import JudgedStudy
from dlcontainer.bench.study.loss_terms import PointLoss
from dlcontainer.bench.study.study_analysis import ForeseenStudy, PointAnalysis

if TYPE_CHECKING:
    from dlcontainer.bench.analysis.verdict import Word

_NAMED = {"native": "native side", "bare": "image's own Python", "unpacked": "unpacked image"}


def headline(
    judged: JudgedStudy, points: tuple[PointAnalysis, ...], ahead: ForeseenStudy | None
) -> str:
    """Answer at the most ranks: does the container cost anything, and how efficient is it."""
    finals = study_analysis.last(points)
    if not finals:
        return "no point of this study was measured"
    sentences = "; ".join(_final(judged, point, several=len(finals) > 1) for point in finals)
    text = f"At {counted(finals[0].ranks, 'rank')} {sentences}"
    text += "".join(f"; {short}" for point in finals if (short := below(ahead, point)))
    if planned := _unmeasured(judged, finals[0].ranks):
        text += f"; not measured: {planned}"
    return f"{text} ({emulated(points)})" if emulated(points) else text


def _final(judged: JudgedStudy, point: PointAnalysis, *, several: bool) -> str:
    begin = f"under {point.strategy} " if several else ""
    shown = candidate(point)
    parts = [f"{begin}{cost(point, judged)}"]
    reading = point.efficiencies.get(shown)
    if reading is not None and not reading.is_base:
        parts.append(f"efficiency {cells.bracketed(reading.efficiency)} ({shown})")
    return "; ".join(parts)


def candidate(point: PointAnalysis) -> str:
    """Return the arm that a study is about: the last of its arms."""
    return list(point.point.arms)[-1]


def side(arm: str) -> str:
    """Name an arm in a sentence."""
    return f"the {_NAMED.get(arm, arm)}"


def cost(point: PointAnalysis, judged: JudgedStudy) -> str:
    """Say what the container costs at a point, with the verdict's word."""
    verdict, subject = point.verdict, side(candidate(point))
    if verdict is None:
        return f"{subject} has no session"
    if verdict.word is None:
        return f"no verdict on {subject} ({verdict.reason})"
    analysis = judged.session(point.point)
    is_shipped = analysis and analysis.series.session.declared.question == "deployment"
    word: str = verdict.word
    if verdict.word == "EQUIVALENT":
        word += f" within {percent(verdict.margin)}"
    word += ", as shipped" if is_shipped else ""
    if verdict.reason and verdict.word in {"NOT COMPARABLE", "INCONCLUSIVE"}:
        word += f": {verdict.reason}"
    by = _by(verdict.difference)
    sentences: dict[Word, str] = {
        "EQUIVALENT": f"{subject} costs nothing",
        "SLOWER": f"{subject} costs {by} of the time",
        "FASTER": f"{subject} saves {by} of the time",
        "NOT COMPARABLE": "the two sides can't be compared",
        "INCONCLUSIVE": f"it is open whether {subject} costs anything",
    }
    return f"{sentences[verdict.word]} ({word})"


def _by(difference: Interval | None) -> str:
    if difference is None:
        return "an unknown share"
    low, high = sorted((abs(difference.low - 1), abs(difference.high - 1)))
    return f"{100 * low:.1f} to {100 * high:.1f} %"


def lost(loss: PointLoss) -> str:
    """Say the terms of a loss that are told apart from 0, the largest first."""
    terms = sorted(
        (term for term in loss.terms if term.share.low > 0), key=lambda term: -term.share.share
    )
    if not terms:
        return f"no term is {cells.NOT_APART[4:]}"
    return ", ".join(f"{term.name} {cells.per_cent(term.share.share)}" for term in terms)


def emulated(points: Sequence[PointAnalysis]) -> str:
    """Say why times of a study tell of communication alone; empty where they do not."""
    reasons = dict.fromkeys(point.point.emulated for point in points if point.point.emulated)
    return "; ".join(reasons)


def _unmeasured(judged: JudgedStudy, ranks: int) -> str:
    """Name what was planned beyond the last point that was measured."""
    names = [
        f"{point.plan.ranks} ranks ({point.plan.strategy.name})"
        for point in judged.study.points
        if point.plan.ranks > ranks
    ]
    return ", ".join(names)


def outlook(ahead: ForeseenStudy | None) -> str:
    """Say how the later points did against what the first ones foretold."""
    if ahead is None:
        return ""
    if not ahead.comparisons:
        return f"Nothing was foreseen by the first points: {ahead.reason}." if ahead.reason else ""
    ranks = " and ".join(map(str, ahead.ranks))
    return f"Foreseen from {ranks} ranks ({ahead.arm}): {shortfall.sentence(ahead.comparisons)}"


def below(ahead: ForeseenStudy | None, final: PointAnalysis) -> str:
    """Say that a point is below what the first ones foretold; empty where it is not."""
    compared = ahead.comparisons if ahead else ()
    lacking = [point for point in compared if point.is_below]
    finals = [point for point in lacking if (point.ranks, point.strategy) == _place(final)]
    if ahead is None or not finals:
        return ""
    ranks = " and ".join(map(str, ahead.ranks))
    term = f", term: {finals[0].term}" if finals[0].term else ""
    return f"BELOW what {ranks} ranks foretold, first at {lacking[0].ranks} ranks{term}"


def _place(point: PointAnalysis) -> tuple[int, str]:
    return point.ranks, point.strategy


def paragraph(judged: JudgedStudy, points: tuple[PointAnalysis, ...]) -> str:
    """Say what was measured, how the figures are made, and what they are not about."""
    return " ".join([*_measured(judged, points), *_made(judged, points)])


def _measured(judged: JudgedStudy, points: tuple[PointAnalysis, ...]) -> Iterator[str]:
    study, plan = judged.study, judged.study.plan
    counts = ", ".join(str(n) for n in dict.fromkeys(point.ranks for point in points)) or "no"
    batch = "each rank's batch stays the same"
    if plan.scaling == "strong":
        batch = "the batch of all ranks together stays the same"
    yield (
        f"{plan.scaling.capitalize()} scaling ({batch}) of {plan.workload} in {plan.precision}, "
        f"{plan.recipe} at site {plan.site}, on {counts} ranks: a session of both arms at each "
        f"point{', all in one allocation' if plan.one_allocation else ''}."
    )
    if unreal := emulated(points):
        yield f"{unreal[:1].upper()}{unreal[1:]}."
    broken = [point.plan.file for point in study.points if not point.complete]
    if broken:
        yield (
            f"Not complete: {', '.join(broken)}; the same `dlcontainer bench scaling` goes on "
            "where it stopped."
        )


def _made(judged: JudgedStudy, points: tuple[PointAnalysis, ...]) -> Iterator[str]:
    if not points:
        return
    base = points[0]
    yield (
        f"Efficiency is samples a second and rank against {counted(base.ranks, 'rank')} "
        f"({base.strategy}), a ratio of mean steps; its 95 % interval holds the scatter of both "
        "points' launches (delta method on the log, Welch's degrees of freedom)."
    )
    yield (
        "The verdict on the container is that of each point's own session, by the rules of any "
        "session; a point of few pairs gives an estimate with its interval, and no verdict."
    )
    if not judged.study.plan.one_allocation:
        yield (
            "Points ran one after another, as jobs on nodes of their own where the site has a "
            "scheduler: drift, and how nodes differ, are in no interval of the efficiency."
        )
    remarks = dict.fromkeys(
        remark for point in points for loss in point.losses.values() for remark in loss.remarks
    )
    yield from (f"{remark[:1].upper()}{remark[1:]}." for remark in remarks)
