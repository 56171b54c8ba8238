"""The tables of counts and storm predictions; each row is a place that figures lead to."""

import math
from statistics import median

from dlcontainer.bench.report.figures import count_plots, storm_plots
from dlcontainer.bench.report.inputs import InputFinding, PredictionTrial
from dlcontainer.bench.report.table import Table
from dlcontainer.lab.filesystem.count_file import CountingRun
from dlcontainer.lab.storm.prediction_file import Storm

# Of an import tree: the modules that a drawing can show, and no more.
_MOST_MODULES = 400


def ways(finding: InputFinding, storm: Storm) -> tuple[Table, ...]:
    """Return each way's seconds, and what is known of the file system."""
    head = ("from", "last rank ready, s", *(f"{part}, s" for part in storm_plots.PARTS),
            "server busy", "full at")  # fmt: skip
    rows = []
    for row in storm.rows:
        full = "never" if row.saturates_at is None else f"{math.floor(row.saturates_at):,} nodes"
        parts = (f"{part:.3g}" for part in storm_plots.parts(row))
        rows.append(
            (row.way, f"{row.seconds:.3g}", *parts, f"{100 * row.prediction.busy:.0f} %", full)
        )
    facts = tuple((fact.key, f"{fact.value:g}", fact.source) for fact in storm.facts)
    return (
        Table(
            name="Ways to give ranks their files", head=head, rows=tuple(rows), numeric=True,
            anchor=finding.anchor, ids=tuple(f"{finding.anchor}-way-{i}" for i in range(len(rows))),
            note=f"From {finding.path}, sha256 {finding.sha256[:12]}.",
        ),
        Table(
            name="The file system", head=("figure", "value", "source"), rows=facts,
            strong=tuple(i for i, fact in enumerate(storm.facts) if fact.assumed),
            note="Rows in bold are assumed: nobody measured or stated them.",
        ),
    )  # fmt: skip


def curve(finding: InputFinding, storm: Storm) -> tuple[Table, ...]:
    """Return the seconds of each way over nodes."""
    names = [row.way for row in storm.rows]
    return (
        Table(
            name="Seconds over nodes",
            head=("nodes", *names),
            rows=tuple(
                (f"{p['nodes']:g}", *(f"{p[n]:.4g}" if n in p else "-" for n in names))
                for p in storm.curve
            ),
            numeric=True,
            ids=tuple(f"{finding.anchor}-{i}" for i in range(len(storm.curve))),
        ),
    )


def points(finding: InputFinding, trial: PredictionTrial) -> tuple[Table, ...]:
    """Return each point's prediction, its measurements and its error."""
    return (
        Table(
            name="Points",
            head=("point", "predicted, s", "measured, s", "least, s", "most, s", "error"),
            rows=tuple(
                (
                    point.name,
                    f"{point.predicted:.3f}",
                    *(f"{of(point.measured):.3f}" for of in (median, min, max)),
                    f"{100 * (point.predicted / median(point.measured) - 1):+.1f} %",
                )
                for point in trial.points
            ),
            numeric=True,
            anchor=finding.anchor,
            ids=tuple(f"{finding.anchor}-{i}" for i in range(len(trial.points))),
            note=f"Measured is the median of the launches. From {finding.path}, sha256 "
            f"{finding.sha256[:12]}; settled before: {trial.frozen}.",
        ),
    )


def total(run: CountingRun) -> int:
    """Return all operations of a node."""
    return sum(run.per_node.operations.values())


def operations(finding: InputFinding, run: CountingRun) -> Table:
    """Return what each rank and the node asked for."""
    columns = [
        *((f"rank {i}", tally) for i, tally in enumerate(run.per_rank)),
        ("node", run.per_node),
    ]
    names = sorted({name for _, tally in columns for name in tally.operations})
    rows = [
        (name, *(f"{tally.operations.get(name, 0):,}" for _, tally in columns)) for name in names
    ]
    ids = [f"{finding.anchor}-{name}" for name in names]
    for name, values in (
        ("bytes read", [tally.bytes for _, tally in columns]),
        ("unique files", [tally.unique_files for _, tally in columns]),
        ("byte code", [tally.pyc for _, tally in columns]),
        ("libraries", [tally.so for _, tally in columns]),
    ):
        rows.append((name, *("-" if value is None else f"{value:,}" for value in values)))
        ids.append(f"{finding.anchor}-{name.replace(' ', '-')}")
    return Table(
        name=f"Operations: {count_plots.label(finding)}",
        head=("of", *(name for name, _ in columns)),
        rows=tuple(rows),
        numeric=True,
        anchor=finding.anchor,
        ids=tuple(ids),
        note=f"{' '.join(run.command)}; from {finding.path}, sha256 {finding.sha256[:12]}.",
    )


def imported(finding: InputFinding, run: CountingRun) -> tuple[Table, ...]:
    """Return the longest imports."""
    order = sorted(range(len(run.imports)), key=lambda i: -run.imports[i].total_us)
    kept = order[:_MOST_MODULES]
    if not kept:
        return ()
    omitted = len(order) - len(kept)
    return (
        Table(
            name=f"Imports: {count_plots.label(finding)}",
            head=("module", "with what it imports, ms", "its own, ms", "depth"),
            rows=tuple(
                (m.name, f"{m.total_us / 1000:.2f}", f"{m.self_us / 1000:.2f}", str(m.depth))
                for m in (run.imports[i] for i in kept)
            ),
            numeric=True,
            ids=tuple(f"{finding.anchor}-import-{i}" for i in kept),
            note=f"{omitted:,} quicker ones are in {finding.path} alone." if omitted else "",
        ),
    )
