"""What a session of rows has beside any other: the plan of its rows, and each launch's values.

A row is one tuple of parameters. Rows are shown; one statistic of all of them is judged, the
geometric mean of their medians (`traits.ROWS_METRIC`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, JsonValue

# The first word of the figures of single rows; see `figures`.
FIGURES = "rows"
PARTS = ("median", "best", "cpu_s", "steal_s")
_STRICT = ConfigDict(strict=True, extra="forbid")
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# No clock tells a picosecond, and no session lasts decades.
Time = Annotated[float, Field(ge=1e-12, le=1e9)]
Whole = Annotated[int, Field(ge=0, lt=1 << 63)]
Parameters = Mapping[str, str | Whole]


@dataclass(frozen=True, kw_only=True, slots=True)
class RowPlan:
    """The rows that every launch has, in this order, settled before the first one.

    Each launch visits all of them in each of `rounds` rounds. `curve` names the parameter that
    figures have on their horizontal axis; empty: no figure.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    rows: Annotated[tuple[Parameters, ...], Field(min_length=1)]
    rounds: Positive
    curve: str = ""
    unit: Literal["s"] = "s"
    better: Literal["less"] = "less"


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRow:
    """One row of one launch; of several ranks times are the largest, processor time the sum.

    `n` repetitions were timed; `cpu_s` and `steal_s` are of all of them together. `checked` counts
    the values that were held against the known result before any time counted. `outcome` is what
    came of it besides, where a probe has more to say of a row than times; else empty.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    parameters: Parameters
    unit: Literal["s"] = "s"
    n: Positive
    best: Time
    median: Time
    cpu_s: Seconds
    steal_s: Seconds
    checked: Positive
    outcome: Mapping[str, JsonValue] = field(default_factory=dict)


def figures(plan: RowPlan | None) -> Iterator[str]:
    """Name the figures of all rows, as `Sample.figure` knows them."""
    for number in range(len(plan.rows) if plan else 0):
        yield from (f"{FIGURES}.{number}.{part}" for part in PARTS)


def named(parameters: Parameters) -> str:
    """Write the parameters of a row on one line.

    >>> named({"operation": "all_reduce", "bytes": 4})
    'operation all_reduce, bytes 4'
    """
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
