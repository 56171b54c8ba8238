"""All raw values as CSV (RFC 4180): one line a launch, with its file and line there.

Of a launch with rows one line more for each row, with the launch's place and the row's values.
Of a matrix (bench import-matrix) and of jobs (bench job) one line for each rank of a launch, under
columns of its own.

Nested values have a column each, named by their way (`values.counts.max_rss_mb`); a list is JSON in
its cell. Text that a spreadsheet would take for a formula begins with an apostrophe.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import TextIO

from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.tables import job_tables, scale_tables
from dlcontainer.bench.samples.encoding import plain
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.series import Series
from dlcontainer.bench.scale.matrix_records import MatrixSession

FIRST = ("file", "line", "seal")
# What spreadsheets begin to compute at, full-width forms included.
_FORMULA = re.compile("[\\s\x00-\x1f]*[=+\\-@＝＋－＠]")  # noqa: RUF001 - these very characters
# Neither text of RFC 4180 nor a line end.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

# Rows have lines of their own.
_NAMES = tuple(part.name for part in fields(Sample) if part.name not in ("line", "rows"))
# What tells a row's launch.
_PLACE = ("index", "role", "arm", "pair", "position")
_PLAIN = json.JSONEncoder(separators=(",", ":"), default=plain).encode

Cell = str | int | float


# A launch of a matrix with its line, its values by their columns.
_Row = tuple[int, dict[str, object]]


def write(sessions: Sequence[Series], file: TextIO, findings: Sequence[InputFinding] = ()) -> None:
    """Write all launches of all sessions and matrices; the head is the union of what they have."""
    out = csv.writer(file, lineterminator="\r\n")
    matrices = [
        (finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, MatrixSession | JobSession)
    ]
    columns = tuple(dict.fromkeys((*_columns(sessions), *_of_matrices(matrices))))
    out.writerow([*FIRST, *map(_text, columns)])
    for series in sessions:
        for sample in series.samples:
            values = dict(_values(sample))
            row = [_cell(values.get(name)) for name in columns]
            begin = [_text(str(series.path)), sample.line, series.seal]
            out.writerow([*begin, *row])
            for values in _of_rows(sample):
                out.writerow([*begin, *(_cell(values.get(name)) for name in columns)])
    for finding, scale in matrices:
        for line, values in _rows(scale):
            row = [_cell(values.get(name)) for name in columns]
            out.writerow([_text(str(finding.path)), line, scale.seal, *row])


def _rows(matrix: MatrixSession | JobSession) -> Iterator[_Row]:
    raw = scale_tables.raw(matrix) if isinstance(matrix, MatrixSession) else job_tables.raw(matrix)
    for line, values in raw:
        yield line, dict(_flat("", values))


def _of_matrices(
    matrices: Sequence[tuple[InputFinding, MatrixSession | JobSession]],
) -> tuple[str, ...]:
    names = dict.fromkeys(
        name for _, scale in matrices for _, values in _rows(scale) for name in values
    )
    # By what they are of, each in its order: ranks do not all have the same.
    order = list(dict.fromkeys(name.partition(".")[0] for name in names))
    return tuple(sorted(names, key=lambda name: order.index(name.partition(".")[0])))


def _columns(sessions: Sequence[Series]) -> tuple[str, ...]:
    # Plain fields first, in their order: what varies comes behind.
    names = dict.fromkeys(
        name for series in sessions for sample in series.samples for name, _ in _values(sample)
    )
    columns = sorted(names, key=lambda name: ("." in name, _NAMES.index(name.partition(".")[0])))
    rows = (
        name
        for series in sessions
        if series.session.declared.rows
        for sample in series.samples
        for values in _of_rows(sample)
        for name in values
    )
    return tuple(dict.fromkeys((*columns, *rows)))


def _of_rows(sample: Sample) -> Iterator[dict[str, object]]:
    place: dict[str, object] = {name: getattr(sample, name) for name in _PLACE}
    for row in sample.rows:
        values = plain(row)
        yield place | (dict(_flat("row", values)) if isinstance(values, dict) else {})


def _values(sample: Sample) -> Iterator[tuple[str, object]]:
    for name in _NAMES:
        value = getattr(sample, name)
        if isinstance(value, dict):
            yield from _flat(name, value)
        else:
            yield name, value


def _flat(name: str, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in values.items():
        path = f"{name}.{key}" if name else key
        if isinstance(value, dict):
            yield from _flat(path, value)
        else:
            yield path, value


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return _clean(_PLAIN(value))


def _clean(value: str) -> str:
    clean = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return f"'{clean}" if _FORMULA.match(clean) else clean


# Most texts are the same in every launch, but not the long ones.
_text = lru_cache(maxsize=1024)(_clean)
