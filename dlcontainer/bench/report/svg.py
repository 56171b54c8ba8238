"""Drawing in SVG: scales, marks, axes. Colours are classes, so that a page's style decides them.

All text is escaped by Markup.format; coordinates are user units of the drawing's view box.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from markupsafe import Markup

Shape = Literal["circle", "diamond", "triangle", "ring", "cross", "dot"]

WIDTH = 760.0
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_DECADES = 8.0  # from here on ticks of a logarithmic axis are 1, 2, 5, 10 …


@dataclass(frozen=True, kw_only=True, slots=True)
class AxisScale:
    """Maps values to coordinates; logarithmic for ratios, so that x and 1/x mirror at 1."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    # Values with their labels, where round ones would not do.
    labels: tuple[tuple[float, str], ...] = ()

    def at(self, value: float) -> float:
        """Return the coordinate of a value; what lies outside is drawn at the edge."""
        bounded = min(max(value, self.low), self.high)
        share = (self._warp(bounded) - self._warp(self.low)) / (
            self._warp(self.high) - self._warp(self.low)
        )
        return self.start + share * (self.end - self.start)

    def _warp(self, value: float) -> float:
        return math.log(value) if self.log else value

    def ticks(self, about: int = 6) -> list[tuple[float, str]]:
        """Return round values inside the scale, or those that are set, each with its label."""
        if self.labels:
            return list(self.labels)
        if self.log and self.high > _DECADES * self.low:
            return self._decades()
        rough = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * s for s in _STEPS if power * s >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        digits = next(d for d in range(16) if abs(round(step, d) - step) < step * 1e-6)
        return [(n * step, f"{n * step:.{digits}f}") for n in range(first, last + 1)]

    def _decades(self) -> list[tuple[float, str]]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 3 else (1,)
        every = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [(value, f"{value:,.10g}") for value in every if self.low <= value <= self.high]


def spanning(
    values: Sequence[float], start: float, end: float, *, log: bool = False, from_zero: bool = False
) -> AxisScale:
    """Return a scale that holds all finite values, with some room around them."""
    finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    low, high = (min(finite), max(finite)) if finite else (1.0, 1.0)
    if log:
        room = max(math.log(high / low) * 0.06, 0.004)
        return AxisScale(
            low=low / math.exp(room), high=high * math.exp(room), start=start, end=end, log=True
        )
    room = max((high - low) * 0.08, abs(high) * 0.005, 1e-9)
    bottom = 0.0 if from_zero else max(low - room, 0.0) if low >= 0 else low - room
    return AxisScale(low=bottom, high=high + room, start=start, end=end)


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkStyle:
    """How a mark is drawn: its shape, and the class that colours it."""

    shape: Shape
    style: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tip:
    """A hint that shows when a mark is pointed at, and the place that the mark leads to."""

    hint: str = ""
    link: str = ""

    def around(self, drawn: Markup) -> Markup:
        """Make a mark lead to its place."""
        # Not in the order of tabs, hundreds would be: the line below a figure leads there as well.
        form = Markup('<a href="#{}" tabindex="-1">{}</a>')
        return form.format(self.link, drawn) if self.link else drawn

    def title(self) -> Markup:
        """Return the hint as an element."""
        return Markup("<title>{}</title>").format(self.hint) if self.hint else Markup("")


