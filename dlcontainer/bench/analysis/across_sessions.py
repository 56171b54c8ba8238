"""Several sessions of one question: from three allocations on, a verdict that generalises. Pure.

A session speaks for the nodes of its allocation. What holds beyond them is an interval over the
allocations' means, with as few degrees of freedom as there are allocations but one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.analysis.verdict import VerdictRules, Word, worded
from dlcontainer.bench.samples import encoding
from dlcontainer.bench.samples.records import SessionDeclaration
from dlcontainer.bench.stats import paired
from dlcontainer.bench.stats.paired import Interval
from dlcontainer.errors import BenchDataError

FEWEST = 3
# What is the same of machines that one statement may be about.
_KIND = ("arch", "cpu_model", "cores")


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledSessions:
    """The sessions of one question; without a word (fewer than three) nothing is pooled."""

    members: tuple[Analysis, ...]
    word: Word | None
    reasons: tuple[str, ...] = ()
    difference: Interval | None = None
    equivalence: Interval | None = None


def across(analyses: Sequence[Analysis]) -> tuple[PooledSessions, ...]:
    """Return a statement for each question that two or more of the sessions ask.

    Raises BenchDataError where one session is there twice.
    """
    by_seal: dict[str, Analysis] = {}
    for analysis in analyses:
        series = analysis.series
        if series.seal in by_seal:
            raise BenchDataError(
                f"this is the same session as {by_seal[series.seal].series.path}",
                where=str(series.path),
                why="a session counted twice would look like two allocations",
                next_step="give each session once",
            )
        by_seal[series.seal] = analysis
    groups = (tuple(group) for _, group in groupby(sorted(analyses, key=_key), key=_key))
    return tuple(_judged(group) for group in groups if len(group) > 1)


def _key(analysis: Analysis) -> tuple[str, ...]:
    session = analysis.series.session
    kind = tuple(str(session.machine.get(name)) for name in _KIND)
    return (encoding.declared_sha256(_question(session.declared)), *kind)


def _question(declared: SessionDeclaration) -> SessionDeclaration:
    """Return what must be the same: not the order's seed, nor steps that follow from the speed."""
    steps = 0 if declared.workload.get("steady_s") else declared.steps
    return replace(declared, seed=0, steps=steps)


def _judged(members: tuple[Analysis, ...]) -> PooledSessions:
    twice = _one_allocation(members)
    if twice:
        return PooledSessions(members=members, word=None, reasons=(twice,))
    if len(members) < FEWEST:
        few = f"{len(members)} allocations, and a verdict across them takes {FEWEST}: none is drawn"
        return PooledSessions(members=members, word=None, reasons=(few,))
    refused = _named(members, "NOT COMPARABLE")
    if refused:
        return PooledSessions(members=members, word="NOT COMPARABLE", reasons=refused)
    holds = tuple(
        f"{item.series.path.name}: the session is incomplete"
        for item in members
        if not item.series.complete
    )
    # Sessions that decided nothing count too: leaving them out would choose by the outcome.
    means = [item.main.fitted.mean for item in members if item.main and item.main.fitted.df > 0]
    if holds or len(means) < len(members):
        reasons = holds or ("a session has no pairs to speak of",)
        return PooledSessions(members=members, word="INCONCLUSIVE", reasons=reasons)
    declared = members[0].series.session.declared
    difference = paired.mean_interval(means, 1 - declared.alpha)
    equivalence = paired.mean_interval(means, 1 - 2 * declared.alpha)
    rules = VerdictRules(
        margin=declared.margin, alpha=declared.alpha, equivalence=members[0].traits.equivalence
    )
    word = worded(rules, difference, equivalence)
    return PooledSessions(
        members=members, word=word, difference=difference, equivalence=equivalence
    )


def _one_allocation(members: Sequence[Analysis]) -> str:
    names = [item.series.session.machine.get("allocation") for item in members]
    allocations = [name for name in names if name is not None]
    again = sorted({str(name) for name in allocations if allocations.count(name) > 1})
    if again:
        return f"several sessions are of one allocation ({', '.join(again)}): give one of each"
    # Another day or another node: placement, neighbours and page cache are drawn again.
    places = [_node_and_day(item) for item in members]
    twice = sorted(
        {" on ".join(place) for place in places if all(place) and places.count(place) > 1}
    )
    if twice:
        return (
            f"several sessions are of one node and day ({', '.join(twice)}): a statement for "
            "others takes other nodes or days"
        )
    return ""


def _node_and_day(item: Analysis) -> tuple[str, str]:
    session = item.series.session
    return str(session.machine.get("node") or ""), session.started[:10]


def _named(members: Sequence[Analysis], word: Word) -> tuple[str, ...]:
    return tuple(
        f"{item.series.path.name}: {item.verdict.reasons[0]}"
        for item in members
        if item.verdict.word == word
    )
