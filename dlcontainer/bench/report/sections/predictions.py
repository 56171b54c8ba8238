"""What is no session on a page: predictions, predictions held to account, counting runs."""

from collections.abc import Sequence
from statistics import mean, median

from dlcontainer.bench.job import job_analysis as jobbing
from dlcontainer.bench.job.job_records import JobSession
from dlcontainer.bench.report.figures import count_plots, session_plots, storm_plots
from dlcontainer.bench.report.figures.binned import MOST_LISTED
from dlcontainer.bench.report.inputs import InputFinding, PredictionTrial
from dlcontainer.bench.report.sections import jobs as jobs_
from dlcontainer.bench.report.sections import scale as scaled
from dlcontainer.bench.report.sections import scale_figures, scaling, traces
from dlcontainer.bench.report.sections.exhibit import Exhibit, plate
from dlcontainer.bench.report.sections.session_figures import Plate
from dlcontainer.bench.report.tables import count_tables, job_tables, scale_tables
from dlcontainer.bench.scale import matrix_analysis
from dlcontainer.bench.scale.matrix_records import MatrixSession
from dlcontainer.bench.trace.trace_records import JobTrace
from dlcontainer.lab.filesystem.count_file import CountingRun
from dlcontainer.lab.storm.prediction_file import Storm


def exhibits(findings: Sequence[InputFinding]) -> tuple[Exhibit, ...]:
    """Return a section each; counting runs of one tool share one."""
    storms = [
        _storm(finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, Storm)
    ]
    trials = [
        _trial(finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, PredictionTrial)
    ]
    runs = [
        (finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, CountingRun)
    ]
    tools = dict.fromkeys(run.tool for _, run in runs)
    counted = [_counted([pair for pair in runs if pair[1].tool == tool]) for tool in tools]
    matrices = [
        (finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, MatrixSession)
    ]
    most = MOST_LISTED // max(len(matrices), 1)
    mapped = [
        _matrix(finding, scale, listed=len(scale.launches) <= most) for finding, scale in matrices
    ]
    jobs = [
        _jobs(finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, JobSession)
    ]
    traced = [
        traces.exhibit(finding, finding.finding)
        for finding in findings
        if isinstance(finding.finding, JobTrace)
    ]
    return (*scaling.exhibits(findings), *jobs, *traced, *mapped, *storms, *trials, *counted)


def _jobs(finding: InputFinding, job: JobSession) -> Exhibit:
    reading = jobbing.read(job)
    listed = len(job.launches) <= MOST_LISTED
    drawn = session_plots.stacked(jobs_.bars(job), "seconds since the job began, mean")
    return Exhibit(
        anchor=f"job-{finding.sha256[:8]}",
        title="A command as a job",
        headline=jobs_.whole_headline(job, reading),
        words=jobs_.words(job, reading),
        plates=(
            plate(
                finding,
                "Where the seconds go",
                drawn,
                "The mean job of each side, without its wait in the queue, phase by phase.",
            ),
        )
        if drawn
        else (),
        tables=jobs_.tables(reading, finding.anchor),
        raw=(job_tables.table(job, f"{finding.anchor}-lines", str(finding.path)),)
        if listed
        else (),
        lines=jobs_.lines(reading),
    )


def _matrix(finding: InputFinding, scale: MatrixSession, *, listed: bool) -> Exhibit:
    rows = matrix_analysis.rows(scale)
    anchor, file = finding.anchor, str(finding.path)
    return Exhibit(
        anchor=f"scale-{finding.sha256[:8]}",
        title="Import at scale",
        headline=scaled.headline(scale, rows),
        words=scaled.words(scale, rows),
        plates=scale_figures.plates(scale, rows, anchor, file, listed=listed),
        tables=scaled.tables(scale, rows, anchor),
        folded=(*scaled.phase_table(rows), *scaled.left_out(scale)),
        raw=(scale_tables.table(scale, anchor, file),) if listed else (),
        lines=scaled.lines(rows),
    )


def _storm(finding: InputFinding, storm: Storm) -> Exhibit:
    quickest = min(storm.rows, key=lambda row: row.seconds, default=None)
    ahead = f"{quickest.way}: {quickest.seconds:.3g} s" if quickest else "no way to compare"
    return Exhibit(
        anchor=f"storm-{finding.sha256[:8]}",
        title="Storm prediction",
        headline=f"Quickest by the model: {ahead}",
        words=_foretold(storm),
        plates=(
            plate(
                finding, "Break-even", storm_plots.break_even(finding, storm),
                "Seconds until the last rank is ready over nodes, both axes logarithmic; staging "
                "is inside. Where a line falls below the tree's, that way begins to pay.",
            ),
            plate(
                finding, "Where the seconds go", storm_plots.where_seconds_go(finding, storm),
                "Each way's predicted seconds for this job, by what is waited for.",
            ),
        ),
        tables=count_tables.ways(finding, storm),
        folded=count_tables.curve(finding, storm),
    )  # fmt: skip


