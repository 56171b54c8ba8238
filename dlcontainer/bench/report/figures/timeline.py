"""The slowest step of a trace, or a program of MPI: a row for each rank, bars for what it did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from dlcontainer.bench.report.svg import (
    WIDTH,
    AxisScale,
    Box,
    Drawing,
    LegendEntry,
    Tip,
    horizontal_axis,
    legend,
)
from dlcontainer.bench.trace.trace_records import Activity, RankTimeline, SlowestStep, TimelineBar

_ROW, _BAR, _TOP = 24.0, 14.0, 40.0
# Of more ranks those that were waited for, and the first ones, are drawn.
MOST_RANKS = 64
# Of more bars than fit beside each other, columns show the shares.
MOST_BARS, _COLUMNS = 300, 160
# By lightness as well as by colour: printed grey, and to those who see fewer colours.
_STYLES: Mapping[Activity, str] = {"computing": "p2", "waiting": "p3", "transfer": "p0"}
# Waiting is thin: what it stands between is seen.
_THIN = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class _Words:
    """What a figure calls the activities, and what its time is of."""

    names: Mapping[Activity, str]
    whole: str


_STEP = _Words(
    names={
        "computing": "computing",
        "waiting": "waiting for a rank",
        "transfer": "communication, exposed",
    },
    whole="step",
)
# Where it is not known when ranks computed: they may beside a collective.
_COLLECTIVES = _Words(
    names={"waiting": _STEP.names["waiting"], "transfer": "communication"}, whole="step"
)
_PROGRAM = _Words(names={**_STEP.names, "computing": "outside of MPI"}, whole="program")


@dataclass(frozen=True, kw_only=True, slots=True)
class _TimeScale:
    """Seconds as places in the figure, and what activities are called there."""

    scale: AxisScale
    factor: float
    names: Mapping[Activity, str]

    def at(self, seconds: float) -> float:
        return self.scale.at(self.factor * seconds)


def figure(
    name: str,
    slowest: SlowestStep,
    longest_s: float = 0.0,
    missing: Sequence[int] = (),
    *,
    is_computing_known: bool = True,
) -> Markup:
    """Draw the step of a side, on a scale for a step of `longest_s`; `missing` ranks are named."""
    step = RankTimeline(seconds=max(slowest.seconds, longest_s), bars=slowest.bars)
    words = _STEP if is_computing_known else _COLLECTIVES
    return _drawn(f"The slowest step, {name}", words, step, missing)


def figure_of_program(name: str, whole: RankTimeline) -> Markup:
    """Draw what the ranks of a program of MPI did, from its begin to its end."""
    return _drawn(name, _PROGRAM, whole, ())


def _drawn(name: str, words: _Words, whole: RankTimeline, missing: Sequence[int]) -> Markup:
    ranks = _shown(whole, missing)
    bottom = _TOP + _ROW * len(ranks)
    drawing = Drawing(title=f"{name}: what each rank did", height=bottom + 44)
    # A trace may have a step of no length at all.
    unit, factor = ("seconds", 1.0) if whole.seconds >= 10 else ("milliseconds", 1e3)
    scale = AxisScale(low=0.0, high=factor * whole.seconds or 1.0, start=84.0, end=WIDTH - 24)
    time = _TimeScale(scale=scale, factor=factor, names=words.names)
    axis = f"{unit} of the {words.whole}"
    horizontal_axis(drawing, scale, top=_TOP - 6, bottom=bottom, name=axis)
    entries = [LegendEntry(name=name, style=_STYLES[a]) for a, name in words.names.items()]
    legend(drawing, 90, 14, entries)
    for row, rank in enumerate(ranks):
        y = _TOP + _ROW * row
        drawing.text(76, y + _BAR - 2, f"rank {rank}", "row", "end")
        bars = whole.bars.get(rank, ())
        if rank in missing:
            drawing.text(90, y + _BAR - 3, "missing: it left no trace", "tick")
        elif len(bars) > MOST_BARS:
            _columns(drawing, y, bars, time)
        else:
            for bar in bars:
                _draw(drawing, y, bar, time)
    return drawing.svg()


def is_columns(slowest: SlowestStep | RankTimeline) -> bool:
    """Return whether any rank has more bars than can be drawn by themselves."""
    return any(len(bars) > MOST_BARS for bars in slowest.bars.values())


def _shown(slowest: RankTimeline, missing: Sequence[int]) -> Sequence[int]:
    late = {bar.of for bars in slowest.bars.values() for bar in bars if bar.of is not None}
    first = sorted({*slowest.bars, *missing}, key=lambda rank: (rank not in late, rank))
    return sorted(first[:MOST_RANKS])


def _draw(drawing: Drawing, y: float, bar: TimelineBar, time: _TimeScale) -> None:
    begin, end = time.at(bar.begin_s), time.at(bar.end_s)
    whom = f" {bar.of}" if bar.of is not None else ""
    hint = f"{time.names[bar.activity]}{whom}: {1e3 * (bar.end_s - bar.begin_s):.3g} ms"
    height = _BAR * (_THIN if bar.activity == "waiting" else 1.0)
    # What is too short to be seen is drawn as wide as a line.
    box = Box(x=begin, y=y + (_BAR - height) / 2, width=max(end - begin, 0.6), height=height)
    drawing.box(box, _STYLES[bar.activity], Tip(hint=hint))


def _columns(drawing: Drawing, y: float, bars: Sequence[TimelineBar], time: _TimeScale) -> None:
    """Draw a rank's step as columns of equal time, as high as the share of each activity."""
    end_s = max(bar.end_s for bar in bars)
    edges = [end_s * number / _COLUMNS for number in range(_COLUMNS + 1)]
    for (begin, end), seconds in zip(pairwise(edges), _shares(bars, edges), strict=True):
        top, width = y + _BAR, time.at(end) - time.at(begin)
        shares = {activity: seconds[activity] / (end - begin) for activity in _STYLES}
        hint = ", ".join(f"{name} {shares[a]:.0%}" for a, name in time.names.items())
        for activity, share in shares.items():
            top -= _BAR * share
            box = Box(x=time.at(begin), y=top, width=width + 0.1, height=_BAR * share)
            if share:
                drawing.box(box, _STYLES[activity], Tip(hint=hint))


def _shares(bars: Sequence[TimelineBar], edges: Sequence[float]) -> list[dict[Activity, float]]:
    """Return the seconds of each activity between each two edges, which lie equally far apart."""
    seconds: list[dict[Activity, float]] = [dict.fromkeys(_STYLES, 0.0) for _ in edges[1:]]
    width = edges[1] - edges[0]
    for bar in bars:
        first = min(int(bar.begin_s / width), len(seconds) - 1)
        last = min(int(bar.end_s / width), len(seconds) - 1)
        for number in range(first, last + 1):
            begin, end = max(bar.begin_s, edges[number]), min(bar.end_s, edges[number + 1])
            seconds[number][bar.activity] += max(end - begin, 0.0)
    return seconds
