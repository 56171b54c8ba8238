"""A verdict in words that a scientist who knows no statistics can act on."""

from dlcontainer.bench.analysis.across_sessions import PooledSessions
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.text import seconds_text
from dlcontainer.bench.samples.records import SessionDeclaration
from dlcontainer.bench.stats.paired import Interval


def headline(analysis: Analysis) -> str:
    """Return the verdict in a few words."""
    verdict = analysis.verdict
    declared = analysis.series.session.declared
    text: str = verdict.word
    if verdict.word == "EQUIVALENT":
        text += f" within {percent(declared.margin)}, in this session"
    elif verdict.word in {"SLOWER", "FASTER"} and verdict.difference is not None:
        text += f" by {_by(verdict.difference)}, in this session"
        if not analysis.traits.equivalence and (added := seconds_text.added(analysis)):
            text = f"{added}; {text}"
    elif verdict.tail:
        text += f" (tail: {', '.join(f'pair {number}' for number in verdict.tail)})"
    return text + _qualified(declared)


def _qualified(declared: SessionDeclaration) -> str:
    """Return what holds for all of a headline, since it is quoted without what stands below it."""
    return ", as shipped" if declared.question == "deployment" else ""


def sentence(analysis: Analysis) -> str:
    """Return what the verdict means, with its figures."""
    word = analysis.verdict.word
    if word == "NOT COMPARABLE":
        reasons = analysis.verdict.reasons
        more = f" (and {len(reasons) - 1} more, below)" if len(reasons) > 1 else ""
        return f"The two sides cannot be compared: {reasons[0]}{more}."
    if word == "INCONCLUSIVE":
        return _inconclusive(analysis)
    return _decided(analysis)


def _decided(analysis: Analysis) -> str:
    verdict, declared = analysis.verdict, analysis.series.session.declared
    difference, equivalence = verdict.difference, verdict.equivalence
    if difference is None or equivalence is None:
        raise ValueError("a verdict without figures")
    margin = percent(declared.margin)
    if verdict.word == "EQUIVALENT":
        return (
            f"{analysis.traits.subject} takes as long in {_candidate(analysis)} as in "
            f"{_reference(analysis)}: the ratio is {difference.ratio:.3f}, and the whole "
            f"{bounds(equivalence)} lies within the margin of {margin} declared beforehand."
            f"{_typical(analysis)}"
        )
    beyond = (
        f"All of that is beyond {margin}."
        if verdict.beyond
        else f"Part of that lies within {margin}, so it may be too little to matter."
    )
    subject = analysis.traits.subject
    return (
        f"{subject} takes {_factor(difference.ratio)} in {_candidate(analysis)} than in "
        f"{_reference(analysis)} (ratio {difference.ratio:.3f}, {bounds(difference)}). {beyond}"
        f"{_joiner(analysis)}{_typical(analysis)}"
    )


def _typical(analysis: Analysis) -> str:
    """Return which share of slow launches is still possible: no mean of few launches sees them."""
    far_by_arm = {item.arm: item for item in analysis.far}
    item = far_by_arm.get(analysis.series.session.declared.sides.candidate)
    if item is None:
        return ""
    count = len(item.lines) or "none"
    grouped = analysis.series.session.declared.groups is not None
    singular, units = ("group", "groups") if grouped else ("launch", "launches")
    return (
        f" This describes a typical {singular}: of "
        f"{item.launches} {units} in {_candidate(analysis)}, {count} took far longer, so slow ones "
        f"may still be up to {percent(item.not_excluded)} of all (95 %)."
    )


def _joiner(analysis: Analysis) -> str:
    if analysis.joiner is None or analysis.joiner.fitted.df < 1:
        return ""
    interval = analysis.joiner.interval
    return (
        " That is for the first rank of a node, which mounts the image; a rank that joins the "
        f"mount takes {_factor(interval.ratio)} (ratio {interval.ratio:.3f}, {bounds(interval)})."
    )


def _inconclusive(analysis: Analysis) -> str:
    verdict = analysis.verdict
    if verdict.tail:
        return (
            f"No verdict: {verdict.reasons[0]}. A few launches decide the mean: look at "
            f"{_tail(analysis)}. They are not left out, and more {unit(analysis)} like these would "
            "not help."
        )
    if verdict.reasons:
        text = f"No verdict: {'; '.join(verdict.reasons)}."
    else:
        text = (
            f"These {unit(analysis)} show neither a difference nor"
            f"{' equivalence' if analysis.traits.equivalence else ' that there is none'}."
        )
    if analysis.main is not None and analysis.main.fitted.se == 0:
        # Ratios that are all the same: no interval follows from them, and no number of pairs.
        return text
    if verdict.difference is not None and verdict.difference.low > 0:
        text += f" The ratio is {verdict.difference.ratio:.3f}, {bounds(verdict.difference)}."
    return f"{text} {_more(analysis)}".rstrip()


