"""What stands beside the headline of an import: a cold one, from a slow file system."""

from collections.abc import Iterator, Mapping, Sequence

from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.inputs import InputFinding
from dlcontainer.bench.samples.vocabulary import counted
from dlcontainer.bench.scale import matrix_analysis as matrix
from dlcontainer.bench.scale.matrix_analysis import CellRow
from dlcontainer.bench.scale.matrix_records import MatrixSession

_NOT_MEASURED = (
    "A cold import from a slow file system, which images are made for, is not among these files: "
    "dlcontainer bench import-matrix measures it."
)


def beside(analysis: Analysis, findings: Sequence[InputFinding]) -> str:
    """Return the cold import times of a matrix beside a session's warm ones; empty for a
    training.
    """
    if analysis.traits.equivalence:
        return ""
    module = analysis.series.session.declared.workload.get("module")
    texts = [
        f"{_setting(finding.finding)}: {'; '.join(times)} ({finding.path.name})."
        for finding in findings
        if isinstance(finding.finding, MatrixSession)
        and module in (None, finding.finding.header.declared.module)
        and (times := list(_times(finding.finding)))
    ]
    return " ".join(texts) or _NOT_MEASURED


def _setting(scale: MatrixSession) -> str:
    layer = scale.header.declared.matrix.get("stand_in")
    if not isinstance(layer, Mapping):
        return "Cold, from the shared file system"
    return (
        f"Cold, from a stand-in for a slow file system ({layer.get('profile')}, "
        f"{layer.get('latency_ms'):g} ms for a metadata operation)"
    )


def _times(scale: MatrixSession) -> Iterator[str]:
    cold = [
        row
        for row in matrix.rows(scale)
        if row.last is not None and row.cell.state == "cold" and row.cell.where == "shared"
    ]
    # The fewest ranks: what starting many at once adds has a section of its own.
    fewest = min((_ranks(row) for row in cold), default=0)
    for row in cold:
        if _ranks(row) == fewest and row.last is not None:
            cell = row.cell
            mount = f", {cell.mount_words}" if cell.mount_words else ""
            how = f"{cell.subject} as {cell.open}{mount}"
            yield f"{how} {row.last.middle:.1f} s, {counted(fewest, 'rank')}"


def _ranks(row: CellRow) -> int:
    return row.cell.ranks * row.cell.nodes
