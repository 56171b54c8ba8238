"""What controls tell: one session's, and a site's A/A pairs pooled over sessions. Pure.

A control compares one side with itself, and refuses the session where its interval excludes 1. A
very wide interval excludes nothing: such a control is no evidence that the machine was steady, and
no number of further pairs follows from its scatter.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from dlcontainer.bench.analysis import interim, pairing
from dlcontainer.bench.analysis.pairing import CONTROLS, PairFigure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import SessionVerdict
from dlcontainer.bench.samples.records import Role
from dlcontainer.bench.stats import margins, paired, power, regression
from dlcontainer.bench.stats.differences import Differences
from dlcontainer.bench.stats.paired import Interval

LEVEL = 0.9
_ALPHA = (1 - LEVEL) / 2
# Beyond so many of the longest sessions a number of pairs is no advice.
_MOST_SESSIONS = 10
# Controls may be half as many as pairs, and their level is 99 % in place of 95 %: where nothing is
# wrong, a control is up to this many times as wide as the comparison.
_WIDER = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteQualification:
    """What a site's controls show: qualified where their interval lies inside half the margin.

    `more` is how many further A/A pairs would do at a power of 0.9, None where no ten sessions do.
    `supported` is the smallest margin within which sessions of `planned` pairs and this scatter can
    be expected to end EQUIVALENT; None where no equivalence is judged, and above 100 %.
    """

    site: str
    node: str
    metric: str
    margin: float
    sessions: int
    pairs: int
    sd: float | None
    interval: Interval | None
    more: int | None
    planned: int
    supported: float | None

    @property
    def is_qualified(self) -> bool:
        """Whether the whole interval lies inside half the margin."""
        return self.interval is not None and self.interval.within(self.margin / 2)


def standings(analyses: Sequence[Analysis]) -> dict[str, SiteQualification]:
    """Return the standing of each session's site, by the session's seal.

    Controls are pooled over the sessions of one site, kind of node, workload and metric.
    """
    by_seal: dict[str, SiteQualification] = {}
    for key, group in groupby(sorted(analyses, key=_key), key=_key):
        members = list(group)
        standing = _pooled(key, members)
        by_seal |= {item.series.seal: standing for item in members}
    return by_seal


def _key(analysis: Analysis) -> tuple[str, ...]:
    declared, machine = analysis.series.session.declared, analysis.series.session.machine
    cores = machine.get("cores")
    facts = (machine.get("arch"), machine.get("cpu_model"), f"{cores} cores" if cores else None)
    node = ", ".join(str(fact) for fact in facts if fact)
    work = sorted((name, str(value)) for name, value in declared.workload.items())
    return (
        declared.site, node, declared.metric, str(declared.margin), declared.probe,
        declared.arms[0], str(work),
    )  # fmt: skip


def _pooled(key: tuple[str, ...], members: Sequence[Analysis]) -> SiteQualification:
    declared = members[0].series.session.declared
    control_logs = [pairing.differences(declared.metric, item.pairs["control"]) for item in members]
    count = sum(map(len, control_logs))
    pooled = Differences(
        range(1, count + 1),
        chain.from_iterable(part.d for part in control_logs),
        [ran for part in control_logs for ran in part.ran],
    )
    fitted = regression.fit(pooled) if pooled else None
    has_df = fitted is not None and fitted.df > 0
    half = declared.margin / 2
    longest = max(members, key=lambda item: item.series.looks[-1])
    planned = longest.series.looks[-1]
    more = None
    if fitted is not None and has_df:
        needed = power.pairs_needed(fitted.sd, half, _ALPHA, equivalence=True, truth=0.0)
        if needed is not None and needed <= _MOST_SESSIONS * planned:
            more = max(power.BLOCK, needed - fitted.n)
    rules = interim.rules(longest.series, equivalence=longest.traits.equivalence)
    supported = None
    if fitted is not None and has_df and rules.equivalence:
        supported = power.smallest_margin(planned, fitted.sd, rules.alpha)
    return SiteQualification(
        planned=planned,
        supported=supported,
        site=declared.site,
        node=key[1],
        metric=declared.metric,
        margin=declared.margin,
        sessions=len(members),
        pairs=len(pooled),
        sd=fitted.sd if fitted is not None and has_df else None,
        interval=paired.interval(fitted, LEVEL) if fitted is not None and has_df else None,
        more=more,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlFigure:
    """A control's pairs and the interval that refuses; `tells` is whether it could have refused."""

    role: Role
    figure: PairFigure
    interval: Interval
    tells: bool

    @property
    def noticed(self) -> float:
        """The smallest factor between launches of one side that its interval would exclude."""
        return math.exp(_half(self.interval)) if _half(self.interval) < math.log(1e6) else math.inf


def controls(analysis: Analysis) -> tuple[ControlFigure, ...]:
    """Return the controls that have an interval, A/A before B/B."""
    verdict, margin = analysis.verdict, analysis.series.session.declared.margin
    figures = (analysis.control, analysis.candidate_control)
    intervals = (verdict.control, verdict.candidate_control)
    return tuple(
        ControlFigure(
            role=role, figure=figure, interval=interval, tells=tells(interval, verdict, margin)
        )
        for role, figure, interval in zip(CONTROLS, figures, intervals, strict=True)
        if figure is not None and interval is not None
    )


def telling(analysis: Analysis) -> tuple[ControlFigure, ...]:
    """Return the controls that are worth a figure."""
    return tuple(control for control in controls(analysis) if control.tells)


def tells(control: Interval, verdict: SessionVerdict, margin: float) -> bool:
    """Return whether a control would have noticed what the verdict must be guarded against.

    Of a difference that is claimed: a change of the machine by as much. Where none is claimed, the
    control may be `_WIDER` times as wide as the comparison, or as the margin.
    """
    if control.excludes_one():
        return True
    interval = verdict.difference
    if interval is None:
        return math.isfinite(_half(control))
    if verdict.word in {"SLOWER", "FASTER"}:
        return _half(control) <= abs(math.log(interval.ratio))
    return _half(control) <= _WIDER * max(_half(interval), margins.band(margin).half_width)


def _half(interval: Interval) -> float:
    if interval.low <= 0 or not math.isfinite(interval.high):
        return math.inf
    return math.log(interval.high / interval.low) / 2
