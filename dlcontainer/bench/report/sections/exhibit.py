"""A section of a page beside the sessions: words, figures, tables."""

from dataclasses import dataclass

from markupsafe import Markup

from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.table import Table


@dataclass(frozen=True, kw_only=True, slots=True)
class Exhibit:
    """One section beside the sessions; its first table holds the values its figures lead to."""

    anchor: str
    title: str
    headline: str
    words: str
    plates: tuple[Plate, ...]
    tables: tuple[Table, ...]
    folded: tuple[Table, ...] = ()
    # Launches one by one: in the page alone, as the other files have them.
    raw: tuple[Table, ...] = ()
    # What a terminal shows of the tables.
    lines: tuple[str, ...] = ()
    # How many plates are seen before anything is unfolded.
    open_plates: int = 0


def plate(finding: InputFinding, name: str, svg: Markup, caption: str) -> Plate:
    """Return a figure that was drawn from all values of a file."""
    return Plate(
        name=name, caption=caption, lines="all values", svg=svg, raw=finding.anchor,
        file=str(finding.path),
    )  # fmt: skip
