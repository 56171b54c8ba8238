"""What the drawing of a session as it ran shows: which launches are joined, and its legend."""

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.svg import Entry
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
