"""A session in plain words, for who was not there: what, where, when, what came of it."""

from datetime import datetime

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.text import verdict_text
from dlcontainer.bench.samples import comparable


def paragraph(analysis: Analysis) -> str:
    """Return the words for the session in a few sentences that need nothing else of the page."""
    return " ".join([_compared(analysis), _place(analysis), _outcome(analysis), _silent(analysis)])


def _compared(analysis: Analysis) -> str:
    session = analysis.series.session
    declared = session.declared
    sides = " and ".join(
        f"{arm} ({session.arms[arm].what})" if arm in session.arms else arm for arm in declared.arms
    )
    pairs = len(analysis.pairs["pair"])
    times = "once" if pairs == 1 else f"{pairs} times"
    named = declared.image and declared.image not in sides
    image = f" The image is {declared.image}." if named else ""
    how = (
        "with new processes of both, taking turns in random order"
        if declared.groups
        else "with fresh launches in random order"
    )
    return (
        f"This session compared the time of {analysis.traits.task} between {sides}: {times} side "
        f"by side, {how}.{image}"
    )


def _place(analysis: Analysis) -> str:
    session = analysis.series.session
    machine = session.machine
    cores = machine.get("cores")
    processor = machine.get("cpu_model") or machine.get("cpu")
    node = machine.get("node")
    parts = [
        f"on {comparable.shown(node)}" if node else "on a machine that was not named",
        f"({comparable.shown(cores)} cores of {comparable.shown(processor)})"
        if cores and processor
        else "",
        f"at the site {session.declared.site}" if session.declared.site else "",
    ]
    return f"It ran {' '.join(filter(None, parts))}, {_when(analysis)}."


def _when(analysis: Analysis) -> str:
    first, last = analysis.series.session.started, analysis.series.samples[-1].started
    try:
        began, ended = datetime.fromisoformat(first), datetime.fromisoformat(last)
    except ValueError:
        return f"from {first} on"
    day = f"on {began.day} {began:%B %Y} from {began:%H:%M}"
    if ended.date() == began.date() and ended >= began:
        return f"{day} to {ended:%H:%M} ({began.tzname() or 'local time'})"
    return f"{day} ({began.tzname() or 'local time'})"


def _outcome(analysis: Analysis) -> str:
    outcome = f"Result: {verdict_text.headline(analysis)}."
    verdict = analysis.verdict
    if verdict.word in {"NOT COMPARABLE", "INCONCLUSIVE"} or verdict.difference is None:
        return f"{outcome} Do not quote any figure of this session as a result."
    first, last = analysis.series.session.declared.sides.names
    low, high = verdict.difference.low, verdict.difference.high
    return (
        f"{outcome} Work that takes 1 s in {first} takes {verdict.difference.ratio:.3f} s in "
        f"{last} "
        f"(likely between {low:.3f} and {high:.3f} s)."
    )


def _silent(analysis: Analysis) -> str:
    declared = analysis.series.session.declared
    cause = (
        "and not what the container alone costs, since the two stacks differ"
        if declared.question == "deployment"
        else "or about stacks that differ between the two sides"
    )
    return f"It says nothing about other machines or other days{analysis.traits.unsaid}, {cause}."
