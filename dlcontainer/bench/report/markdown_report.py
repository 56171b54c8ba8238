"""A report as Markdown: for a wiki, a repository, an issue. What comes from files stays text."""

import re
from collections.abc import Iterator, Sequence

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import html_report
from dlcontainer.bench.report.html_report import Brief, Page, SessionSection
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.table import Table

# The first line of a file of ours: what has it may be written again.
MARK = "<!-- dlcontainer report -->"
# With a backslash these are text, in CommonMark and GitHub's; so is an address without its colon,
# and what would begin a list or underline a heading.
_SPECIAL = re.compile(r"([\\`*_\[\]<>&|~$#]|:(?=//)|^[-+](?=\s|$)|^[-=](?=[-=]*$))")
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_MOST_ROWS = 200


def page(settled: Page) -> str:
    """Set a page as Markdown, without its figures."""
    blocks = [MARK, f"# {text(settled.title)}"]
    if settled.answers:
        lines = (f"- {text(answer.question)} **{text(answer.line)}**" for answer in settled.answers)
        blocks.append("\n".join(lines))
    for item in settled.joint:
        blocks += [f"## {text(item.title)}", f"**{text(item.headline)}**", text(item.sentence)]
        blocks += _table(item.table)
    for section in settled.sections:
        blocks += _section(section)
    for exhibit in settled.exhibits:
        blocks += [f"## {text(exhibit.title)}", f"**{text(exhibit.headline)}**"]
        blocks.append(text(exhibit.words))
        blocks += _tables([*exhibit.tables, *exhibit.folded])
    blocks += _tables([*settled.reached, *([settled.scorecard] if settled.scorecard else [])])
    files = ", ".join(map(text, settled.files))
    blocks.append(f"Written by dlcontainer {text(settled.version)} from {files}.")
    return "\n\n".join(blocks) + "\n"


def summary(analyses: Sequence[Analysis], findings: Sequence[InputFinding] = ()) -> str:
    """Return a summary for an issue or a log; raises BenchDataError as `briefs` does."""
    return "\n\n".join(
        # A hostile name must not begin a heading or a line of its own.
        "\n".join(" ".join(line.splitlines()) for line in _brief(brief))
        for brief in html_report.briefs(analyses, findings)
    )


def _brief(brief: Brief) -> Iterator[str]:
    yield from (f"## {brief.title}", "", f"**{brief.headline}**", "", *brief.paragraphs)
    yield from [""] if brief.notes or brief.file else []
    yield from (f"- {note}" for note in brief.notes)
    yield from (f"- {name}: {value} ({detail})" for name, value, detail in brief.figures)
    if brief.file:
        yield f"- file: {brief.file}, seal {brief.seal}"
    for block in _tables(brief.tables):
        yield from ("", *block.split("\n"))


def text(value: str) -> str:
    """Escape a text: it is one line, and none of it is markup, a link or a mention."""
    return _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", " ".join(value.split())))


def _section(section: SessionSection) -> Iterator[str]:
    yield f"## {text(section.title)}"
    yield f"**{text(section.headline)}**"
    yield from map(text, (section.words, section.sentence, section.scope))
    tiles = Table(name="Figures", head=("figure", "value", "of"), rows=section.tiles)
    yield from _table(tiles)
    if section.notes:
        yield "\n".join(f"- {text(note)}" for note in section.notes)
    yield from _tables(section.tables)
    yield "\n".join(
        f"- {text(plate.name)}: {text(plate.lines)} of {text(plate.file)}"
        for plate in section.plates
    )


def _tables(tables: Sequence[Table]) -> Iterator[str]:
    for table in tables:
        yield f"### {text(table.name)}"
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    if table.rows:
        lines = [_row(table.head), _row(["---:" if _is_right(table, i) else "---"
                                         for i in range(len(table.head))], bare=True)]  # fmt: skip
        for number, row in enumerate(table.rows[:_MOST_ROWS]):
            bold = number in table.strong
            lines.append(_row([f"**{text(cell)}**" if bold and cell else text(cell)
                               for cell in row], bare=True))  # fmt: skip
        yield "\n".join(lines)
        if len(table.rows) > _MOST_ROWS:
            yield f"{len(table.rows) - _MOST_ROWS} more rows are in the HTML."
    if table.note:
        yield text(table.note)


def _is_right(table: Table, column: int) -> bool:
    return table.numeric and column > 0


def _row(cells: Sequence[str], *, bare: bool = False) -> str:
    return f"| {' | '.join(cell if bare else text(cell) for cell in cells)} |"
