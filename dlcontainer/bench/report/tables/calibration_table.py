"""The kernels that each launch runs beside its work, held against each other."""

from dlcontainer.bench.analysis.calibration import KernelReading
from dlcontainer.bench.analysis.session_analysis import Analysis
from dlcontainer.bench.report.table import Table
from dlcontainer.bench.report.text import verdict_text


def of(analysis: Analysis) -> Table:
    """Return each kernel's times and ratio; no table where none ran."""
    reference, candidate = analysis.series.session.declared.sides.names
    readings = analysis.calibration
    return Table(
        name="Calibration kernels",
        head=("kernel", f"{reference}, µs", f"{candidate}, µs", "ratio", "interval", "meaning"),
        rows=tuple(_row(item) for item in readings),
        note="The same small tasks in every launch, beside its work. The first two have nothing to "
        "do with a container: where they differ, the sides can't be compared. Rows in bold forbid "
        "the comparison.",
        strong=tuple(i for i, item in enumerate(readings) if item.refuses),
        numeric=True,
    )


def _row(item: KernelReading) -> tuple[str, ...]:
    ours, theirs = (f"{1e6 * mean:.3g}" for mean in item.means)
    interval = item.interval
    return (item.task, ours, theirs, f"{interval.ratio:.3f}", verdict_text.bounds(interval),
            _meaning(item))  # fmt: skip


def _meaning(item: KernelReading) -> str:
    if not item.differs:
        return f"no difference beyond {verdict_text.percent(item.threshold)} is shown"
    if item.is_gate:
        return "something else than the container differs"
    if item.explained_by:
        return f"the runtime's own, by {', '.join(item.explained_by)}"
    return "nothing attested is a reason for it"
