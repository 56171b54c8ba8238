"""Cells of a scaling study: numbers with their intervals, shares, verdicts."""

from dlcontainer.bench.report.text.verdict_text import percent
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats.mean_ratios import Share
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.bench.study.judged_study import PointVerdict

NOT_APART = "not told apart from 0"


def bracketed(interval: Interval) -> str:
    """Write a number with its interval in brackets."""
    if interval.low <= 0:
        return f"{interval.ratio:.3f}, too few launches for an interval"
    return f"{interval.ratio:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def share(part: Share) -> str:
    """Write a share of the step with its interval, and whether it may be nothing."""
    if part.high == float("inf"):
        return f"{per_cent(part.share)}, too few launches"
    text = f"{per_cent(part.share)} [{100 * part.low:.1f}, {100 * part.high:.1f}]"
    return text if part.is_told_apart or part.low == part.high else f"{text}: {NOT_APART}"


def verdict_cell(verdict: PointVerdict | None) -> str:
    """Write a point's verdict in a few words."""
    if verdict is None:
        return "no session"
    if verdict.word is None:
        return f"none ({counted(verdict.pairs, 'pair')})"
    within = f" within {percent(verdict.margin)}" if verdict.word == "EQUIVALENT" else ""
    return f"{verdict.word}{within}"


def per_cent(number: float) -> str:
    """Write a share as a percentage with one digit behind the point."""
    # Not -0.0.
    return f"{round(100 * number, 1) + 0.0:.1f} %"
