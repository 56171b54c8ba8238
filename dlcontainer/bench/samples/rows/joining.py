"""The rows of a launch: read from what its probe said, and joined over its ranks. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.rows.records import Row, named

_ROWS: TypeAdapter[tuple[Row, ...]] = TypeAdapter(tuple[Row, ...])


def read(given: object) -> tuple[Row, ...]:
    """Read what a probe said; raises ValueError where it is not rows."""
    return _ROWS.validate_json(hash_chain.canonical({"rows": given})[len('{"rows":') : -1])


def merged(each: Sequence[Sequence[Row]]) -> tuple[Row, ...]:
    """Join the rows of all ranks: a row is over when the slowest one is through.

    Raises ValueError where ranks have measured different rows.
    """
    if len({len(rows) for rows in each}) > 1:
        raise ValueError("ranks report different numbers of rows")
    return tuple(_joined(same) for same in zip(*each, strict=True))


def _joined(same: Sequence[Row]) -> Row:
    first = same[0]
    other = next((row for row in same if _kind(row) != _kind(first)), None)
    if other is not None:
        raise ValueError(
            f"ranks report different rows: {named(first.parameters)}, {first.n} times, and "
            f"{named(other.parameters)}, {other.n} times"
        )
    return replace(
        first,
        best=max(row.best for row in same),
        median=max(row.median for row in same),
        cpu_s=sum(row.cpu_s for row in same),
        # That of a node, which its ranks all see.
        steal_s=max(row.steal_s for row in same),
        checked=min(row.checked for row in same),
    )


def _kind(row: Row) -> tuple[object, ...]:
    return dict(row.parameters), row.unit, row.n
