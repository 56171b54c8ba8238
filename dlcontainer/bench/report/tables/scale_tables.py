"""The launches of a matrix one by one: rows of a table that figures lead to, and of the CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from dlcontainer.bench.report.table import Table
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.scale.matrix_analysis import ready
from dlcontainer.bench.scale.matrix_records import CellLaunch, MatrixSession

_MOST_RANKS = 16
_MOST_TEXT = 400


def place(anchor: str, line: int) -> str:
    """Name the place of one launch's line in a page."""
    return f"{anchor}-line-{line}"


def table_place(anchor: str) -> str:
    """Name the place of the table of all launches in a page."""
    return f"{anchor}-lines"


def table(scale: MatrixSession, anchor: str, file: str) -> Table:
    """Return every launch with its line, in the order in which they ran."""
    return Table(
        name=f"All {counted(len(scale.launches), 'launch', 'launches')}",
        head=("line", "round", "cell", "last rank ready, s", "each rank ready, s",
              "load before", "error"),
        rows=tuple(_row(scale, launch) for launch in scale.launches),
        note=f"From {file}, which has every raw value; so has the CSV beside this page, a row for "
        "each rank. The load is the machine's over the minute before the launch.",
        anchor=table_place(anchor),
        ids=tuple(place(anchor, launch.line) for launch in scale.launches),
    )  # fmt: skip


def _row(scale: MatrixSession, launch: CellLaunch) -> tuple[str, ...]:
    return (
        str(launch.line),
        str(launch.round + 1),
        scale.cells[launch.cell].name,
        "" if launch.t_last_s is None else f"{launch.t_last_s:.4f}",
        _brief(ready(launch)),
        f"{launch.load_1min:.2f}",
        (launch.error or "")[:_MOST_TEXT],
    )


def _brief(times: Sequence[float]) -> str:
    shown = ", ".join(f"{time:.3f}" for time in times[:_MOST_RANKS])
    more = len(times) - _MOST_RANKS
    return f"{shown} and {more} more in the file" if more > 0 else shown


def raw(scale: MatrixSession) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield each rank of each launch with the launch's line; one that has no rank a row as well.

    What is the launch's stands in the row of each of its ranks.
    """
    for launch in scale.launches:
        cell = scale.cells[launch.cell]
        whole = {
            "cell": {"number": launch.cell, "name": cell.name, **asdict(cell)},
            "round": launch.round,
            "started": launch.started,
            "t_last_s": launch.t_last_s,
            "ready_s": launch.ready_s,
            "load_1min": launch.load_1min,
            "read_bytes": launch.read_bytes,
            "error": launch.error,
            "stderr": list(launch.stderr),
            "before": asdict(launch.before),
            "mounted": launch.mounted,
            "stand_in": launch.stand_in or {},
        }
        for rank in launch.ranks or ({},):
            yield launch.line, {**whole, "rank": rank}
