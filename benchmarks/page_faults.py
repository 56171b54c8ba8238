#!/usr/bin/env python3
"""How much of a session's scatter is page faults: times of steps beside the faults that they took.

A training step frees memory and takes it again. What the C library gives back to the kernel
meanwhile comes again page by page, and how much that is depends on where a trainer's buffers lie: a
matter of chance, drawn anew with each process and each trainer. Files are sessions of resident
groups (`bench train`), whose turns have their faults beside their times.

A line for each thing that scatters: turns around their process's mean, processes around their arm's
mean in their group, groups (the log of candidate over reference) around their session's. The slope
is that of log times on faults a step, with the t interval over sessions, one slope from each. Then
each session's ratio, and what is left of it at equal faults.

This explains scatter. It is no correction for a verdict: where one side's faults are more because
of its allocator or its kernel's settings, they are a part of what is compared.

    python benchmarks/page_faults.py FILE.jsonl...
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, isnan, log, nan, sqrt
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not this folder: its statistics.py is not Python's.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import fmean

from benchmarks.bounds import half_of_mean
from dlcontainer.bench.samples import continuation, reader
from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.resident.resident_records import Turn
from dlcontainer.bench.samples.series import Series
from dlcontainer.errors import BenchDataError

LEVELS = ("turns of a process", "processes of an arm", "groups of a session")


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Thousands of faults a step, and the log of a step's time, s."""

    faults: float
    log_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """Points of one session around the means of what they belong to; `df` of them are free."""

    points: tuple[Point, ...]
    df: int

    @property
    def slope(self) -> float:
        """The log of time that a thousand faults a step go with; nan where faults are all alike."""
        spread = sum(point.faults**2 for point in self.points)
        if not spread:
            return nan
        return sum(point.faults * point.log_s for point in self.points) / spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """One session: its scatter by level, its step's time in s, both arms' faults, the mean ratio.

    `faults` are thousands a step, `mean` is of candidate over reference, over groups.
    """

    name: str
    levels: tuple[Level, ...]
    step_s: float
    faults: tuple[float, float]
    mean: Point


def main() -> int:
    """Read the sessions, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, nargs="+", help="a session of `bench train`, in groups")
    try:
        found = [of(path) for path in parser.parse_args().file]
    except BenchDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print("\n".join(tables(found)))
    return 0


def of(path: Path) -> Found:
    """Take a session apart. Raises BenchDataError where it has no groups."""
    groups = list(_groups(reader.read(path)))
    if len(groups) < 2:
        raise BenchDataError(
            "fewer than two resident groups: nothing scatters",
            where=str(path),
            next_step="give sessions of bench train without --unit launches",
        )
    turns = [
        [_point(turn) for turn in one.turns]
        for arms in groups
        for sample in arms
        for one in sample.residents
    ]
    processes = [
        [_mean([_point(turn) for turn in one.turns]) for one in sample.residents]
        for arms in groups
        for sample in arms
    ]
    # The two arms of a group stand beside each other, the reference first.
    ours, theirs = ([_mean(each) for each in processes[at::2]] for at in (0, 1))
    means = [
        Point(faults=other.faults - one.faults, log_s=other.log_s - one.log_s)
        for one, other in zip(ours, theirs, strict=True)
    ]
    return Found(
        name=path.name,
        levels=(_level(turns), _level(processes), _level([means])),
        step_s=exp(fmean(point.log_s for each in turns for point in each)),
        faults=(_mean(ours).faults, _mean(theirs).faults),
        mean=_mean(means),
    )


def _groups(series: Series) -> Iterator[tuple[Sample, Sample]]:
    """Yield both arms of each group, the reference first."""
    aside = continuation.set_aside(series)
    names = series.session.declared.sides.names
    found: dict[int, dict[str, Sample]] = {}
    for sample in series.samples:
        if sample.role == "pair" and sample.ok and sample.residents and sample.index not in aside:
            found.setdefault(sample.pair, {})[sample.arm] = sample
    for arms in found.values():
        if len(arms) == 2:
            yield arms[names[0]], arms[names[1]]


def _point(turn: Turn) -> Point:
    steps = len(turn.steps_s)
    return Point(faults=turn.faults / steps / 1000, log_s=log(turn.wall_s / steps))


def _mean(points: Sequence[Point]) -> Point:
    return Point(
        faults=fmean(point.faults for point in points), log_s=fmean(point.log_s for point in points)
    )


def _level(rows: Iterable[Sequence[Point]]) -> Level:
    """Return points without the means of their rows."""
    points, df = [], 0
    for row in rows:
        mean = _mean(row)
        points += [
            Point(faults=point.faults - mean.faults, log_s=point.log_s - mean.log_s)
            for point in row
        ]
        df += len(row) - 1
    return Level(points=tuple(points), df=df)


def tables(found: Sequence[Found]) -> Iterator[str]:
    """Yield both tables, as lines of Markdown."""
    yield (
        "| what scatters | of them | sd | faults explain "
        "| a thousand faults a step | a fault | sd left |"
    )
    yield "|---|---|---|---|---|---|---|"
    step_s = fmean(one.step_s for one in found)
    for at, name in enumerate(LEVELS):
        yield _line(name, [one.levels[at] for one in found], step_s)
    # Of processes: their faults are no choice of a side's.
    slope = _pooled([one.levels[1] for one in found]).slope
    slope = 0.0 if isnan(slope) else slope
    yield ""
    yield "| session | faults a step, reference | candidate | ratio | at equal faults |"
    yield "|---|---|---|---|---|"
    rest = [one.mean.log_s - slope * one.mean.faults for one in found]
    for one, left in zip(found, rest, strict=True):
        ours, theirs = (f"{1000 * faults:,.0f}" for faults in one.faults)
        yield f"| {one.name} | {ours} | {theirs} | {exp(one.mean.log_s):.4f} | {exp(left):.4f} |"
    logs = [one.mean.log_s for one in found]
    yield f"| mean | | | {_of_ratios(logs)} | {_of_ratios(rest)} |"


def _line(name: str, levels: Sequence[Level], step_s: float) -> str:
    whole = _pooled(levels)
    slope, squares = whole.slope, sum(point.log_s**2 for point in whole.points)
    first = f"| {name} | {len(whole.points):,} | {sqrt(squares / whole.df):.1%}"
    # One degree of freedom is the slope's own.
    if isnan(slope) or whole.df < 2:
        return f"{first} | - | - | - | - |"
    left = sum((point.log_s - slope * point.faults) ** 2 for point in whole.points)
    share = 1 - left / squares if squares else 0.0
    each = [level.slope for level in levels if not isnan(level.slope)]
    return (
        f"{first} | {share:.0%} of the variance | {slope:+.1%}{_around(each)} "
        f"| {1e3 * slope * step_s:.2f} µs | {sqrt(left / (whole.df - 1)):.1%} |"
    )


def _pooled(levels: Sequence[Level]) -> Level:
    return Level(
        points=tuple(point for level in levels for point in level.points),
        df=sum(level.df for level in levels),
    )


def _around(slopes: Sequence[float]) -> str:
    half = half_of_mean(slopes)
    if half is None:
        return ""
    mean = fmean(slopes)
    return f" (over sessions {mean:.1%} [{mean - half:.1%}, {mean + half:.1%}])"


def _of_ratios(logs: Sequence[float]) -> str:
    half, mean = half_of_mean(logs), fmean(logs)
    return f"{exp(mean):.4f}" + (
        f" [{exp(mean - half):.4f}, {exp(mean + half):.4f}]" if half is not None else ""
    )


if __name__ == "__main__":
    sys.exit(main())
