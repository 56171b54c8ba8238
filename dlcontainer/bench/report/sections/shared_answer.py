"""What a report's files say of many ranks on a shared file system: image against native tree."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.report.text import scope_text
from dlcontainer.bench.samples import comparable
from dlcontainer.bench.samples.records import Json
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.scale import matrix_analysis
from dlcontainer.bench.scale.matrix import IMAGE, NATIVE
from dlcontainer.bench.scale.matrix_analysis import CellRow, Median
from dlcontainer.bench.scale.matrix_records import MatrixSession
from dlcontainer.lab.storm.prediction_file import Storm

# How a module's wrappers and jobs mount comes first: once a node.
_MOUNTS = ("node", "kept", "rank", "none")
CANNOT_TELL = "Can't tell"
_SAID = {"FASTER": "The image is ready first", "SLOWER": "The native tree is ready first"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedAnswer:
    """What is said, with its figures; `is_shown`: measured, and told apart."""

    reply: str
    figures: str
    is_shown: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _SharedCells:
    """Image and native tree in one matrix, at its largest number of ranks."""

    matrix: MatrixSession
    image: CellRow
    image_s: Median
    native_s: Median

    @property
    def ranks(self) -> str:
        nodes = self.image.cell.nodes
        ranks = counted(self.image.cell.ranks * nodes, "rank")
        return f"{ranks} on {counted(nodes, 'node')}"

    @property
    def _layer(self) -> Mapping[str, Json]:
        layer = self.matrix.header.declared.matrix.get("stand_in")
        return layer if isinstance(layer, Mapping) else {}

    @property
    def source(self) -> str:
        """Where the stand-in's delay is taken from; without a source it is an assumption."""
        source = self._layer.get("source")
        return f"as {comparable.shown(source)}" if source else "an assumption"

    @property
    def delay_ms(self) -> float | None:
        """The stand-in's delay of a metadata operation; None where the file system is real."""
        delay = self._layer.get("latency_ms")
        return float(delay) if isinstance(delay, int | float) else None


def of(findings: Sequence[InputFinding], starts: Sequence[Analysis]) -> SharedAnswer | None:
    """Answer by a matrix, else by a prediction; None where there is neither.

    `starts` are decided sessions of imports on the same page: warm, where nothing is slow.
    """
    for item in findings:
        if isinstance(item.finding, MatrixSession) and (cells := _compared(item.finding)):
            return _measured(cells, starts)
    for item in findings:
        if isinstance(item.finding, Storm) and item.finding.rows:
            return _predicted(item.finding)
    return None


def _compared(matrix: MatrixSession) -> _SharedCells | None:
    """Find the largest cells of image and native tree, the coldest that were measured."""
    rows = matrix_analysis.rows(matrix)
    best: tuple[tuple[int, bool, int], _SharedCells] | None = None
    for row in rows:
        cell, contrast = row.cell, row.contrast
        if cell.subject != IMAGE or cell.where != "shared" or contrast is None:
            continue
        native = rows[contrast.reference]
        if native.cell.subject != NATIVE or row.last is None or native.last is None:
            continue
        rank = (cell.ranks * cell.nodes, cell.state == "cold", -_MOUNTS.index(cell.mount))
        if best is None or rank > best[0]:
            cells = _SharedCells(matrix=matrix, image=row, image_s=row.last, native_s=native.last)
            best = rank, cells
    return best[1] if best else None


def _measured(cells: _SharedCells, starts: Sequence[Analysis]) -> SharedAnswer:
    contrast = cells.image.contrast
    if contrast is None:
        raise ValueError("a cell without its reference")
    interval, delay = contrast.interval, cells.delay_ms
    seconds = (
        f"{cells.ranks} are ready after {cells.image_s.middle:.1f} s from the image, after "
        f"{cells.native_s.middle:.1f} s from the native tree (ratio {interval.ratio:.2f}, "
        f"{interval.low:.2f} to {interval.high:.2f})"
    )
    how = "measured" if delay is None else f"emulated, {delay:g} ms a call ({cells.source})"
    reply = _SAID.get(contrast.word)
    words = [seconds, f"{cells.image.cell.state}; {how}", *_break_even(cells, starts)]
    if reply is None:
        words.insert(1, contrast.word)
    if busy := scope_text.others_at_work(cells.matrix.header.machine):
        # Inside a sentence a reply begins small.
        seen = "; ".join([*([reply[0].lower() + reply[1:]] if reply else []), *words])
        figures = f"others were at work on this machine ({busy}); seen then: {seen}"
        return SharedAnswer(reply=CANNOT_TELL, figures=figures, is_shown=False)
    return SharedAnswer(
        reply=reply or CANNOT_TELL, figures="; ".join(words), is_shown=reply is not None
    )


def _break_even(cells: _SharedCells, starts: Sequence[Analysis]) -> Iterator[str]:
    """Say at which delay both take as long: on a straight line from the warm local start to here.

    Times grow with the delay in proportion: each call waits for it. One rank started warm; here it
    is several that start cold, so it is a rough figure.
    """
    delay, warm = cells.delay_ms, next((start.seconds for start in starts if start.seconds), None)
    if not delay or warm is None:
        return
    saved = cells.native_s.middle - cells.image_s.middle
    if warm.added <= 0 < saved:
        yield "on a warm local disk it is no slower either"
    elif warm.added > 0 and saved > 0:
        even = delay * warm.added / (warm.added + saved)
        yield f"both are equally fast at about {even:.1g} ms a call"
    elif warm.added > 0:
        yield f"no break-even up to {delay:g} ms a call"


def _predicted(storm: Storm) -> SharedAnswer:
    job = storm.job
    by_way = ", ".join(f"{row.way} {row.seconds:.3g} s" for row in storm.rows)
    quickest = min(storm.rows, key=lambda row: row.seconds)
    return SharedAnswer(
        reply=f"By the model, first ready: {quickest.way}",
        figures=f"{job.nodes:g} nodes of {job.ranks:g} ranks: {by_way}; predicted, not measured",
        is_shown=False,
    )
