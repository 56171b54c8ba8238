"""A matrix's file: its format, and what must agree in it."""

from pathlib import Path

from dlcontainer.bench.samples.declared_file import DeclaredFormat
from dlcontainer.bench.scale.matrix_records import SCHEMA, CellLaunch, MatrixHeader, MatrixSession

FORMAT: DeclaredFormat[MatrixHeader, CellLaunch, MatrixSession] = DeclaredFormat(
    schema=SCHEMA,
    content=MatrixSession,
    header=MatrixHeader,
    launch=CellLaunch,
    header_kind="matrix",
    launch_kind="launch",
    subject="a matrix's file",
    command="bench import-matrix",
)


def read(path: Path) -> MatrixSession:
    """Read a matrix's file, every line verified; raises BenchDataError for what is not one."""
    scale = FORMAT.read(path)
    _hold(path, scale)
    return scale


def _hold(path: Path, scale: MatrixSession) -> None:
    """Refuse launches of no cell, and a cell's round that is there twice."""
    rounds = set()
    for launch in scale.launches:
        place = (launch.cell, launch.round)
        if not 0 <= launch.cell < len(scale.cells) or place in rounds:
            raise FORMAT.unfit(
                f"{path}:{launch.line}", "a launch of no cell, or one that is there twice"
            )
        rounds.add(place)
