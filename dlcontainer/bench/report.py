"""The report of sessions, one section each: HTML and Markdown. Samples are never recomputed."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from pathlib import Path

from markupsafe import Markup

from dlcontainer import __version__
from dlcontainer.bench import figures, qualify, tables, wording
from dlcontainer.bench.across import Across, across
from dlcontainer.bench.analysis import Analysis
from dlcontainer.bench.notes import notes
from dlcontainer.bench.pairing import Figure
from dlcontainer.bench.qualify import Standing
from dlcontainer.bench.tables import Table
from dlcontainer.errors import BenchDataError
from dlcontainer.render import render_page


@dataclass(frozen=True, kw_only=True, slots=True)
class Plate:
    """A figure with its caption; `lines` names the raw values it was drawn from."""

    name: str
    caption: str
    lines: str
    svg: Markup


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One session as the page shows it; all words are settled here."""

    anchor: str
    title: str
    subtitle: str
    word: str
    style: str
    headline: str
    sentence: str
    scope: str
    notes: tuple[str, ...]
    tiles: tuple[tuple[str, str, str], ...]
    plates: tuple[Plate, ...]
    tables: tuple[Table, ...]
    folded: tuple[Table, ...]
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Joint:
    """What several sessions say together, as the page shows it."""

    title: str
    word: str
    style: str
    headline: str
    sentence: str
    table: Table


def html(analyses: Sequence[Analysis], templates: list[Path]) -> str:
    """Give one self-contained page: no script, nothing fetched.

    Raises BenchDataError where one session is there twice.
    """
    standings = qualify.standings(analyses)
    sections = [
        _section(analysis, i, standings[analysis.series.seal])
        for i, analysis in enumerate(analyses, start=1)
    ]
    values = {
        "sections": sections,
        "joint": [_joint(item) for item in across(analyses)],
        "version": __version__,
    }
    return render_page(templates, "report/page.html.j2", values)


def _joint(item: Across) -> Joint:
    word = item.word or "no verdict"
    return Joint(
        title=tables.title(item.members[0]),
        word=word,
        style=word.lower().replace(" ", "-"),
        headline=wording.joint_headline(item),
        sentence=wording.joint_sentence(item),
        table=tables.allocations(item),
    )


