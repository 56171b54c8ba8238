"""Figures of storm predictions: break-even over nodes, where seconds go, prediction and truth."""

from statistics import median

from markupsafe import Markup

from dlcontainer.bench.report.inputs import InputFinding, PredictionTrial
from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    MarkStyle,
    Tip,
    horizontal_axis,
    legend,
    spanning,
    vertical_axis,
)
from dlcontainer.lab.storm.prediction_file import Storm, WayRow

_LOOKS = {
    "tree": MarkStyle(shape="circle", style="reference"),
    "image per rank": MarkStyle(shape="ring", style="control"),
    "image per node": MarkStyle(shape="diamond", style="pair"),
    "staged": MarkStyle(shape="triangle", style="joiner"),
}
_OTHER = MarkStyle(shape="cross", style="failed")
PARTS = ("processor", "metadata", "reads", "staging")
# What the protocol aims at: mean and worst relative error.
AIM_MEAN, AIM_WORST = 0.10, 0.25


def break_even(finding: InputFinding, storm: Storm) -> Markup:
    """Draw seconds of each way over nodes; where a line crosses the tree's, it begins to pay."""
    names = [row.way for row in storm.rows]
    top, bottom, left, right = 34.0, 300.0, 64.0, WIDTH - 20
    drawing = Drawing(title="Seconds until the last rank is ready, over nodes", height=bottom + 44)
    nodes = [point["nodes"] for point in storm.curve]
    across = spanning([*nodes, 2 * max(nodes, default=1.0)], left, right, log=True)
    times = [point[name] for point in storm.curve for name in names if name in point]
    up = spanning([*times, 2 * min(times, default=1.0)], bottom, top, log=True)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="nodes")
    vertical_axis(drawing, up, left=left, right=right, name="seconds until the last rank")
    x = across.at(storm.job.nodes)
    drawing.line(x, top, x, bottom, "one")
    drawing.text(x - 6, top + 12, f"this job: {storm.job.nodes} nodes", "tick", "end")
    # A ring shows what it lies upon: the two ways of an image are often one line.
    for name in sorted(names, key=lambda name: _LOOKS.get(name, _OTHER).shape == "ring"):
        look = _LOOKS.get(name, _OTHER)
        on = [(i, p["nodes"], p[name]) for i, p in enumerate(storm.curve) if name in p]
        drawing.path([(across.at(n), up.at(s)) for _, n, s in on], f"step {look.style}")
        for i, number, seconds in on:
            hint = f"{name}, {number:g} nodes: {seconds:.3g} s, predicted"
            tip = Tip(hint=hint, link=f"{finding.anchor}-{i}")
            drawing.mark(across.at(number), up.at(seconds), look, tip)
    named = [LegendEntry.of(name, _LOOKS.get(name, _OTHER)) for name in names]
    legend(drawing, left + 6, 12, named)
    return drawing.svg()


def parts(row: WayRow) -> tuple[float, ...]:
    """Return the seconds of one way, in the order of PARTS."""
    met = row.prediction
    staged = row.staging[1] if row.staging else 0.0
    return met.processor_s, met.metadata_s, met.read_s, staged


def where_seconds_go(finding: InputFinding, storm: Storm) -> Markup:
    """Draw each way's seconds as a stack."""
    top, pitch, left, right = 34.0, 44.0, 130.0, WIDTH - 80
    bottom = top + pitch * len(storm.rows)
    drawing = Drawing(title="Where the predicted seconds go", height=bottom + 44)
    scale = spanning([row.seconds for row in storm.rows], left, right, from_zero=True)
    horizontal_axis(drawing, scale, top=top, bottom=bottom, name="seconds, predicted")
    for i, row in enumerate(storm.rows):
        y, begun = top + pitch * i + 8, 0.0
        drawing.text(0, y + 18, row.way, "row")
        for number, seconds in enumerate(parts(row)):
            x1, x2 = scale.at(begun), scale.at(begun + seconds)
            hint = f"{row.way}: {PARTS[number]} {seconds:.3g} s"
            box = Box(x=x1, y=y, width=x2 - x1, height=pitch - 18)
            tip = Tip(hint=hint, link=f"{finding.anchor}-way-{i}")
            drawing.box(box, f"phase p{number * 2}", tip)
            begun += seconds
        drawing.text(scale.at(begun) + 6, y + 18, f"{begun:.3g} s", "row")
    named = [LegendEntry(name=name, style=f"phase p{i * 2}") for i, name in enumerate(PARTS)]
    legend(drawing, left + 6, 12, named)
    return drawing.svg()


def against(finding: InputFinding, trial: PredictionTrial) -> Markup:
    """Draw measured over predicted, on the diagonal where they agree, with the band of the aim."""
    top, bottom, left, right = 20.0, 400.0, 64.0, 460.0
    drawing = Drawing(title="Seconds predicted and measured", height=bottom + 44)
    values = [time for point in trial.points for time in (point.predicted, *point.measured)]
    across = spanning([*values, 2 * min(values)], left, right, log=True)
    up = AxisScale(low=across.low, high=across.high, start=bottom, end=top, log=True)
    horizontal_axis(drawing, across, top=top, bottom=bottom, name="seconds predicted, frozen")
    vertical_axis(drawing, up, left=left, right=right, name="seconds measured")
    for error, style in ((AIM_WORST, "edge"), (AIM_MEAN, "edge"), (0.0, "one")):
        for factor in {1 / (1 - error), 1 / (1 + error)}:
            _diagonal(drawing, across, up, factor, style)
    for i, point in enumerate(trial.points):
        x, middle = across.at(point.predicted), median(point.measured)
        low, high = up.at(min(point.measured)), up.at(max(point.measured))
        drawing.line(x, low, x, high, "whisker pair")
        tip = Tip(
            link=f"{finding.anchor}-{i}",
            hint=f"{point.name}: {point.predicted:.3g} s predicted, {middle:.3g} s measured",
        )
        drawing.mark(x, up.at(middle), _LOOKS["image per node"], tip)
    for i, text in enumerate(
        (
            "diamond: median of the launches",
            "stroke: least to most",
            "line: prediction and measurement agree",
            f"dashes: off by {100 * AIM_MEAN:.0f} and {100 * AIM_WORST:.0f} % (the aims)",
        )
    ):
        drawing.text(right + 24, top + 20 + 20 * i, text, "tick")
    return drawing.svg()


def _diagonal(
    drawing: Drawing, across: AxisScale, up: AxisScale, factor: float, style: str
) -> None:
    """Draw measured = factor x predicted inside the square."""
    low = max(across.low, across.low / factor)
    high = min(across.high, across.high / factor)
    ends = (across.at(low), up.at(low * factor), across.at(high), up.at(high * factor))
    drawing.line(*ends, style)
