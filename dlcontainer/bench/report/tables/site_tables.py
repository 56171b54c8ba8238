"""The tables of a session's site."""

from collections.abc import Mapping, Sequence

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import SURROUNDINGS

_LEFT_OUT = "left out"


def surroundings(analysis: Analysis) -> Table:
    """Return what the site put around the image; no rows in a session that says nothing of it."""
    declared = analysis.series.session.declared
    return around(declared.site, declared.workload.get(SURROUNDINGS))


def around(site: str, parts: object) -> Table:
    """Return the parts of a site's surroundings as they were declared; no rows without any."""
    rows = [
        (name, ", ".join(map(comparable.shown, values)))
        for name, values in (parts if isinstance(parts, dict) else {}).items()
        if isinstance(values, list)
    ]
    return Table(
        name=f"Around the image at {site or 'this site'}",
        head=("part", "as the site config says it"),
        rows=tuple(rows),
        note="Flags, binds, libraries and search paths are the container's alone: their cost is "
        "part of its times. Variables were set on all sides.",
        strong=tuple(index for index, (name, _) in enumerate(rows) if name == _LEFT_OUT),
    )


def reached(sites: Mapping[str, Sequence[str]]) -> tuple[Table, ...]:
    """Return how far each site got, by the lines of its stages."""
    return tuple(
        Table(
            name=f"How far {site} got",
            head=("stage", "by the files given"),
            rows=tuple(map(_stage, lines)),
            note="Only a proof of a job, or a validation, shows a stage; its file is checked and "
            "judged when the report is made.",
        )
        for site, lines in sites.items()
    )


def _stage(line: str) -> tuple[str, str]:
    name, _, detail = line.partition(": ")
    return name, detail
