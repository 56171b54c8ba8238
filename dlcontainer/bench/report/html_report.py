"""The report of sessions and findings, one section each. Samples are never recomputed."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1
from pathlib import Path

from dlcontainer import __version__
from dlcontainer.bench.analysis import qualification
from dlcontainer.bench.analysis.across_sessions import PooledSessions, across
from dlcontainer.bench.analysis.pairing import PairFigure
from dlcontainer.bench.analysis.qualification import SiteQualification
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import scorecard
from dlcontainer.bench.report.figures import binned, ecdf
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections import answers as answering
from dlcontainer.bench.report.sections import session_figures
from dlcontainer.bench.report.sections.exhibit import Exhibit
from dlcontainer.bench.report.sections.notes import notes
from dlcontainer.bench.report.sections.predictions import exhibits
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.sections.spoken_answer import SpokenAnswer
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.tables import glossary, raw, session_tables
from dlcontainer.bench.report.text import cold_text, scope_text, summary, verdict_text
from dlcontainer.config.templating import render_page


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionSection:
    """One session as the page shows it; all words are settled here."""

    anchor: str
    title: str
    subtitle: str
    word: str
    style: str
    headline: str
    sentence: str
    beside: str
    scope: str
    words: str
    notes: tuple[str, ...]
    tiles: tuple[tuple[str, str, str], ...]
    plates: tuple[Plate, ...]
    tables: tuple[Table, ...]
    folded: tuple[Table, ...]
    file: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PooledSection:
    """What several sessions say together, as the page shows it."""

    title: str
    word: str
    style: str
    headline: str
    sentence: str
    table: Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """One section of a summary; all words are settled here. A session has a file and its seal."""

    title: str
    headline: str
    paragraphs: tuple[str, ...]
    notes: tuple[str, ...] = ()
    figures: tuple[tuple[str, str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    file: str = ""
    seal: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """All that a report says, settled: it is only set as HTML or Markdown from here on."""

    sections: tuple[SessionSection, ...]
    joint: tuple[PooledSection, ...]
    exhibits: tuple[Exhibit, ...]
    # None where no claim is about what is shown.
    scorecard: Table | None
    glossary: Table
    files: tuple[str, ...]
    # How far the sessions' sites got.
    reached: tuple[Table, ...] = ()
    # What a reader asks first; none where no file is about it.
    answers: tuple[SpokenAnswer, ...] = ()
    guide: str = "docs/measure/reading-a-report.md"
    version: str = __version__

    @property
    def title(self) -> str:
        """Name the page."""
        if self.sections:
            return f"{self.sections[0].word}: {self.sections[0].title}"
        return ", ".join(exhibit.title for exhibit in self.exhibits) or "Nothing was measured"


def page(analyses: Sequence[Analysis], findings: Sequence[InputFinding] = ()) -> Page:
    """Settle what is said; raises BenchDataError where one session is there twice."""
    standings = qualification.standings(analyses)
    joint = tuple(_joint(item) for item in across(analyses))
    listed = {a.series.seal: binned.is_listed(a, len(analyses)) for a in analyses}
    return Page(
        answers=answering.of(analyses, findings),
        sections=tuple(
            _section(
                analysis,
                i,
                standings[analysis.series.seal],
                aside=cold_text.beside(analysis, findings),
                listed=listed[analysis.series.seal],
            )
            for i, analysis in enumerate(analyses, start=1)
        ),
        joint=joint,
        exhibits=exhibits(findings),
        scorecard=scorecard.table(scorecard.scores(analyses, findings)),
        glossary=glossary.table(),
        files=(
            *(str(a.series.path) for a in analyses),
            *(str(finding.path) for finding in findings),
        ),
    )


def html(
    analyses: Sequence[Analysis], templates: list[Path], findings: Sequence[InputFinding] = ()
) -> str:
    """Return one self-contained page: no script, nothing fetched.

    Raises BenchDataError where one session is there twice.
    """
    return render(page(analyses, findings), templates)


def render(settled: Page, templates: list[Path]) -> str:
    """Set a page as HTML."""
    return render_page(templates, "report/page.html.j2", {"page": settled})


def _joint(item: PooledSessions) -> PooledSection:
    word = item.word or "no verdict"
    return PooledSection(
        title=session_tables.title(item.members[0]),
        word=word,
        style=word.lower().replace(" ", "-"),
        headline=verdict_text.joint_headline(item),
        sentence=verdict_text.joint_sentence(item),
        table=session_tables.allocations(item),
    )


def briefs(
    analyses: Sequence[Analysis], findings: Sequence[InputFinding] = ()
) -> tuple[Brief, ...]:
    """Return what a summary says: for a terminal, an issue or a log.

    Raises BenchDataError where one session is there twice.
    """
    standings = qualification.standings(analyses)
    joint = [
        Brief(
            title=f"{len(item.members)} sessions: {session_tables.title(item.members[0])}",
            headline=verdict_text.joint_headline(item),
            paragraphs=(verdict_text.joint_sentence(item),),
        )
        for item in across(analyses)
    ]
    of_exhibits = [
        Brief(
            title=exhibit.title,
            headline=exhibit.headline,
            paragraphs=(exhibit.words,),
            notes=exhibit.lines,
        )
        for exhibit in exhibits(findings)
    ]
    of_sessions = [
        _brief(analysis, standings[analysis.series.seal], findings) for analysis in analyses
    ]
    spoken = [
        Brief(title=answer.question, headline=answer.line, paragraphs=())
        for answer in answering.of(analyses, findings)
    ]
    return (*spoken, *joint, *of_sessions, *of_exhibits)


def _brief(
    analysis: Analysis, standing: SiteQualification, findings: Sequence[InputFinding]
) -> Brief:
    sentence = verdict_text.sentence(analysis)
    remarks = (cold_text.beside(analysis, findings), scope_text.scope(analysis))
    reasons = [reason for reason in analysis.verdict.reasons if reason not in sentence]
    is_grouped = analysis.series.session.declared.groups is not None
    return Brief(
        title=session_tables.title(analysis),
        headline=verdict_text.headline(analysis),
        paragraphs=(sentence, *filter(None, remarks)),
        notes=(*reasons, *notes(analysis, standing)),
        figures=_tiles(analysis),
        # Which a note of groups sends the reader to.
        tables=tuple(session_tables.of_probe(analysis.traits.section)) if is_grouped else (),
        file=str(analysis.series.path),
        seal=analysis.series.seal[:12],
    )


def _section(
    analysis: Analysis, number: int, standing: SiteQualification, *, aside: str, listed: bool
) -> SessionSection:
    verdict = analysis.verdict
    folded = [session_tables.stacks(analysis), *([raw.of(analysis)] if listed else [])]
    ready = ecdf.ready(analysis)
    shown = [
        *session_tables.open_tables(analysis),
        *([ecdf.table(analysis, ready)] if ready else []),
    ]
    return SessionSection(
        anchor=f"session-{number}",
        title=session_tables.title(analysis),
        subtitle=session_tables.subtitle(analysis),
        word=verdict.word,
        style=verdict.word.lower().replace(" ", "-"),
        headline=verdict_text.headline(analysis),
        sentence=verdict_text.sentence(analysis),
        beside=aside,
        scope=scope_text.scope(analysis),
        words=summary.paragraph(analysis),
        notes=(*notes(analysis, standing), *(() if listed else (binned.note(analysis),))),
        tiles=_tiles(analysis),
        plates=session_figures.of(analysis, ready, listed=listed),
        tables=tuple(table for table in shown if table.rows),
        folded=tuple(table for table in folded if table.rows),
        file=str(analysis.series.path),
    )


def _tiles(analysis: Analysis) -> tuple[tuple[str, str, str], ...]:
    tiles = []
    if analysis.main is not None:
        tiles.append(_ratio_tile("A/B ratio", analysis.main))
        fitted = analysis.main.fitted
        if fitted.df > 0:
            count = f"{fitted.n} {verdict_text.unit(analysis)}"
            tiles.append(
                (
                    f"sd of a {verdict_text.unit(analysis)[:-1]}",
                    verdict_text.scatter(fitted.sd),
                    count,
                )
            )
            order = 100 * expm1(fitted.order_effect)
            tiles.append(("running second", f"{order:+.2f} %", "order effect, corrected for"))
        if fitted.third is not None:
            order = 100 * expm1(fitted.third)
            tiles.append(("running third", f"{order:+.2f} %", "order effect, corrected for"))
    if analysis.joiner is not None:
        tiles.append(_ratio_tile("joining a mount", analysis.joiner))
    for control in qualification.telling(analysis):
        name = "A/A" if control.role == "control" else "B/B"
        bounds = verdict_text.bounds(control.interval)
        tiles.append((f"{name} ratio", f"{control.interval.ratio:.3f}", bounds))
        if control.role == "control":
            fitted = control.figure.fitted
            tiles.append(("A/A sd", verdict_text.scatter(fitted.sd), f"{fitted.n} pairs"))
    return tuple(tiles)


def _ratio_tile(name: str, figure: PairFigure) -> tuple[str, str, str]:
    return name, f"{figure.interval.ratio:.3f}", verdict_text.bounds(figure.interval)
