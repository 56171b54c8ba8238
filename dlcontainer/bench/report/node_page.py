"""Nodes beside what is usual of their kind, on one page."""

from collections.abc import Sequence

from dlcontainer.bench.analysis.steps.node_times import NodeJudgement, UsualRanges
from dlcontainer.bench.report.html_report import Page
from dlcontainer.bench.report.sections.exhibit import Exhibit
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.tables import glossary
from dlcontainer.bench.stats.scatter.outside import BOUND, LEAST, Range


def headline(judged: Sequence[NodeJudgement]) -> str:
    """Return one line that says how many nodes are outside.

    >>> headline([])
    '0 of 0 nodes are outside'
    """
    bad = [node for node in judged if node.state == "outside"]
    unjudged = [node for node in judged if node.state == "not judged"]
    are = "is" if len(bad) == 1 else "are"
    text = f"{len(bad)} of {len(judged):,} nodes {are} outside"
    return f"{text}; not judged: {len(unjudged)}" if unjudged else text


def page(judged: Sequence[NodeJudgement], held_against: str, files: Sequence[str]) -> Page:
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
        guide="docs/measure/variability.md",
    )


def nodes(judged: Sequence[NodeJudgement]) -> Table:
    """Return a row for each node, those outside first."""
    return Table(
        name="Nodes",
        head=("node", "state", "median step, ms", "of the usual", "slow tail", "launches", "why"),
        rows=tuple(
            (
                node.node.name,
                node.state,
                f"{1e3 * node.node.median_s:.4g}",
                f"{node.node.median_s / node.usual.median_s.centre:.3f}" if node.usual else "-",
                f"{node.node.tail:.3f}",
                str(node.node.launches),
                node.why,
            )
            for node in judged
        ),
        strong=tuple(i for i, node in enumerate(judged) if node.state == "outside"),
        note="Less is better of the median step and of the tail.",
    )


def kinds(judged: Sequence[NodeJudgement]) -> Table:
    """Return what is usual of each kind."""
    usual = {node.node.kind: node.usual for node in judged if node.usual}
    return Table(
        name="Kinds of node",
        head=("kind", "nodes", "usual median step, ms", "usual tail, at most"),
        rows=tuple(
            (
                str(kind),
                str(ranges.median_s.count),
                f"{_shown(ranges.median_s)}",
                f"{ranges.tail.high:.3f}",
            )
            for kind, ranges in usual.items()
        ),
    )


def body(judged: Sequence[NodeJudgement]) -> dict[str, object]:
    """Return the nodes as plain values: seconds, ratios."""
    return {
        "outside": [node.node.name for node in judged if node.state == "outside"],
        "not_judged": [node.node.name for node in judged if node.state == "not judged"],
        "nodes": [
            {
                "node": node.node.name,
                "kind": str(node.node.kind),
                "state": node.state,
                "why": node.why,
                "launches": node.node.launches,
                "median_s": node.node.median_s,
                "tail": node.node.tail,
                "usual": _usual(node.usual) if node.usual else None,
            }
            for node in judged
        ],
    }


def _usual(usual: UsualRanges) -> dict[str, object]:
    middle = usual.median_s
    return {
        "nodes": middle.count,
        "median_s": middle.centre,
        "low_s": middle.low,
        "high_s": middle.high,
        "tail": usual.tail.centre,
        "tail_high": usual.tail.high,
    }


def _shown(bounds: Range) -> str:
    return f"{1e3 * bounds.centre:.4g} [{1e3 * bounds.low:.4g}, {1e3 * bounds.high:.4g}]"
