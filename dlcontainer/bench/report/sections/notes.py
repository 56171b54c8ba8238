"""What a reader should know beside a verdict: one sentence each."""

from collections import Counter
from collections.abc import Iterator
from math import ceil, isinf

from dlcontainer.bench.analysis import contrasts, qualification
from dlcontainer.bench.analysis.qualification import ControlFigure, SiteQualification
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import table
from dlcontainer.bench.report.tables import session_tables
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.stats import neighbours, paired

_CARRY_LEVEL = 0.95
# By chance 8, 1 and 0 % of sessions of 8, 16 and 32 independent pairs have as much (simulated).
_DRIFTS = 0.7
_OF_GROUPS = (
    "Each group counts once, however many turns it had, because two processes of the same bits "
    "differ for as long as they live. The processes of one arm are each other's controls: see the "
    "table below. Turns are in an order in which what one leaves to the next two cancels between "
    "the sides."
)


def notes(analysis: Analysis, standing: SiteQualification) -> tuple[str, ...]:
    """Return what a reader should know beside the verdict."""
    declared = analysis.series.session.declared
    remarks: list[str] = []
    if declared.groups is None:
        remarks += _carried(analysis)
    remarks += [*_far(analysis), *_drifting(analysis)]
    if declared.arms[0] == "unpacked":
        why = analysis.series.session.arms["unpacked"].why or "no native twin was possible here"
        remarks.append(f"The reference is the unpacked image: {why}.")
    if declared.groups:
        remarks.append(_OF_GROUPS)
        remarks += _alike(analysis)
    else:
        remarks += _controls(analysis)
    remarks += [*_lost(analysis), *_ready(analysis)]
    if analysis.contrasts:
        remarks.append(f"Three arms. {contrasts.together(analysis.contrasts)}")
    if analysis.losses is not None and analysis.losses.steps and not analysis.losses.problem:
        apart = analysis.losses.largest
        agree = f"agree within {verdict_text.percent(apart)}" if apart else "are identical"
        remarks.append(
            f"Correctness: the loss curves of all launches {agree}, {analysis.losses.steps} steps."
        )
    family = analysis.family
    remarks += _endpoints(analysis)
    if family is not None and (len(family.readings) > 1 or family.missing):
        remarks.append(f"Declared metrics. {session_tables.together(family)}")
    if analysis.failed:
        lines = table.ranges(analysis.failed.lines())
        remarks.append(
            f"{counted(len(analysis.failed), 'launch', 'launches')} failed (lines {lines})."
        )
    if declared.groups is None and all(
        control.tells for control in qualification.controls(analysis)
    ):
        remarks.append(_standing(standing))
    return (*remarks, *_course(analysis))


def _alike(analysis: Analysis) -> Iterator[str]:
    """Yield how far the interval of groups is widened for their neighbours."""
    fitted = analysis.main.fitted if analysis.main else None
    if fitted is not None and fitted.df > 0 and fitted.rule == "groups":
        yield (
            f"Neighbouring groups are taken to resemble each other (correlation {fitted.lag:.2f}): "
            f"the interval is {neighbours.widening(fitted.lag):.2f} times as wide for it."
        )


def _controls(analysis: Analysis) -> Iterator[str]:
    """Yield what the launches of one side against itself are worth."""
    by_role = {control.role: control for control in qualification.controls(analysis)}
    control, candidate_control = by_role.get("control"), by_role.get("candidate_control")
    if control is None:
        yield "The A/A control has too few pairs to say whether this machine was steady."
    elif not control.tells:
        yield f"The A/A control {_silent(control)}"
    elif control.figure.fitted.n < (pairs := len(analysis.pairs["pair"])):
        yield (
            f"A quick session: {control.figure.fitted.n} A/A pairs beside {pairs} A/B pairs; "
            "a claim to publish takes as many of each."
        )
    if candidate_control is not None and not candidate_control.tells:
        yield f"The B/B control {_silent(candidate_control)}"
    elif candidate_control is not None:
        yield (
            f"B/B: {candidate_control.figure.fitted.n} pairs of the candidate against itself, "
            f"{verdict_text.bounds(candidate_control.figure.interval)}."
        )


