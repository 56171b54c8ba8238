"""What the drawing of a session as it ran shows: which launches are joined, and its legend."""

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.svg import Shape
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


def entries(analysis: Analysis) -> list[tuple[Shape | None, str, str]]:
    """Give the legend of the launches: shape, style, name."""
    series = analysis.series
    arms = series.session.declared.arms
    looks: list[tuple[Shape, str]] = [("circle", "reference"), ("diamond", "pair")]
    if len(arms) == 3:
        looks.insert(1, ("circle", "between"))
    found: list[tuple[Shape | None, str, str]] = [
        (shape, style, arm) for (shape, style), arm in zip(looks, arms, strict=True)
    ]
    if any(kind.mount == "joiner" for kind in series.launches.kinds):
        found.append(("triangle", "joiner", f"{arms[-1]}, joining a mount"))
    found.append(("ring", "control", "A/A"))
    if analysis.candidate_control is not None:
        found.append(("ring", "candidate_control", "B/B"))
    found.append(("circle", "warmup", "warm-up, unused"))
    if analysis.failed:
        found.append(("cross", "failed", "failed"))
    return found
