"""What a reader should know beside a verdict: one sentence each."""

from collections import Counter
from collections.abc import Iterator
from math import ceil

from dlcontainer.bench.analysis import contrasts
from dlcontainer.bench.analysis.qualification import Standing
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import table
from dlcontainer.bench.report.tables import session_tables
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import continuation
from dlcontainer.bench.samples.vocabulary import counted


def notes(analysis: Analysis, standing: Standing) -> tuple[str, ...]:
    """Say what a reader should know beside the verdict."""
    declared = analysis.series.session.declared
    found = []
    if declared.arms[0] == "unpacked":
        why = analysis.series.session.arms["unpacked"].why or "no native twin was possible here"
        found.append(f"The reference is the unpacked image: {why}.")
    found += _of_groups(analysis) if declared.groups else _controls(analysis)
    found += _ready(analysis)
    if analysis.contrasts:
        found.append(f"Three arms. {contrasts.together(analysis.contrasts)}")
    if analysis.losses is not None and not analysis.losses.problem:
        apart = analysis.losses.largest
        agree = f"agree within {verdict_text.percent(apart)}" if apart else "are identical"
        found.append(
            f"Correctness: the loss curves of all launches {agree}, {analysis.losses.steps} steps."
        )
    family = analysis.family
    if family is not None and (len(family.readings) > 1 or family.missing):
        found.append(f"Declared metrics. {session_tables.together(family)}")
    if analysis.failed:
        lines = table.ranges(analysis.failed.lines())
        found.append(
            f"{counted(len(analysis.failed), 'launch', 'launches')} failed (lines {lines})."
        )
    if declared.groups is None:
        found.append(_standing(standing))
    return (*found, *_course(analysis))


def _controls(analysis: Analysis) -> Iterator[str]:
    """Say what the launches of one side against itself are worth."""
    control, own = analysis.control, analysis.candidate_control
    if control is None or control.fitted.df < 1:
        yield "The A/A control has too few pairs to say whether this machine was steady."
    elif control.fitted.n < (pairs := len(analysis.pairs["pair"])):
        yield (
            f"A quick session: {control.fitted.n} A/A pairs beside {pairs} A/B pairs; "
            "publish a claim with as many of both."
        )
    if own is not None and own.fitted.df > 0:
        yield (
            f"B/B: {own.fitted.n} pairs of the candidate against itself, "
            f"{verdict_text.bounds(own.interval)}."
        )


def _of_groups(analysis: Analysis) -> Iterator[str]:
    """Say what stands for controls in groups, and which groups were lost."""
    yield (
        "A group counts once, however many turns it had: processes of the same bits differ for all "
        "of their life. Those of one arm are each other's controls, below."
    )
    lost = analysis.series.lost
    if lost:
        arms = Counter(one.arm for one in lost)
        counts = ", ".join(f"{arm} {count}" for arm, count in arms.items())
        yield (
            f"{counted(len(lost), 'group')} lost a process and had to be measured again ({counts}; "
            f"lines {table.ranges(one.line for one in lost)}): the rule was declared beforehand."
        )


def _ready(analysis: Analysis) -> Iterator[str]:
    """Say what making the native side ready took, and when that is paid back."""
    session = analysis.series.session
    took, form = session.machine.get("native_ready_s"), session.declared.workload.get("native_as")
    if not isinstance(took, int | float) or analysis.main is None:
        return
    ours, theirs = analysis.main.means
    text = f"The native tree was shown as {form}; making it ready took {took:.1f} s, once a node"
    if ours >= theirs:
        yield f"{text}. No launch is quicker for it than the candidate's: it is never paid back."
        return
    launches = ceil(took / (theirs - ours))
    yield (
        f"{text}, in no launch's time. Against the candidate it is paid back after {launches} "
        f"launches a node ({theirs - ours:.3f} s less each)."
    )


def _standing(standing: Standing) -> str:
    return _qualified(standing) + _supported(standing)


def _supported(standing: Standing) -> str:
    if standing.supported is None or standing.sd is None:
        return ""
    scatter, supported = verdict_text.scatter(standing.sd), verdict_text.percent(standing.supported)
    return (
        f" With their scatter ({scatter} a pair) the smallest margin that "
        f"{counted(standing.planned, 'pair')} support is {supported}: "
        "nine such sessions of ten end EQUIVALENT within it where the truth is half a percent, or "
        "a quarter of it."
    )


def _qualified(standing: Standing) -> str:
    name = f"The site {standing.site or 'of this session'} ({standing.node or 'unknown nodes'})"
    pooled = f"A/A pooled over {counted(standing.sessions, 'session')}, "
    pooled += counted(standing.pairs, "pair")
    half = verdict_text.percent(standing.margin / 2)
    if standing.interval is None:
        return f"{name} is not qualified: {pooled}, too few for an interval."
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
        yield f"Lines {lines}: launches that an interruption parted from their pairs, not used."
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
