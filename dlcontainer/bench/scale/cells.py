"""From a matrix to its cells: unsupported combinations are left out, with the reason. Pure."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from dlcontainer.bench.samples.vocabulary import Start
from dlcontainer.bench.scale.matrix import FACTORS, CellFilter, Mounted, Opened, State, Where
from dlcontainer.bench.scale.matrix import Matrix as MatrixFile

# Files need no mount.
Mounts = Mounted | Literal["none"]
MOUNT_WORDS: Mapping[str, str] = {
    "rank": "a mount per rank",
    "node": "a mount per node",
    "kept": "one mount kept",
}
# One SquashFS that is mounted before the ranks start.
PACKED: tuple[Opened, ...] = ("kernel", "squashfuse", "squashfuse_ll")


@dataclass(frozen=True, kw_only=True, slots=True)
class MatrixCell:
    """One combination that is measured; `ranks` are a node's."""

    subject: str
    where: Where
    open: Opened
    mount: Mounts
    state: State
    start: Start
    ranks: int
    nodes: int

    @property
    def name(self) -> str:
        """Name it in one line."""
        ranks = "1 rank" if self.ranks == 1 else f"{self.ranks} ranks"
        nodes = "" if self.nodes == 1 else f" on each of {self.nodes} nodes"
        mount = f"{self.mount_words}, " if self.mount_words else ""
        return (
            f"{self.subject}, {self.where}, {self.open}, {mount}{self.state}, {self.start}, "
            f"{ranks}{nodes}"
        )

    @property
    def mount_words(self) -> str:
        """Return who mounts; empty where nobody does."""
        return MOUNT_WORDS.get(self.mount, "")


@dataclass(frozen=True, kw_only=True, slots=True)
class OmittedCell:
    """A combination that is not measured, and why."""

    cell: MatrixCell
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Expansion:
    """All combinations of a matrix: each is a cell or is left out."""

    cells: tuple[MatrixCell, ...]
    left_out: tuple[OmittedCell, ...]

    def without(self, lacks: Callable[[MatrixCell], str]) -> "Expansion":
        """Leave out what is not available here: the function says why, or nothing."""
        gone = {cell: why for cell in self.cells if (why := lacks(cell))}
        return Expansion(
            cells=tuple(cell for cell in self.cells if cell not in gone),
            left_out=(*self.left_out, *(OmittedCell(cell=c, why=w) for c, w in gone.items())),
        )


def expand(matrix: MatrixFile) -> Expansion:
    """Return every combination once, in the order of the factors as written."""
    chosen = [getattr(matrix.factors, name) for name in FACTORS]
    cells: dict[MatrixCell, None] = {}
    left_out: list[OmittedCell] = []
    for values in itertools.product(*chosen):
        cell = MatrixCell(**dict(zip(FACTORS, values, strict=True)))
        why = senseless(cell, matrix)
        same = _plain(cell, matrix)
        if not why and same in cells:
            why = f"the same as: {same.name}"
        if why:
            left_out.append(OmittedCell(cell=cell, why=why))
        else:
            cells[same] = None
    return Expansion(cells=tuple(cells), left_out=tuple(left_out))


def _plain(cell: MatrixCell, matrix: MatrixFile) -> MatrixCell:
    """Take away what means nothing in a cell: two that differ only there are one."""
    if cell.open == "files":
        cell = replace(cell, mount="none")
    if cell.ranks * cell.nodes == 1:
        cell = replace(cell, start=matrix.factors.start[0])
    return cell


def senseless(cell: MatrixCell, matrix: MatrixFile) -> str:
    """Return why a combination is not possible anywhere; empty where it is."""
    if any(_is(cell, some) for some in matrix.skip):
        return "the matrix skips it"
    if cell.open == "engine" and matrix.is_tree(cell.subject):
        return "the engine opens images, and this is a tree of the host's"
    if cell.where == "tmpfs" and cell.state == "cold":
        return "tmpfs is memory: nothing in it is cold"
    return _of_mounts(cell) or (_of_one_node(cell, matrix) if cell.nodes > 1 else "")


def _of_mounts(cell: MatrixCell) -> str:
    if cell.open in PACKED and cell.mount == "rank":
        return "it is mounted before the ranks start, once; the engine mounts for each rank"
    if cell.mount != "kept":
        return ""
    if cell.open == "engine":
        return "the engine's mounts end with a launch; squashfuse_ll's can be kept"
    return "a mount that is kept is warm" if cell.state == "cold" else ""


def _is(cell: MatrixCell, some: CellFilter) -> bool:
    return all(getattr(some, name) in (None, getattr(cell, name)) for name in FACTORS)


def _of_one_node(cell: MatrixCell, matrix: MatrixFile) -> str:
    """Return what of a cell is this node's alone, and so not to be had on several."""
    if cell.where != "shared":
        return "the bytes are brought to this node alone"
    if matrix.stand_in is not None:
        return "the stand-in is mounted on this node alone"
    if cell.open in PACKED or (cell.open == "engine" and cell.mount == "node"):
        return "what is mounted once is mounted on this node alone"
    return "memory is emptied and looked at on this node alone" if cell.state == "cold" else ""


def reference_of(
    cell: MatrixCell, reference: CellFilter, cells: Sequence[MatrixCell]
) -> MatrixCell | None:
    """Return the cell that one is held against, among those that were measured."""
    values = {part.name: getattr(cell, part.name) for part in fields(MatrixCell)}
    for name in FACTORS:
        value = getattr(reference, name)
        values[name] = values[name] if value is None else value
    if values["open"] == "files":
        values["mount"] = "none"
    counterpart = MatrixCell(**values)
    if counterpart in cells:
        return counterpart
    # A mount means nothing to files, nor a start to one rank: any value of it will do.
    loose = [c for c in cells if replace(c, mount="none") == replace(counterpart, mount="none")]
    return loose[0] if len(loose) == 1 and reference.mount is None else None
