#!/usr/bin/env python3
"""The figures of imports, out of a file of `bench import-matrix benchmarks/import-calls.yaml`.

Calls that reach the stand-in in a cold launch, and the time that the shared file system adds to the
last rank over a warm local import: each against the native tree's, within a round.
"""

import argparse
import json
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Beside this stands a statistics.py: Python's own is meant.
sys.path[:] = [str(HERE.parent), *(entry for entry in sys.path if Path(entry).resolve() != HERE)]

from statistics import median

from dlcontainer.bench.scale import matrix_analysis, matrix_file
from dlcontainer.bench.scale.cells import MatrixCell
from dlcontainer.bench.scale.matrix_records import CellLaunch, MatrixSession

TREE = MatrixCell(
    subject="native",
    where="shared",
    open="files",
    mount="none",
    state="cold",
    start="storm",
    ranks=1,
    nodes=1,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """A way of opening at some ranks; calls are medians, `added` is a median over rounds."""

    way: str
    ranks: int
    metadata: float
    reads: float
    calls_to_tree: float
    metadata_to_tree: float
    added_s: float
    added_to_tree: matrix_analysis.Median | None


def main() -> None:
    """Read a file, print the table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    scale = matrix_file.read(options.file)
    found = figures(scale)
    if options.json:
        machine = dict(scale.header.machine)
        rows = [asdict(one) for one in found]
        body = {"schema": "dlcontainer/benchmark-import/1", "machine": machine, "rows": rows}
        print(json.dumps(body, indent=1))
        return
    print("| way | ranks | metadata | reads | calls / tree | metadata / tree | added s | / tree |")
    print("|---|---|---|---|---|---|---|---|")
    for one in found:
        print(
            f"| {one.way} | {one.ranks} | {one.metadata:.0f} | {one.reads:.0f} | "
            f"{one.calls_to_tree:.3f} | {one.metadata_to_tree:.5f} | {one.added_s:.2f} | "
            f"{shown(one.added_to_tree)} |"
        )


def shown(found: matrix_analysis.Median | None) -> str:
    """Show a ratio with its interval."""
    if found is None:
        return "-"
    return f"{found.middle:.3f} [{found.low:.3f}, {found.high:.3f}] ({found.level:.0%})"


def figures(scale: MatrixSession) -> list[Figures]:
    """Return a row for each cold cell that was measured."""
    by_cell = {row.cell: row.launches for row in matrix_analysis.rows(scale) if row.launches}
    found = []
    for cell, launches in by_cell.items():
        if cell.state != "cold":
            continue
        tree = replace(TREE, ranks=cell.ranks, start=cell.start)
        own, theirs = added(cell, by_cell), added(tree, by_cell)
        ratios = sorted(own[number] / theirs[number] for number in own if number in theirs)
        metadata, reads = (calls(launches, name) for name in ("metadata", "reads"))
        of_tree = [calls(by_cell[tree], name) for name in ("metadata", "reads")]
        found.append(
            Figures(
                way=f"{cell.subject}, {cell.open}, {cell.mount}",
                ranks=cell.ranks,
                metadata=metadata,
                reads=reads,
                calls_to_tree=(metadata + reads) / sum(of_tree),
                metadata_to_tree=metadata / of_tree[0],
                added_s=median(own.values()) if own else float("nan"),
                added_to_tree=matrix_analysis.median(ratios) if ratios and cell != tree else None,
            )
        )
    return found


def calls(launches: tuple[CellLaunch, ...], name: str) -> float:
    """Return the median of what reached the stand-in."""
    return median(float(str((one.stand_in or {})[name])) for one in launches)


def added(cold: MatrixCell, by_cell: dict[MatrixCell, tuple[CellLaunch, ...]]) -> dict[int, float]:
    """Return what a round's cold launch took beyond its warm local one, s, by round."""
    warm = by_cell.get(replace(cold, where="local", state="warm"), ())
    there = {one.round: one.t_last_s for one in warm}
    return {
        one.round: one.t_last_s - base
        for one in by_cell[cold]
        if one.t_last_s is not None and (base := there.get(one.round)) is not None
    }


if __name__ == "__main__":
    main()
