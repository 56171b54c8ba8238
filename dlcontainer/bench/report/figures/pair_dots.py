"""Single pairs as faint dots: where they stand, what they say, and the raw line they lead to."""

from dlcontainer.bench.analysis.pairing import Figure, Pair, Pairs
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.svg import Scale
from dlcontainer.bench.samples.records import Role


def of(
    analysis: Analysis, figure: Figure, pairs: Pairs, scale: Scale, *, linked: bool
) -> list[tuple[float, str, str]]:
    """Give each dot's place, hint and link; without links those of one place are one."""
    values = ratios(pairs, figure.metric)
    if not linked:
        return [(x, "", "") for x in sorted({round(scale.at(value)) for value in values})]
    return [
        (scale.at(value), hint(figure.role, pair, value), link(analysis, pair))
        for pair, value in zip(pairs, values, strict=True)
    ]


def ratios(pairs: Pairs, metric: str) -> list[float]:
    """Give each pair's ratio of a metric, candidate over reference."""
    ours, theirs = pairs.figures(metric) or ((), ())
    return [other / one for one, other in zip(ours, theirs, strict=True)]


def hint(role: Role, pair: Pair, value: float) -> str:
    """Say which pair it is."""
    first, second = sorted((pair.reference.line, pair.candidate.line))
    return f"{role} {pair.number}: {value:.4f} (lines {first} and {second})"


def link(analysis: Analysis, pair: Pair) -> str:
    """Name the place of the pair's first line."""
    return anchors.line(analysis.series, min(pair.reference.line, pair.candidate.line))