def _silent(control: ControlFigure) -> str:
    """Return the note of a control that would have noticed nothing that matters here."""
    least = f"by a factor of {control.noticed:.2g} or more"
    noticed = "no change at all" if isinf(control.noticed) else f"only a change {least}"
    return (
        f"can't tell whether this machine was steady: launches of one side scatter so much, or "
        f"drift so far, that it would have noticed {noticed}. It is not drawn. Measure again when "
        "nothing else runs here."
    )


def _lost(analysis: Analysis) -> Iterator[str]:
    """Count by arm what was lost and measured again."""
    lost, declared = analysis.series.lost, analysis.series.session.declared
    if not lost:
        return
    arms = Counter(group.arm for group in lost)
    counts = ", ".join(f"{arm} {arms.get(arm, 0)}" for arm in declared.arms)
    what = "group lost a process", "groups lost a process"
    if not declared.groups:
        what = "pair lost a launch", "pairs lost a launch"
    yield (
        f"{counted(len(lost), *what)} and had to be measured again ({counts}; "
        f"lines {table.ranges(group.line for group in lost)}), by the rule declared beforehand."
    )


def _endpoints(analysis: Analysis) -> Iterator[str]:
    """Yield the words for the verdict of each further endpoint that was declared."""
    readings = analysis.family.readings if analysis.family else ()
    if analysis.verdict.word == "NOT COMPARABLE" or not analysis.series.complete:
        return
    by_metric = {reading.figure.metric: reading for reading in readings[1:]}
    for metric in analysis.traits.metrics[1:]:
        reading = by_metric.get(metric.name)
        if reading is None or not metric.endpoint:
            continue
        name = metric.endpoint[0].upper() + metric.endpoint[1:]
        is_same = reading.word == "EQUIVALENT"
        interval = reading.equivalence if is_same else reading.figure.interval
        yield (
            f"{name}: {reading.word}, margin {verdict_text.percent(reading.margin)}, ratio "
            f"{interval.ratio:.3f}, {verdict_text.bounds(interval)}; {metric.blind}."
        )


def _carried(analysis: Analysis) -> Iterator[str]:
    """Yield what a launch leaves to the one after it."""
    main, arms = analysis.main, analysis.series.session.declared.arms
    for arm, effect in zip(arms[1:], main.fitted.carry if main else (), strict=False):
        if effect is None:
            yield f"Carry-over of {arm} to the next launch: too few launches to estimate it."
            continue
        interval = paired.effect_interval(effect, _CARRY_LEVEL)
        yield (
            f"Carry-over: a launch right after one of the {arm} side takes "
            f"{interval.ratio:.3f} times as long ({verdict_text.bounds(interval)}). The ratio is "
            "corrected for it."
        )


def _far(analysis: Analysis) -> Iterator[str]:
    """Count the launches of each arm that were far slower than its others."""
    if analysis.far:
        counts = ", ".join(
            f"{item.arm} {len(item.lines)} of {item.launches}"
            + (f" (lines {table.ranges(item.lines)})" if item.lines else "")
            for item in analysis.far
        )
        unit = "Groups" if analysis.series.session.declared.groups else "Launches"
        yield f"{unit} far slower than the median of their side: {counts}. All of them count."


def _drifting(analysis: Analysis) -> Iterator[str]:
    """Yield where a promise does not hold: one side drifts, and neighbours are alike."""
    lag = analysis.main.fitted.lag if analysis.main else 0.0
    if lag >= _DRIFTS:
        unit = verdict_text.unit(analysis)
        yield (
            f"Neighbouring {unit} resemble each other (correlation {lag:.2f}): one side may drift. "
            "The interval is wider for it; where a side does drift, more than 5 % of sessions err "
            "(docs/measure/how-a-verdict-is-made.md, How often is it right?)."
        )


