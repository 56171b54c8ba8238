"""A launch's rows against those that were declared, and against its other values. Pure."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from dlcontainer.bench.samples.records import Sample
from dlcontainer.bench.samples.rows.row_records import Parameters, RowPlan, SampleRow, named
from dlcontainer.bench.samples.traits import ROWS_METRIC

_CLOSE = 1e-9


def problem(plan: RowPlan, rows: Sequence[SampleRow]) -> str:
    """Return which row is missing, there twice or not declared; empty where all are as declared."""
    expected, reported = list(map(_key, plan.rows)), [_key(row.parameters) for row in rows]
    expected_keys = set(expected)
    for row in rows:
        if _key(row.parameters) not in expected_keys:
            return f"a row that was not declared: {named(row.parameters)}"
    counts = Counter(reported)
    for parameters in plan.rows:
        count = counts[_key(parameters)]
        if count != 1:
            how = "is missing" if count == 0 else f"is there {count} times"
            return f"a row {how}: {named(parameters)}"
    if reported != expected:
        return "the rows are not in the order that was declared"
    bad = next((row for row in rows if row.best > row.median), None)
    return f"the best time is above the median: {named(bad.parameters)}" if bad else ""


def mean(rows: Sequence[SampleRow]) -> float:
    """Return the geometric mean of the rows' medians: of two launches, that of the rows' ratios."""
    return math.exp(math.fsum(math.log(row.median) for row in rows) / len(rows))


def _key(parameters: Parameters) -> tuple[str, ...]:
    return tuple(sorted(f"{name}={value!r}" for name, value in parameters.items()))


class RowAgreement:
    """Looks at the lines of a session of rows as they come."""

    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan

    def problem(self, sample: Sample) -> str | None:
        """Return what is wrong with a line; None where nothing is, and for a launch that failed."""
        return next(self._problems(sample), None) if sample.ok else None

    def _problems(self, sample: Sample) -> Iterator[str]:
        rows = sample.rows
        trouble = problem(self._plan, rows)
        if trouble:
            yield trouble
            return
        stated = sample.figure(ROWS_METRIC)
        if stated is None or abs(stated - mean(rows)) > _CLOSE * stated:
            yield f"{ROWS_METRIC} is {stated}, and the rows' geometric mean is {mean(rows):.9g}"
        for row in rows:
            if row.n * row.best > sample.wall_s * (1 + _CLOSE):
                yield (
                    f"{named(row.parameters)}: {row.n} times {row.best:.6g} s, and wall_s is "
                    f"{sample.wall_s:.6g}"
                )
