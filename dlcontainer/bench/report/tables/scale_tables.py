"""The launches of a matrix one by one: rows of a table that figures lead to, and of the CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.scale.analysis import ready
from dlcontainer.bench.scale.records import Launched, Scale

_MOST_RANKS = 16
_MOST_TEXT = 400


def place(anchor: str, line: int) -> str:
    """Name the place of one launch's line in a page."""
    return f"{anchor}-line-{line}"


def table_place(anchor: str) -> str:
    """Name the place of the table of all launches in a page."""
    return f"{anchor}-lines"


def table(scale: Scale, anchor: str, file: str) -> Table:
    """Give every launch with its line, in the order in which they ran."""
    return Table(
        name=f"All {counted(len(scale.launches), 'launch', 'launches')}",
        head=("line", "round", "cell", "last rank ready, s", "each rank ready, s",
              "load before", "error"),
        rows=tuple(_row(scale, one) for one in scale.launches),
        note=f"From {file}, which has every raw value; so has the CSV beside this page, a row for "
        "each rank. The load is the machine's over the minute before the launch.",
        anchor=table_place(anchor),
        ids=tuple(place(anchor, one.line) for one in scale.launches),
    )  # fmt: skip


def _row(scale: Scale, one: Launched) -> tuple[str, ...]:
    return (
        str(one.line),
        str(one.round + 1),
        scale.cells[one.cell].name,
        "" if one.t_last_s is None else f"{one.t_last_s:.4f}",
        _brief(ready(one)),
        f"{one.load_1min:.2f}",
        (one.error or "")[:_MOST_TEXT],
    )


def _brief(times: Sequence[float]) -> str:
    shown = ", ".join(f"{time:.3f}" for time in times[:_MOST_RANKS])
    more = len(times) - _MOST_RANKS
    return f"{shown} and {more} more in the file" if more > 0 else shown


def raw(scale: Scale) -> Iterator[tuple[int, dict[str, object]]]:
    """Give each rank of each launch with the launch's line; one that has no rank a row as well.

    What is the launch's stands in the row of each of its ranks.
    """
    for one in scale.launches:
        cell = scale.cells[one.cell]
        whole = {
            "cell": {"number": one.cell, "name": cell.name, **asdict(cell)},
            "round": one.round,
            "started": one.started,
            "t_last_s": one.t_last_s,
            "ready_s": one.ready_s,
            "load_1min": one.load_1min,
            "read_bytes": one.read_bytes,
            "error": one.error,
            "stderr": list(one.stderr),
            "before": asdict(one.before),
            "mounted": one.mounted,
            "stand_in": one.stand_in or {},
        }
        for rank in one.ranks or ({},):
            yield one.line, {**whole, "rank": rank}
