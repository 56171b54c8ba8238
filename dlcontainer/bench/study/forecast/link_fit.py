"""A link's latency and seconds of a byte from rows of messages. Pure.

Each row is a line in both constants: so many messages one behind the other, so many bytes through
the link. The fit minimises squared relative errors, and neither constant is negative. Rows count by
their least times, those of the smallest size by the geometric mean of least and median: the least
time of a small message is that of threads that never slept, its median has the barrier's skew too.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from dlcontainer.bench.study.forecast.estimates import MANY, combined
from dlcontainer.bench.study.forecast.step_terms import RankLink
from dlcontainer.bench.study.study_records import Message

# A few rows of one session can't tell a link better than this.
LEAST_SPREAD = 0.02
# Of four rows and two constants.
FREEDOM = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkFit:
    """A link with the relative errors of its constants and their degrees of freedom."""

    link: RankLink
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
    smallest = min(row.bytes for row in rows)
    small = [row for row in rows if row.bytes == smallest]
    large = [row for row in rows if row.bytes != smallest]
    lines = [_line(row, math.sqrt(row.least_s * row.median_s)) for row in small]
    lines += [_line(row, row.least_s) for row in large]
    link = _solved(lines)
    # Small rows tell the latency, large rows the bytes: each constant has its own rows' residuals.
    errors = [_error(link, group) for group in (lines[: len(small)], lines[len(small) :])]
    alone = (LEAST_SPREAD, MANY)
    ranks = sorted({row.ranks for row in rows})
    return LinkFit(
        link=link,
        latency_error=combined((alone, (_between(small), MANY), (errors[0], FREEDOM))),
        byte_error=combined((alone, (_between(large), MANY), (errors[1], FREEDOM))),
        source=f"{rows[0].operation} of {' and '.join(map(str, ranks))} ranks, least times",
    )


def _error(link: RankLink, lines: Sequence[_Line]) -> float:
    """Return the standard error that rows' residuals give; of one row alone none is known."""
    residuals = [_of(link, line) / line.seconds - 1 for line in lines]
    return math.sqrt(sum(r * r for r in residuals)) / len(lines)


def _between(rows: Sequence[Message]) -> float:
    """Return the error of which least time and median are the ends of the 90 % interval."""
    logs = sorted(math.log(max(row.median_s / row.least_s, 1.0)) for row in rows)
    return logs[len(logs) // 2] / 2 / NormalDist().inv_cdf(0.95)


def _line(row: Message, seconds: float) -> _Line:
    if row.operation == "send_recv":
        return _Line(messages=1, bytes=row.bytes, seconds=seconds)
    messages = 2 * (row.ranks - 1)
    return _Line(messages=messages, bytes=messages / row.ranks * row.bytes, seconds=seconds)


def _of(link: RankLink, line: _Line) -> float:
    return line.messages * link.latency_s + line.bytes * link.second_per_byte


def _solved(lines: Sequence[_Line]) -> RankLink:
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
    return RankLink(latency_s=latency, second_per_byte=byte)


def _products(lines: Sequence[_Line]) -> tuple[float, float, float]:
    rows = [(line.messages / line.seconds, line.bytes / line.seconds) for line in lines]
    return sum(x * x for x, _ in rows), sum(x * y for x, y in rows), sum(y * y for _, y in rows)