_SILENT = Tip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """A rectangle: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LegendEntry:
    """A line of a legend; without a shape its mark is a filled square."""

    name: str
    style: str
    shape: Shape | None = None

    @classmethod
    def of(cls, name: str, look: MarkStyle) -> "LegendEntry":
        """Explain a mark."""
        return cls(name=name, style=look.style, shape=look.shape)


@dataclass(slots=True)
class Drawing:
    """One figure; `title` names it for those who do not see it."""

    title: str
    height: float
    parts: list[Markup] = field(default_factory=list)

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str) -> None:
        """Draw a line."""
        form = Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>')
        self.parts.append(form.format(style, x1, y1, x2, y2))

    def box(self, box: Box, style: str, tip: Tip = _SILENT) -> None:
        """Draw a filled rectangle."""
        form = Markup(
            '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">{}</rect>'
        )
        size = max(box.width, 0), max(box.height, 0)
        self.parts.append(tip.around(form.format(style, box.x, box.y, *size, tip.title())))

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Write a line of text."""
        form = Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        self.parts.append(form.format(style, x, y, anchor, text))

    def upright(self, x: float, y: float, text: str) -> None:
        """Write the name of a vertical axis."""
        form = Markup(
            '<text class="axis" transform="translate({:.1f} {:.1f}) rotate(-90)" '
            'text-anchor="middle">{}</text>'
        )
        self.parts.append(form.format(x, y, text))

    def mark(self, x: float, y: float, look: MarkStyle, tip: Tip = _SILENT) -> None:
        """Draw a point."""
        d = _PATHS[look.shape]
        form = Markup('<path class="{} {}" transform="translate({:.1f} {:.1f})" d="{}">{}</path>')
        drawn = form.format(look.style, look.shape, x, y, d, tip.title())
        self.parts.append(tip.around(drawn))

    def path(self, points: Sequence[tuple[float, float]], style: str) -> None:
        """Join points by straight lines."""
        form = Markup('<polyline class="{}" points="{}"/>')
        self.parts.append(form.format(style, " ".join(f"{x:.1f},{y:.1f}" for x, y in points)))

    def whisker(self, scale: AxisScale, low: float, high: float, y: float, style: str) -> None:
        """Draw an interval, with arrows where it leaves the figure."""

        def stroke(x1: float, y1: float, x2: float, y2: float) -> None:
            self.line(x1, y1, x2, y2, f"whisker {style}")

        _whisker(scale, low, high, y, stroke)

    def upright_whisker(
        self, scale: AxisScale, low: float, high: float, x: float, style: str
    ) -> None:
        """Draw an interval on a vertical axis, with arrows where it leaves the figure."""

        def stroke(y1: float, x1: float, y2: float, x2: float) -> None:
            self.line(x1, y1, x2, y2, f"whisker {style}")

        _whisker(scale, low, high, x, stroke)

    def svg(self) -> Markup:
        """Return the figure."""
        form = Markup(
            '<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}" '
            'xmlns="http://www.w3.org/2000/svg">{}</svg>'
        )
        return form.format(WIDTH, self.height, self.title, Markup("").join(self.parts))


# Draws a line; each of its ends is a place along the scale and one across it.
_Stroke = Callable[[float, float, float, float], None]


def _whisker(scale: AxisScale, low: float, high: float, at: float, stroke: _Stroke) -> None:
    near, far = scale.at(low), scale.at(high)
    inward = math.copysign(5, far - near)
    stroke(near, at, far, at)
    for end, value, tip in ((near, low, inward), (far, high, -inward)):
        if value < scale.low or value > scale.high:
            stroke(end, at, end + tip, at - 4)
            stroke(end, at, end + tip, at + 4)
        else:
            stroke(end, at - 5, end, at + 5)


_PATHS: dict[Shape, str] = {
    "circle": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
    "dot": "M-2,0a2,2 0 1,0 4,0a2,2 0 1,0 -4,0z",
    "ring": "M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0z",
    "diamond": "M0,-5.2L5.2,0L0,5.2L-5.2,0z",
    "triangle": "M0,-5L5,4L-5,4z",
    "cross": "M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5",
}


def horizontal_axis(
    drawing: Drawing, scale: AxisScale, *, top: float, bottom: float, name: str
) -> None:
    """Draw ticks with faint lines across the figure, and the axis' name."""
    for tick, label in scale.ticks():
        x = scale.at(tick)
        drawing.line(x, top, x, bottom, "grid")
        drawing.text(x, bottom + 16, label, "tick", "middle")
    drawing.text((scale.start + scale.end) / 2, bottom + 34, name, "axis", "middle")


def vertical_axis(
    drawing: Drawing, scale: AxisScale, *, left: float, right: float, name: str = ""
) -> None:
    """Draw ticks with faint lines across the figure, and the axis' name."""
    for tick, label in scale.ticks():
        y = scale.at(tick)
        drawing.line(left, y, right, y, "grid")
        if name:
            drawing.text(left - 8, y + 4, label, "tick", "end")
    if name:
        drawing.upright(14, (scale.start + scale.end) / 2, name)


def legend(drawing: Drawing, x: float, y: float, entries: Sequence[LegendEntry]) -> None:
    """Explain marks in one row."""
    for entry in entries:
        if entry.shape is None:
            drawing.box(Box(x=x - 5, y=y - 5, width=10, height=10), entry.style)
        else:
            drawing.mark(x, y, MarkStyle(shape=entry.shape, style=entry.style))
        drawing.text(x + 10, y + 4, entry.name, "tick")
        x += 28 + 6.4 * len(entry.name)
