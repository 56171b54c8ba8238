"""What the drawing of a session as it ran shows: which launches are joined, and its legend."""

from dataclasses import dataclass

from dlcontainer.bench.analysis.pairing import Figure, Pair, Pairs
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.svg import Entry, Scale, Tip
from dlcontainer.bench.samples.launch_table import Launch
from dlcontainer.bench.samples.records import Role


def joined(analysis: Analysis) -> list[tuple[Role, Launch, Launch]]:
    """Give the neighbours within each pair, and within each triple as it ran."""
    found: list[tuple[Role, Launch, Launch]] = []
    for role, pairs in analysis.pairs.items():
        if role == "pair" and analysis.contrasts:
            continue
        found += [(role, pair.reference, pair.candidate) for pair in pairs]
    found += [
        ("pair", pair.reference, pair.candidate)
        for item in analysis.contrasts
        for pair in item.pairs
        if abs(pair.reference.index - pair.candidate.index) == 1
    ]
    return found


def entries(analysis: Analysis) -> list[Entry]:
    """Give the legend of the launches that are drawn."""
    series = analysis.series
    roles = {kind.role for kind in series.launches.kinds}
    arms = series.session.declared.arms
    found = [
        Entry(name=arms[0], style="reference", shape="circle"),
        *(Entry(name=arm, style="between", shape="circle") for arm in arms[1:-1]),
        Entry(name=arms[-1], style="pair", shape="diamond"),
    ]
    if any(kind.mount == "joiner" for kind in series.launches.kinds):
        found.append(Entry(name=f"{arms[-1]}, joining a mount", style="joiner", shape="triangle"))
    if "control" in roles:
        found.append(Entry(name="A/A", style="control", shape="ring"))
    if "candidate_control" in roles:
        found.append(Entry(name="B/B", style="candidate_control", shape="ring"))
    if "warmup" in roles:
        found.append(Entry(name="warm-up, unused", style="warmup", shape="circle"))
    if analysis.failed:
        found.append(Entry(name="failed", style="failed", shape="cross"))
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Dot:
    """A pair on an axis of ratios."""

    x: float
    tip: Tip


def of(
    analysis: Analysis, figure: Figure, pairs: Pairs, scale: Scale, *, linked: bool
) -> list[Dot]:
    """Give each pair's dot; without links those of one place are one."""
    values = ratios(pairs, figure.metric)
    if not linked:
        return [Dot(x=x, tip=Tip()) for x in sorted({round(scale.at(value)) for value in values})]
    return [
        Dot(x=scale.at(value), tip=tip(analysis, figure.role, pair, value))
        for pair, value in zip(pairs, values, strict=True)
    ]


def ratios(pairs: Pairs, metric: str) -> list[float]:
    """Give each pair's ratio of a metric, candidate over reference."""
    ours, theirs = pairs.figures(metric) or ((), ())
    return [other / one for one, other in zip(ours, theirs, strict=True)]


def tip(analysis: Analysis, role: Role, pair: Pair, value: float) -> Tip:
    """Say which pair it is; it leads to the pair's first line."""
    first, second = sorted((pair.reference.line, pair.candidate.line))
    hint = f"{role} {pair.number}: {value:.4f} (lines {first} and {second})"
    return Tip(hint=hint, link=anchors.line(analysis.series, first))
