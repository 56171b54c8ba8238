"""The figures of a session, each with its caption and the raw values behind it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from dlcontainer.bench.analysis import qualification
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors, table
from dlcontainer.bench.report.figures import (
    binned,
    charts,
    ecdf,
    roofline,
    row_curves,
    session_plots,
)
from dlcontainer.bench.report.figures.ecdf import ReadyTimes
from dlcontainer.bench.report.text import verdict_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Plate:
    """A figure with its caption; `lines` names the raw values it was drawn from.

    `raw` is the place of these in the page, empty where they are in the file alone.
    """

    name: str
    caption: str
    lines: str
    svg: Markup
    file: str
    raw: str = ""


_Drawn = tuple[str, str, Markup]


def of(analysis: Analysis, ready: Sequence[ReadyTimes], *, listed: bool) -> tuple[Plate, ...]:
    """Draw a session; `listed` launches are drawn one by one and lead to their raw lines."""
    series = analysis.series
    pairs = [*analysis.pairs.values(), *(item.pairs for item in analysis.contrasts)]
    paired = table.ranges(line for group in pairs for line in group.lines())
    every = table.ranges(series.launches.lines)
    drawn = [(name, words, svg, paired) for name, words, svg in _paired(analysis, listed=listed)]
    drawn.append((*_course(analysis, listed=listed), every))
    drawn += [(*plate, paired) for plate in _ready(analysis, ready, listed=listed)]
    stacked = session_plots.phases(analysis)
    if stacked is not None:
        words = "Where the time of a launch goes: the mean of each phase."
        drawn.append(("Phases", words, stacked, paired))
    drawn += [(*plate, paired) for plate in row_curves.of(analysis)]
    drawn += [(*plate, paired) for plate in roofline.of(analysis)]
    drawn += [(*plate, paired) for plate in charts.of(analysis)]
    raw = anchors.table(series) if listed else ""
    return tuple(
        Plate(
            name=name, caption=words, lines=f"lines {lines}", svg=svg, file=str(series.path),
            raw=raw,
        )
        for name, words, svg, lines in drawn
    )  # fmt: skip


def _paired(analysis: Analysis, *, listed: bool) -> Iterator[_Drawn]:
    if not (any(analysis.pairs.values()) or analysis.contrasts):
        return
    margin = verdict_text.percent(analysis.series.session.declared.margin)
    words = (
        f"Ratios with their intervals. The band is the margin of {margin}, declared beforehand; "
        f"the faint dots are single {verdict_text.unit(analysis)}. To the right of 1 the candidate "
        "is slower."
    )
    yield "How much longer?", words, session_plots.forest(analysis, linked=listed)
    if listed:
        band = f"The line and its band are the ratio and its {100 * (1 - analysis.alpha):.3g} % "
        if not qualification.telling(analysis):
            words = f"Every one in its order. {band}interval."
            yield f"The {verdict_text.unit(analysis)}", words, session_plots.pair_ratios(analysis)
            return
        words = (
            "Left: a side against itself, which shows the scatter of this machine. Right: the "
            f"comparison, on the same axis. {band}interval."
        )
        yield "A/A beside A/B", words, session_plots.pair_ratios(analysis)
    else:
        words, name = "The comparison by stretches.", "The pairs"
        if qualification.telling(analysis):
            words = "A side against itself above the comparison, on the same axis, by stretches."
            name = "A/A beside A/B"
        yield name, words, binned.pair_ratios(analysis)


def _course(analysis: Analysis, *, listed: bool) -> _Drawn:
    name, slope = "The session as it ran", "A slope from left to right is drift of the machine"
    if listed:
        words = f"Every launch in its order, pairs and triples joined. {slope}; pairing cancels it."
        return name, words, session_plots.run_order(analysis)
    words = f"The launches in their order, by stretches. {slope}."
    return name, words, binned.run_order(analysis)


def _ready(analysis: Analysis, ready: Sequence[ReadyTimes], *, listed: bool) -> Iterator[_Drawn]:
    if not ready:
        return
    unit, title = ready[0].unit, "When are they ready?"
    what = "ready at each moment; a long tail to the right means stragglers"
    if not ecdf.is_ready(analysis):
        title = "How do they scatter?"
        what = f"done in at most so long; a long tail to the right means slow {unit}"
    words = f"The share of the {unit} that is {what}. No verdict is drawn from it."
    yield title, words, ecdf.figure(analysis, ready, linked=listed)
