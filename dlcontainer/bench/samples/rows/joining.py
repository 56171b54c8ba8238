"""The rows of a launch: read from what its probe said, and joined over its ranks. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import TypeAdapter

from dlcontainer.bench.samples import hash_chain
from dlcontainer.bench.samples.rows.row_records import SampleRow, named

_ROWS: TypeAdapter[tuple[SampleRow, ...]] = TypeAdapter(tuple[SampleRow, ...])


def read(body: object) -> tuple[SampleRow, ...]:
    """Read what a probe said; raises ValueError where it is not rows."""
    return _ROWS.validate_json(hash_chain.canonical({"rows": body})[len('{"rows":') : -1])


def merged(by_rank: Sequence[Sequence[SampleRow]]) -> tuple[SampleRow, ...]:
    """Join the rows of all ranks: a row is over when the slowest one is through.

    Raises ValueError where ranks have measured different rows.
    """
    if len({len(rows) for rows in by_rank}) > 1:
        raise ValueError("ranks report different numbers of rows")
    return tuple(_joined(same) for same in zip(*by_rank, strict=True))


def _joined(same: Sequence[SampleRow]) -> SampleRow:
    first = same[0]
    mismatch = next((row for row in same if _kind(row) != _kind(first)), None)
    if mismatch is not None:
        raise ValueError(
            f"ranks report different rows: {named(first.parameters)}, {first.n} times, and "
            f"{named(mismatch.parameters)}, {mismatch.n} times"
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


def _kind(row: SampleRow) -> tuple[object, ...]:
    return dict(row.parameters), row.unit, row.n
