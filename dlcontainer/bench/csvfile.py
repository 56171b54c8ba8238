"""All raw values as CSV (RFC 4180): one line a launch, with its file and line there.

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

from dlcontainer.bench.encoding import plain
from dlcontainer.bench.records import Sample, Series

FIRST = ("file", "line", "seal")
# What spreadsheets begin to compute at, full-width forms included.
_FORMULA = re.compile("[\\s\x00-\x1f]*[=+\\-@＝＋－＠]")  # noqa: RUF001 - these very characters
# Neither text of RFC 4180 nor a line end.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_NAMES = tuple(part.name for part in fields(Sample) if part.name != "line")
_PLAIN = json.JSONEncoder(separators=(",", ":"), default=plain).encode

Cell = str | int | float


def write(sessions: Sequence[Series], file: TextIO) -> None:
    """Write all launches of all sessions; the head is the union of what they have."""
    out = csv.writer(file, lineterminator="\r\n")
    columns = _columns(sessions)
    out.writerow([*FIRST, *map(_text, columns)])
    for series in sessions:
        place = _text(str(series.path))
        for sample in series.samples:
            cells = dict(_cells(sample))
            row = [cells.get(name, "") for name in columns]
            out.writerow([place, sample.line, series.seal, *row])


def _columns(sessions: Sequence[Series]) -> tuple[str, ...]:
    # Plain fields first, in their order: what varies comes behind.
    found = dict.fromkeys(
        name for series in sessions for sample in series.samples for name, _ in _cells(sample)
    )
    return tuple(
        sorted(found, key=lambda name: ("." in name, _NAMES.index(name.partition(".")[0])))
    )


def _cells(sample: Sample) -> Iterator[tuple[str, Cell]]:
    for name in _NAMES:
        value = getattr(sample, name)
        if isinstance(value, Mapping):
            yield from _flat(name, value)
        else:
            yield name, _cell(value)


def _flat(name: str, values: Mapping[str, object]) -> Iterator[tuple[str, Cell]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{name}.{key}", value)
        else:
            yield f"{name}.{key}", _cell(value)


def _cell(value: object) -> Cell:
    if isinstance(value, str):
        return _text(value)
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return _text(_PLAIN(value))


# Most texts are the same in every launch.
@lru_cache(maxsize=1024)
def _text(value: str) -> str:
    clean = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    return f"'{clean}" if _FORMULA.match(clean) else clean
