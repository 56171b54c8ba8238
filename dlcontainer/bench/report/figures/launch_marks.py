"""What the drawing of a session as it ran shows: which launches are joined, and its legend."""

from dataclasses import dataclass

from dlcontainer.bench.analysis.pairing import LaunchPair, LaunchPairs, PairFigure
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.svg import AxisScale, LegendEntry, Tip
from dlcontainer.bench.samples.launch_table import Launch
from dlcontainer.bench.samples.records import Role


def joined(analysis: Analysis) -> list[tuple[Role, Launch, Launch]]:
    """Return the neighbours within each pair, and within each triple as it ran."""
    joins: list[tuple[Role, Launch, Launch]] = []
    for role, pairs in analysis.pairs.items():
        if role == "pair" and analysis.contrasts:
            continue
        joins += [(role, pair.reference, pair.candidate) for pair in pairs]
    joins += [
        ("pair", pair.reference, pair.candidate)
        for item in analysis.contrasts
        for pair in item.pairs
        if abs(pair.reference.index - pair.candidate.index) == 1
    ]
    return joins


def entries(analysis: Analysis) -> list[LegendEntry]:
    """Return the legend of the launches that are drawn."""
    series = analysis.series
    roles = {kind.role for kind in series.launches.kinds}
    arms = series.session.declared.arms
    entries = [
        LegendEntry(name=arms[0], style="reference", shape="circle"),
        *(LegendEntry(name=arm, style="between", shape="circle") for arm in arms[1:-1]),
        LegendEntry(name=arms[-1], style="pair", shape="diamond"),
    ]
    if any(kind.mount == "joiner" for kind in series.launches.kinds):
        entries.append(
            LegendEntry(name=f"{arms[-1]}, joining a mount", style="joiner", shape="triangle")
        )
    if "control" in roles:
        entries.append(LegendEntry(name="A/A", style="control", shape="ring"))
    if "candidate_control" in roles:
        entries.append(LegendEntry(name="B/B", style="candidate_control", shape="ring"))
    if "warmup" in roles:
        entries.append(LegendEntry(name="warm-up, unused", style="warmup", shape="circle"))
    if analysis.failed:
        entries.append(LegendEntry(name="failed", style="failed", shape="cross"))
    return entries


@dataclass(frozen=True, kw_only=True, slots=True)
class PairDot:
    """A pair on an axis of ratios."""

    x: float
    tip: Tip


def of(
    analysis: Analysis, figure: PairFigure, pairs: LaunchPairs, scale: AxisScale, *, linked: bool
) -> list[PairDot]:
    """Return each pair's dot; without links those of one place are one."""
    values = ratios(pairs, figure.metric)
    if not linked:
        return [
            PairDot(x=x, tip=Tip()) for x in sorted({round(scale.at(value)) for value in values})
        ]
    return [
        PairDot(x=scale.at(value), tip=tip(analysis, figure.role, pair, value))
        for pair, value in zip(pairs, values, strict=True)
    ]


def ratios(pairs: LaunchPairs, metric: str) -> list[float]:
    """Return each pair's ratio of a metric, candidate over reference."""
    ours, theirs = pairs.figures(metric) or ((), ())
    return [second / first for first, second in zip(ours, theirs, strict=True)]


def tip(analysis: Analysis, role: Role, pair: LaunchPair, value: float) -> Tip:
    """Return which pair it is; it leads to the pair's first line."""
    first, second = sorted((pair.reference.line, pair.candidate.line))
    hint = f"{role} {pair.number}: {value:.4f} (lines {first} and {second})"
    return Tip(hint=hint, link=anchors.line(analysis.series, first))