def _foretold(storm: Storm) -> str:
    job = storm.job
    words = [
        f"Predicted, not measured, for {storm.measured.subject}: {job.nodes} nodes with "
        f"{job.ranks} ranks each start at once, and their clients cache like "
        f"{storm.measured.profile}'s. Seconds until the last rank is ready: "
        + ", ".join(f"{row.way} {row.seconds:.3g}" for row in storm.rows)
        + "."
    ]
    pays = [
        f"{way_name} from {_many(nodes, 'node')} on"
        for way_name, nodes in storm.nodes_until_it_pays.items()
        if nodes is not None
    ]
    if pays:
        words.append(f"Quicker than the tree: {', '.join(pays)}.")
    launches = storm.launches_until_staging_pays
    if launches is not None:
        words.append(f"Staging has paid after {_many(launches, 'launch', 'launches')} like this.")
    assumed = sum(fact.assumed for fact in storm.facts)
    if assumed:
        words.append(
            f"{assumed} of {len(storm.facts)} figures of the file system are assumed, nobody's "
            "(below): a sketch that compares ways, no promise of seconds."
        )
    node = storm.measured.node
    if node is not None:
        words.append(
            f"Processor time is of repeated warm imports, by rusage, at load {node.load_1min:.1f} "
            f"on {_many(node.cores, 'core')}."
        )
    if storm.measured_longer_by is not None:
        least, most = storm.measured_longer_by
        words.append(
            f"Held-out imports took {100 * least:.0f} to {100 * most:.0f} % longer than predicted; "
            "the seconds here are not raised by that."
        )
    words.append("Other users, the server's own caches and the start of MPI are not in it.")
    return " ".join(words)


def _many(count: int, singular: str, more: str = "") -> str:
    return f"{count:,} {singular if count == 1 else more or f'{singular}s'}"


def _trial(finding: InputFinding, trial: PredictionTrial) -> Exhibit:
    errors = [abs(point.predicted / median(point.measured) - 1) for point in trial.points]
    average, worst = mean(errors), max(errors)
    met = "met" if is_met(average, worst) else "missed"
    launches = sum(len(point.measured) for point in trial.points)
    return Exhibit(
        anchor=f"trial-{finding.sha256[:8]}",
        title="The storm's prediction held to account",
        headline=f"Mean error {100 * average:.1f} %, worst {100 * worst:.1f} %",
        words=f"{len(errors)} points were predicted, all of it written down with its digest "
        f"({trial.frozen[:12]}), and then measured in {launches} launches. The aim (mean at most "
        f"{100 * storm_plots.AIM_MEAN:.0f} %, worst at most {100 * storm_plots.AIM_WORST:.0f} %) "
        f"is {met}. It says how right the counts, the arithmetic and the queue are on the file "
        "system that was measured, not that another file system is like it.",
        plates=(
            plate(
                finding, "Predicted and measured", storm_plots.against(finding, trial),
                "Each point once; above the line it took longer than predicted.",
            ),
        ),
        tables=count_tables.points(finding, trial),
    )  # fmt: skip


def is_met(average: float, worst: float) -> bool:
    """Return whether errors are within what is aimed at."""
    return average <= storm_plots.AIM_MEAN and worst <= storm_plots.AIM_WORST


def _told(finding: InputFinding, run: CountingRun) -> str:
    of = f" with {_many(run.ranks, 'rank')}" if run.ranks else ""
    node = run.per_node
    return (
        f"{finding.path.name}: {count_tables.total(run):,} operations of a node{of}, "
        f"{node.unique_files:,} files, {node.pyc:,} of them byte code and {node.so:,} libraries."
    )


def _counted(runs: Sequence[tuple[InputFinding, CountingRun]]) -> Exhibit:
    first = runs[0][1]
    words = [
        f"Counted by {first.tool}, which sees {first.sees}.",
        "A counting run is slowed by its counting: its times are not those of a job.",
        *(_told(finding, run) for finding, run in runs),
    ]
    plates = [
        Plate(
            name="Operations",
            caption="What a node asked for, by kind, on a logarithmic axis.",
            lines="all values",
            svg=count_plots.operations(runs),
            raw=runs[0][0].anchor,
            file=", ".join(str(finding.path) for finding, _ in runs),
        )
    ]
    plates += [
        plate(
            finding, f"Import tree: {count_plots.label(finding)}",
            count_plots.tree(finding, run.imports),
            "As wide as the import took; what a module imported stands below it. "
            "Traced in a run of its own (python -X importtime), which makes imports slower.",
        )
        for finding, run in runs
        if run.imports
    ]  # fmt: skip
    return Exhibit(
        anchor=f"count-{first.tool}",
        title="What was asked of the file system",
        headline=", ".join(
            f"{finding.path.name}: {count_tables.total(run):,} operations" for finding, run in runs
        ),
        words=" ".join(words),
        plates=tuple(plates),
        tables=tuple(count_tables.operations(finding, run) for finding, run in runs),
        folded=tuple(
            table for finding, run in runs for table in count_tables.imported(finding, run)
        ),
    )
