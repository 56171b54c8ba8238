"""A held-out score in words and rows. Pure."""

from collections.abc import Iterator

from dlcontainer.bench.study.advice.forecast_text import seconds
from dlcontainer.bench.study.advice.held_out import HeldOutScore, ScoredPoint, ScoreLine

POINT_HEAD = ("strategy", "ranks", "by", "measured", "foreseen, 90 %", "error", "score")
LINE_HEAD = ("by", "mean error", "worst error", "interval score", "inside")


def headline(score: HeldOutScore) -> str:
    """Return which forecast wins, in a line."""
    count = len({(point.strategy, point.ranks) for point in score.points})
    return (
        f"{count} held-out {'point' if count == 1 else 'points'}: best interval score: "
        f"{score.wins}; least mean error: {score.nearest}"
    )


def point_row(point: ScoredPoint) -> tuple[str, ...]:
    """Return a row of POINT_HEAD; error and score in per cent of the measured seconds."""
    return (
        point.strategy, str(point.ranks), point.name, f"{point.measured_s:.3g} s",
        seconds(point.foreseen_s), f"{point.error:+.1f} %", f"{point.score:.1f}",
    )  # fmt: skip


def line_row(line: ScoreLine) -> tuple[str, ...]:
    """Return a row of LINE_HEAD."""
    return (
        line.name, f"{line.mean_error:.1f} %", f"{line.worst_error:.1f} %", f"{line.score:.1f}",
        str(line.inside),
    )  # fmt: skip


def below(score: HeldOutScore) -> Iterator[str]:
    """Yield the sentences below the tables."""
    yield "the score of an interval is its width, and 20 times what lies outside of it; low is good"
    if score.not_counted:
        yield f"not counted: {'; '.join(score.not_counted)}"
    yield from score.notes
