"""Single pairs as faint dots: where they stand, what they say, and the raw line they lead to."""

from dataclasses import dataclass

from dlcontainer.bench.analysis.pairing import Figure, Pair, Pairs
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.svg import Scale, Tip
from dlcontainer.bench.samples.records import Role


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
