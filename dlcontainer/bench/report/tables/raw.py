"""All launches of a session as a table whose rows are the places that figures lead to."""

import json
from collections.abc import Mapping

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report import anchors
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.records import Sample

# A launch of many steps has more than a page should hold: the file has all.
_MOST_VALUES = 24
_MOST_TEXT = 400


def of(analysis: Analysis) -> Table:
    """Return every launch with its line, its times and what it brought."""
    series = analysis.series
    metric = series.session.declared.metric
    return Table(
        name=f"All {len(series.launches)} launches",
        head=("line", "role", "pair", "place", "arm", "mount", metric, "wall_s", "phases",
              "other values", "error"),
        rows=tuple(_row(sample, metric) for sample in series.samples),
        note=f"From {series.path}, which has every raw value; so has the CSV beside this page.",
        anchor=anchors.table(series),
        ids=tuple(anchors.line(series, line) for line in series.launches.lines),
    )  # fmt: skip


def _row(sample: Sample, metric: str) -> tuple[str, ...]:
    time = sample.figure(metric)
    further = {name: value for name, value in sample.values.items() if name != metric}
    return (
        str(sample.line),
        sample.role,
        str(sample.pair or ""),
        ("first", "second", "third")[sample.position],
        sample.arm,
        sample.mount,
        "" if time is None else f"{time:.4f}",
        f"{sample.wall_s:.4f}",
        _brief({name: round(value, 4) for name, value in sample.phases.items()}),
        _brief(further),
        (sample.error or ("" if sample.ok else f"exit code {sample.returncode}"))[:_MOST_TEXT],
    )


def _brief(values: Mapping[str, object]) -> str:
    shown = {
        name: f"{len(value)} values, in the file"
        if isinstance(value, list) and len(value) > _MOST_VALUES
        else value
        for name, value in values.items()
    }
    text = json.dumps(shown, ensure_ascii=False)[1:-1]
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… (whole in the file)"
