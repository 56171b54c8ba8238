"""A link's latency and seconds of a byte from rows of messages, by least times. Pure.

Each row is a line in both constants: so many messages one behind the other, so many bytes through
the link. The fit minimises squared relative errors, and neither constant is negative.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlcontainer.bench.study.forecast.estimates import MANY, combined
from dlcontainer.bench.study.forecast.step_terms import Link
from dlcontainer.bench.study.study_records import Message

# A few rows of one session can't tell a link better than this.
LEAST_SPREAD = 0.02


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFit:
    """A link with the relative errors of its constants and their degrees of freedom."""

    link: Link
    latency_error: tuple[float, float]
    byte_error: tuple[float, float]
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """A row: seconds = messages * latency + bytes * seconds of a byte."""

    messages: float
    bytes: float
    seconds: float


def fit(rows: Sequence[Message]) -> LinkFit | None:
    """Fit a link to rows of all_reduce or of send_recv; None where two sizes are missing."""
    if len({row.bytes for row in rows}) < 2:
        return None
    lines = [_line(row) for row in rows]
    link = _solved(lines)
    residuals = [_of(link, line) / line.seconds - 1 for line in lines]
    free = len(lines) - 2
    noise = math.sqrt(sum(r * r for r in residuals) / free) if free else 0.0
    alone = (LEAST_SPREAD, MANY)
    busy = (_busy(rows), MANY)
    latency, byte = _errors(lines, link)
    spread = (noise, float(max(free, 1)))
    ranks = sorted({row.ranks for row in rows})
    return LinkFit(
        link=link,
        latency_error=combined((alone, busy, (spread[0] * latency, spread[1]))),
        byte_error=combined((alone, busy, (spread[0] * byte, spread[1]))),
        source=f"{rows[0].operation} of {' and '.join(map(str, ranks))} ranks, least times",
    )


def _line(row: Message) -> _Line:
    n = row.ranks
    if row.operation == "send_recv":
        return _Line(messages=1, bytes=row.bytes, seconds=row.least_s)
    messages = 2 * (n - 1)
    return _Line(messages=messages, bytes=messages / n * row.bytes, seconds=row.least_s)


def _of(link: Link, line: _Line) -> float:
    return line.messages * link.latency_s + line.bytes * link.second_per_byte


def _solved(lines: Sequence[_Line]) -> Link:
    """Solve the normal equations of relative errors; at a bound, the other constant alone."""
    aa, ab, bb = _products(lines)
    a = sum(line.messages / line.seconds for line in lines)
    b = sum(line.bytes / line.seconds for line in lines)
    whole = aa * bb - ab * ab
    latency, byte = (a * bb - b * ab) / whole, (b * aa - a * ab) / whole
    if latency < 0:
        latency, byte = 0.0, b / bb
    elif byte < 0:
        latency, byte = a / aa, 0.0
    return Link(latency_s=latency, second_per_byte=byte)


def _products(lines: Sequence[_Line]) -> tuple[float, float, float]:
    rows = [(line.messages / line.seconds, line.bytes / line.seconds) for line in lines]
    return sum(x * x for x, _ in rows), sum(x * y for x, y in rows), sum(y * y for _, y in rows)


def _errors(lines: Sequence[_Line], link: Link) -> tuple[float, float]:
    """Return the relative errors of both constants where each row errs by 1."""
    aa, ab, bb = _products(lines)
    whole = aa * bb - ab * ab
    return (
        math.sqrt(bb / whole) / link.latency_s if link.latency_s > 0 else 1.0,
        math.sqrt(aa / whole) / link.second_per_byte if link.second_per_byte > 0 else 1.0,
    )


def _busy(rows: Sequence[Message]) -> float:
    """Return how far medians lie above least times: what others' work costs, half of it."""
    above = sorted(_above(rows))
    return above[len(above) // 2] / 2


def _above(rows: Sequence[Message]) -> Iterator[float]:
    for row in rows:
        yield max(0.0, row.median_s / row.least_s - 1)
