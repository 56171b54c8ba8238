"""`dlcontainer bench nodes`: which nodes are outside of what is usual of their kind?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.bench.report.html_report import Page
    from dlcontainer.bench.samples.series import Series

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...", help="Session files of `bench variability` from several nodes."
    ),
]
Arm = Annotated[
    Literal["native", "bare", "unpacked", "container"],
    typer.Option("--arm", help="Arm whose launches are judged. An image is the same on all nodes."),
]
Write = Annotated[
    Path | None,
    typer.Option(
        "--write-baseline", metavar="FILE.json", help="Write these nodes' figures as a baseline."
    ),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE.json",
        help="Baseline to compare the nodes with. Default: each other.",
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE.html",
        help="Write the result as an HTML page, or as Markdown if the name ends in .md.",
    ),
]


def nodes(
    files: Files,
    arm: Arm = "container",
    write: Write = None,
    against: Against = None,
    target: Target = None,
    as_json: options.Json = False,
) -> None:
    """List the nodes whose step times are unusual for their kind; exit with 1 if there are any."""
    from dlcontainer.bench.analysis.steps import node_baseline, node_times
    from dlcontainer.bench.report import node_page
    from dlcontainer.errors import ChecksFailedError

    _check(files, write, against, target)
    usual = node_baseline.read(against).usual() if against else None
    sessions = [_read(path) for path in files]
    timed_nodes = node_times.of(sessions, arm)
    judged = node_times.judge(timed_nodes, usual or node_times.baseline(timed_nodes))
    seals = [series.seal for series in sessions]
    if write is not None:
        node_baseline.write(write, timed_nodes, seals)
    reference = f"the baseline {against}" if against else "each other"
    if target is not None:
        _write(target, node_page.page(judged, reference, [str(path) for path in files]))
    bad = [node for node in judged if node.state != "usual"]
    if as_json:
        written = {
            "baseline": str(write) if write else None,
            "page": str(target) if target else None,
        }
        output.emit("nodes", {"against": reference, **node_page.body(judged), "written": written})
        raise typer.Exit(1 if bad else 0)
    table = node_page.nodes(judged)
    output.say(output.table(table.rows, head=table.head))
    for path in (write, target):
        if path is not None:
            output.copied(str(path), before="wrote ")
    if bad:
        raise ChecksFailedError(
            f"{node_page.headline(judged)}: {', '.join(node.node.name for node in bad)}",
            why=f"compared with {reference}",
            next_step="read the reasons above; measure a node again before you drain it",
        )
    output.say(node_page.headline(judged))


def _check(
    files: list[Path], write: Path | None, against: Path | None, target: Path | None
) -> None:
    """Refuse, before anything is read, outputs that would replace what is read."""
    from dlcontainer.errors import UsageError
    from dlcontainer.system import report_files

    read = {path.resolve() for path in [*files, *([against] if against else [])]}
    for path, option in ((write, "--write-baseline"), (target, "-o")):
        if path is not None and path.resolve() in read:
            raise UsageError(
                f"{option} {path}: this would overwrite an input file",
                next_step="choose another name",
            )
        report_files.require(path, option)
    if write is not None and target is not None and write.resolve() == target.resolve():
        raise UsageError(
            "--write-baseline and -o name the same file", next_step="choose another name"
        )


def _read(path: Path) -> "Series":
    from dlcontainer.bench import probes
    from dlcontainer.bench.probes.variability import VARIABILITY
    from dlcontainer.bench.samples import contradictions, reader
    from dlcontainer.errors import BenchDataError

    series = reader.read(path)
    name = series.session.declared.probe
    if name != VARIABILITY.name:
        raise BenchDataError(
            f"this is a session of `bench {name}`",
            where=str(path),
            why="it has no times of single steps",
            next_step=f"measure each node with `bench {VARIABILITY.name}`",
        )
    contradictions.refuse(series, probes.traits(series).ends_at)
    return series


def _write(target: Path, page: "Page") -> None:
    from dlcontainer.bench.report import html_report, markdown_report
    from dlcontainer.cli.context import here
    from dlcontainer.system import report_files

    if target.suffix.lower() in {".md", ".markdown"}:
        report_files.write(markdown_report.page(page), target)
    else:
        folders = here().resources.template_folders()
        report_files.write(html_report.render(page, folders), target)
