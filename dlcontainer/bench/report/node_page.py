"""Nodes beside what is usual of their kind, on one page."""

from collections.abc import Sequence

from dlcontainer.bench.analysis.steps.node_times import Judged, Usual
from dlcontainer.bench.report.html_report import Page
from dlcontainer.bench.report.sections.predictions import Exhibit
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.tables import glossary
from dlcontainer.bench.stats.scatter.outside import BOUND, LEAST, Range


def headline(judged: Sequence[Judged]) -> str:
    """Say in a line how many nodes are outside.

    >>> headline([])
    '0 of 0 nodes are outside'
    """
    bad = [one for one in judged if one.state == "outside"]
    left = [one for one in judged if one.state == "not judged"]
    are = "is" if len(bad) == 1 else "are"
    text = f"{len(bad)} of {len(judged):,} nodes {are} outside"
    return f"{text}; not judged: {len(left)}" if left else text


def page(judged: Sequence[Judged], held_against: str, files: Sequence[str]) -> Page:
    """Settle the page; `held_against` says whose figures are the usual ones."""
    exhibit = Exhibit(
        anchor="nodes",
        title="Nodes beside those of their kind",
        headline=headline(judged),
        words=f"Held against {held_against}. A node's figures are medians over its processes: of "
        "their median step, and of their slow tail, the 99th percentile over the median. Usual is "
        f"the median of the nodes' logs, give or take {BOUND:.0f} scaled median deviations, and at "
        f"least {100 * LEAST:.0f} %. Outside is slower or quicker than that, or a longer tail.",
        plates=(),
        tables=(nodes(judged), kinds(judged)),
    )
    return Page(
        sections=(),
        joint=(),
        exhibits=(exhibit,),
        scorecard=None,
        glossary=glossary.table(),
        files=tuple(files),
        guide="docs/variability.md",
    )


def nodes(judged: Sequence[Judged]) -> Table:
    """Give a row for each node, those outside first."""
    return Table(
        name="Nodes",
        head=("node", "state", "median step, ms", "of the usual", "slow tail", "launches", "why"),
        rows=tuple(
            (
                one.node.name,
                one.state,
                f"{1e3 * one.node.median_s:.4g}",
                f"{one.node.median_s / one.usual.median_s.centre:.3f}" if one.usual else "-",
                f"{one.node.tail:.3f}",
                str(one.node.launches),
                one.why,
            )
            for one in judged
        ),
        strong=tuple(i for i, one in enumerate(judged) if one.state == "outside"),
        note="Less is better of the median step and of the tail.",
    )


def kinds(judged: Sequence[Judged]) -> Table:
    """Give what is usual of each kind."""
    usual = {one.node.kind: one.usual for one in judged if one.usual}
    return Table(
        name="Kinds of node",
        head=("kind", "nodes", "usual median step, ms", "usual tail, at most"),
        rows=tuple(
            (
                str(kind),
                str(known.median_s.count),
                f"{_shown(known.median_s)}",
                f"{known.tail.high:.3f}",
            )
            for kind, known in usual.items()
        ),
    )


def body(judged: Sequence[Judged]) -> dict[str, object]:
    """Give the nodes as plain values: seconds, ratios."""
    return {
        "outside": [one.node.name for one in judged if one.state == "outside"],
        "not_judged": [one.node.name for one in judged if one.state == "not judged"],
        "nodes": [
            {
                "node": one.node.name,
                "kind": str(one.node.kind),
                "state": one.state,
                "why": one.why,
                "launches": one.node.launches,
                "median_s": one.node.median_s,
                "tail": one.node.tail,
                "usual": _usual(one.usual) if one.usual else None,
            }
            for one in judged
        ],
    }


def _usual(usual: Usual) -> dict[str, object]:
    middle = usual.median_s
    return {
        "nodes": middle.count,
        "median_s": middle.centre,
        "low_s": middle.low,
        "high_s": middle.high,
        "tail": usual.tail.centre,
        "tail_high": usual.tail.high,
    }


def _shown(one: Range) -> str:
    return f"{1e3 * one.centre:.4g} [{1e3 * one.low:.4g}, {1e3 * one.high:.4g}]"