def _ready(analysis: Analysis) -> Iterator[str]:
    """Yield what making the native side ready took, and when that is paid back."""
    session = analysis.series.session
    took, form = session.machine.get("native_ready_s"), session.declared.workload.get("native_as")
    if not isinstance(took, int | float) or analysis.main is None:
        return
    ours, theirs = analysis.main.means
    text = f"The native tree was shown as {form}; preparing it took {took:.1f} s, once a node"
    if ours >= theirs:
        yield f"{text}. Its launches are no quicker than the candidate's: that never pays off."
        return
    launches = ceil(took / (theirs - ours))
    yield (
        f"{text}, which is not part of any launch's time. Against the candidate it pays off after "
        f"{launches} launches a node ({theirs - ours:.3f} s less each)."
    )


def _standing(standing: SiteQualification) -> str:
    return _qualified(standing) + _supported(standing)


def _supported(standing: SiteQualification) -> str:
    if standing.supported is None or standing.sd is None:
        return ""
    scatter, supported = verdict_text.scatter(standing.sd), verdict_text.percent(standing.supported)
    return (
        f" With this scatter ({scatter} a pair) the smallest margin that "
        f"{counted(standing.planned, 'pair')} support is {supported}: nine in ten such sessions "
        "end EQUIVALENT within it where the true difference is half a percent, or a quarter of the "
        f"margin if that is less. Declare it with {_option(standing.supported)}."
    )


def _option(margin: float) -> str:
    """Write a margin as the option that declares it, never smaller than it is."""
    return f"--margin {ceil(1000 * margin) / 10:g}%"


def _qualified(standing: SiteQualification) -> str:
    name = f"The site {standing.site or 'of this session'} ({standing.node or 'unknown nodes'})"
    pooled = f"A/A pooled over {counted(standing.sessions, 'session')}, "
    pooled += counted(standing.pairs, "pair")
    half = verdict_text.percent(standing.margin / 2)
    if standing.interval is None:
        return f"{name}: whether it is qualified is open: {pooled}, too few for an interval."
    bounds = verdict_text.bounds(standing.interval)
    if standing.is_qualified:
        return f"{name} is qualified: {pooled}, {bounds}, inside {half}, half the margin."
    more = "no practical number of" if standing.more is None else f"about {standing.more}"
    return (
        f"{name} is not qualified: {pooled}, {bounds}, not inside {half}, half the margin; "
        f"{more} more A/A pairs would be enough."
    )


def _course(analysis: Analysis) -> Iterator[str]:
    series = analysis.series
    if len(series.looks) > 1:
        looks = ", ".join(map(str, series.looks))
        taken = len(analysis.pairs["pair"])
        unit = verdict_text.unit(analysis)
        yield f"Looks were declared at {looks} {unit}; {taken} {unit} were measured."
    for resume in series.resumes:
        text = f"The session was interrupted and went on at line {resume.line}"
        if resume.dropped_bytes:
            text += f"; a half-written line of {resume.dropped_bytes} bytes was taken away"
        yield text + "."
    aside = continuation.set_aside(series)
    if aside:
        lines = table.ranges(s.line for s in series.launches if s.index in aside)
        yield f"Lines {lines}: launches whose pairs were not completed, not used."
    if series.dropped:
        yield f"The file ends in a half-written line of {series.dropped} bytes, which is not read."
    yield from _clock(analysis)


def _clock(analysis: Analysis) -> Iterator[str]:
    # Times of a launch come from stamps within it, which are checked; this only dates them.
    for line in analysis.series.launches.set_back:
        yield (
            f"The clock was set back before line {line}: the order of the launches is that of the "
            "lines."
        )