def _tail(analysis: Analysis) -> str:
    tail = set(analysis.verdict.tail)
    places = {
        pair.number: sorted((pair.reference.line, pair.candidate.line))
        for pair in analysis.pairs["pair"]
        if pair.number in tail
    }
    return ", ".join(
        f"{unit(analysis)[:-1]} {number} (lines {places[number][0]} and {places[number][1]})"
        for number in analysis.verdict.tail
    )


def _more(analysis: Analysis) -> str:
    more, main = analysis.verdict.more_pairs, analysis.main
    if main is None or main.fitted.df < 1:
        return ""
    scatter_text = f"One {unit(analysis)[:-1]} scatters by {scatter(main.fitted.sd)}"
    if more is None:
        return f"{scatter_text}: on this machine no practical number of {unit(analysis)} is enough."
    total = main.fitted.n + more
    need = f"a new session would need about {total} {unit(analysis)}, {more} more than this one"
    return f"{scatter_text}: {need}."


def joint_headline(item: PooledSessions) -> str:
    """Return what several sessions say together in a few words."""
    declared = item.members[0].series.session.declared
    text: str = item.word or "No verdict across allocations"
    if item.word == "EQUIVALENT":
        text += f" within {percent(declared.margin)}"
    elif item.word in {"SLOWER", "FASTER"} and item.difference is not None:
        text += f" by {_by(item.difference)}"
    if item.word:
        text += f", across {len(item.members)} allocations"
    return text + _qualified(declared)


def joint_sentence(item: PooledSessions) -> str:
    """Return what several sessions mean together."""
    if item.reasons:
        return f"{'; '.join(item.reasons)}."
    interval = item.equivalence if item.word == "EQUIVALENT" else item.difference
    if interval is None:
        raise ValueError("a verdict without figures")
    return (
        f"Over the means of {len(item.members)} allocations the ratio is {interval.ratio:.3f}, "
        f"{bounds(interval)} (t interval, {len(item.members) - 1} degrees of freedom). Each "
        "session's own verdict holds only for its nodes."
    )


def unit(analysis: Analysis) -> str:
    """Name what is counted: pairs, triples or groups."""
    return analysis.series.session.declared.unit


def percent(share: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * share:.2g} %"


def scatter(sd: float) -> str:
    """Write an sd of logs as a percentage with two digits, also when the second is 0."""
    return f"{f'{100 * sd:#.2g}'.rstrip('.')} %"


def bounds(interval: Interval) -> str:
    """Write an interval with its level."""
    level = f"{100 * interval.level:.3g} % interval"
    if interval.low <= 0 and interval.high == float("inf"):
        return f"too few for a {level}"
    return f"{level} {low_to_high(interval)}"


def low_to_high(interval: Interval) -> str:
    """Write an interval without its level, for a column that is named by it."""
    if interval.low <= 0 and interval.high == float("inf"):
        return "too few"
    high = "any value" if interval.high == float("inf") else f"{interval.high:.3f}"
    return f"{interval.low:.3f} to {high}"


def _by(interval: Interval) -> str:
    if interval.low >= 3:
        return f"{interval.low:.1f} to {interval.high:.1f} times"
    low, high = sorted((abs(interval.low - 1), abs(interval.high - 1)))
    digits = 0 if low >= 0.1 else 1
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f} %"


def _factor(ratio: float) -> str:
    if ratio >= 3:
        return f"{ratio:.1f} times the time"
    digits = 0 if abs(ratio - 1) >= 0.1 else 1
    apart = f"{100 * abs(ratio - 1):.{digits}f} %"
    return f"{apart} more time" if ratio > 1 else f"{apart} less time"


def _candidate(analysis: Analysis) -> str:
    arm = analysis.series.session.declared.sides.candidate
    if arm == "bare":
        return "the image's own Python"
    return "the container" if arm == "container" else f"the {arm} tree"


def _reference(analysis: Analysis) -> str:
    session = analysis.series.session
    arm = session.declared.arms[0]
    described = session.arms.get(arm)
    return f"the {described.what.split(',')[0] if described else arm}"
