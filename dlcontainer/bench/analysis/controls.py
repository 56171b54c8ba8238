"""What a control can tell: whether it would have noticed an unsteady machine. Pure.

A control compares one side with itself, and refuses the session where its interval excludes 1. A
very wide interval excludes nothing: such a control is no evidence that the machine was steady, and
no number of further pairs follows from its scatter.
"""

import math
from dataclasses import dataclass

from dlcontainer.bench.analysis.pairing import CONTROLS, Figure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import Verdict
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.stats import margins
from dlcontainer.bench.stats.paired import Interval

# Controls may be half as many as pairs, and their level is 99 % in place of 95 %: where nothing is
# wrong, a control is up to this many times as wide as the comparison.
_WIDER = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """A control's pairs and the interval that refuses; `tells` is whether it could have refused."""

    role: Role
    figure: Figure
    interval: Interval
    tells: bool

    @property
    def noticed(self) -> float:
        """The smallest factor between launches of one side that its interval would exclude."""
        return math.exp(_half(self.interval)) if _half(self.interval) < math.log(1e6) else math.inf


def controls(analysis: Analysis) -> tuple[Control, ...]:
    """Give the controls that have an interval, A/A before B/B."""
    verdict, margin = analysis.verdict, analysis.series.session.declared.margin
    figures = (analysis.control, analysis.candidate_control)
    intervals = (verdict.control, verdict.candidate_control)
    return tuple(
        Control(role=role, figure=figure, interval=interval, tells=tells(interval, verdict, margin))
        for role, figure, interval in zip(CONTROLS, figures, intervals, strict=True)
        if figure is not None and interval is not None
    )


def telling(analysis: Analysis) -> tuple[Control, ...]:
    """Give the controls that are worth a figure."""
    return tuple(one for one in controls(analysis) if one.tells)


def tells(control: Interval, verdict: Verdict, margin: float) -> bool:
    """Tell whether a control would have noticed what the verdict must be guarded against.

    Of a difference that is claimed: a change of the machine by as much. Where none is claimed, the
    control may be `_WIDER` times as wide as the comparison, or as the margin.
    """
    if control.excludes_one():
        return True
    found = verdict.difference
    if found is None:
        return math.isfinite(_half(control))
    if verdict.word in {"SLOWER", "FASTER"}:
        return _half(control) <= abs(math.log(found.ratio))
    return _half(control) <= _WIDER * max(_half(found), margins.band(margin).half_width)


def _half(interval: Interval) -> float:
    if interval.low <= 0 or not math.isfinite(interval.high):
        return math.inf
    return math.log(interval.high / interval.low) / 2