def write(text: str, target: Path) -> None:
    """Write a report whole: whoever opens it meanwhile sees the old one.

    Raises BenchDataError where it cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            umask = os.umask(0)
            os.umask(umask)
            os.fchmod(file.fileno(), 0o666 & ~umask)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> BenchDataError:
    return BenchDataError(
        f"the report cannot be written: {error.strerror}",
        where=str(target),
        next_step="choose another place with -o",
    )


def markdown(analyses: Sequence[Analysis]) -> str:
    """Give a summary for a terminal, an issue or a log."""
    standings = qualify.standings(analyses)
    blocks = []
    for item in across(analyses):
        title = f"## {len(item.members)} sessions: {tables.title(item.members[0])}"
        lines = [title, "", f"**{wording.joint_headline(item)}**", ""]
        blocks.append([*lines, wording.joint_sentence(item)])
    for analysis in analyses:
        lines = [f"## {tables.title(analysis)}", "", f"**{wording.headline(analysis)}**", ""]
        lines += [wording.sentence(analysis), wording.scope(analysis), ""]
        lines += [f"- {reason}" for reason in analysis.verdict.reasons]
        lines += [f"- {note}" for note in notes(analysis, standings[analysis.series.seal])]
        lines += [f"- {name}: {value} ({detail})" for name, value, detail in _tiles(analysis)]
        lines.append(f"- file: {analysis.series.path}, seal {analysis.series.seal[:12]}")
        blocks.append(lines)
    # A hostile name must not begin a heading or a line of its own.
    return "\n\n".join("\n".join(" ".join(line.splitlines()) for line in lines) for lines in blocks)


def _section(analysis: Analysis, number: int, standing: Standing) -> Section:
    verdict = analysis.verdict
    return Section(
        anchor=f"session-{number}",
        title=tables.title(analysis),
        subtitle=tables.subtitle(analysis),
        word=verdict.word,
        style=verdict.word.lower().replace(" ", "-"),
        headline=wording.headline(analysis),
        sentence=wording.sentence(analysis),
        scope=wording.scope(analysis),
        notes=notes(analysis, standing),
        tiles=_tiles(analysis),
        plates=_plates(analysis),
        tables=tuple(table for table in tables.open_tables(analysis) if table.rows),
        folded=tuple(table for table in tables.folded_tables(analysis) if table.rows),
        file=str(analysis.series.path),
    )


def _tiles(analysis: Analysis) -> tuple[tuple[str, str, str], ...]:
    found = []
    if analysis.main is not None:
        found.append(_ratio_tile("A/B ratio", analysis.main))
        fitted = analysis.main.fitted
        if fitted.df > 0:
            count = f"{fitted.n} {wording.unit(analysis)}"
            found.append(("sd of a pair", wording.scatter(fitted.sd), count))
            order = 100 * expm1(fitted.order_effect)
            found.append(("running second", f"{order:+.2f} %", "effect of order, taken out"))
        if fitted.third is not None:
            order = 100 * expm1(fitted.third)
            found.append(("running third", f"{order:+.2f} %", "effect of order, taken out"))
    if analysis.joiner is not None:
        found.append(_ratio_tile("joining a mount", analysis.joiner))
    if analysis.control is not None and analysis.verdict.control is not None:
        control = analysis.verdict.control
        found.append(("A/A ratio", f"{control.ratio:.3f}", wording.bounds(control)))
        if analysis.control.fitted.df > 0:
            sd = wording.scatter(analysis.control.fitted.sd)
            found.append(("A/A sd", sd, f"{analysis.control.fitted.n} pairs"))
    if analysis.verdict.candidate_control is not None:
        own = analysis.verdict.candidate_control
        found.append(("B/B ratio", f"{own.ratio:.3f}", wording.bounds(own)))
    return tuple(found)


def _ratio_tile(name: str, figure: Figure) -> tuple[str, str, str]:
    return name, f"{figure.interval.ratio:.3f}", wording.bounds(figure.interval)


def _plates(analysis: Analysis) -> tuple[Plate, ...]:
    pairs = [pair for group in analysis.pairs.values() for pair in group]
    pairs += [pair for item in analysis.contrasts for pair in item.pairs]
    paired = tables.ranges(s.line for pair in pairs for s in (pair.reference, pair.candidate))
    every = tables.ranges(sample.line for sample in analysis.series.samples)
    margin = wording.percent(analysis.series.session.declared.margin)
    found = []
    if pairs:
        found.append(
            Plate(
                name="How much longer?",
                caption=f"Ratios with their intervals. The band is the margin of {margin} declared "
                "beforehand, the faint dots are single pairs. Right of 1 the candidate is slower.",
                lines=paired,
                svg=figures.forest(analysis),
            )
        )
        found.append(
            Plate(
                name="A/A beside A/B",
                caption="Left a side against itself: what this machine scatters by. Beside it the "
                "comparison, on the same axis; "
                f"the line and its band are ratio and {100 * (1 - analysis.alpha):.3g} % interval.",
                lines=paired,
                svg=figures.pair_ratios(analysis),
            )
        )
    found.append(
        Plate(
            name="The session as it ran",
            caption="Every launch in its order, those of a pair or triple joined. A slope from "
            "left to right is drift of the machine, which they cancel.",
            lines=every,
            svg=figures.run_order(analysis),
        )
    )
    stacked = figures.phases(analysis)
    if stacked is not None:
        caption = "Where the time of a launch goes: the mean of each phase."
        found.append(Plate(name="Phases", caption=caption, lines=paired, svg=stacked))
    return tuple(found)
