"""`lab count` and `lab probe-fs`: what a command asks for, what a file system gives."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.lab.filesystem.counting import Count, CountingResult

Command = Annotated[
    list[str], typer.Argument(metavar="-- COMMAND", help="Command to count, as one rank runs it.")
]
Under = Annotated[
    Path | None,
    typer.Option(
        "--under", metavar="FOLDER", help="Count only files below this folder. Default: all files."
    ),
]
Ranks = Annotated[
    int,
    typer.Option(
        "--ranks", metavar="R", min=1, help="Number of ranks to start at once on this node."
    ),
]
With = Annotated[
    Literal["auto", "strace", "slowfs", "audit"],
    typer.Option(
        "--with", help="Tool to count with; auto: strace, else our FUSE counters, else audit."
    ),
]
ProfileName = Annotated[
    Literal["lustre", "nfs", "gpfs"],
    typer.Option("--profile", help="With slowfs: file system whose client cache is imitated."),
]
Timeout = Annotated[
    float,
    typer.Option("--timeout", metavar="S", min=1.0, help="Time limit of a rank, in seconds."),
]
ImportTree = Annotated[
    bool,
    typer.Option(
        "--import-tree", help="Run one rank again and measure the time of each Python import."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="COUNT.json", help="Write the counts to this file, for `report`."
    ),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write the list of opened files, in order, for `build --order-from`.",
    ),
]
Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Folder on the file system to probe.")
]
ReadFile = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="FILE", help="File to read. Default: the largest in the folder."
    ),
]
FactsFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FACTS.yaml",
        help="Write the measured speed to this file, for `lab storm --fs`.",
    ),
]


def count(
    command: Command,
    under: Under = None,
    ranks: Ranks = 1,
    tool: With = "auto",
    profile: ProfileName = "lustre",
    timeout: Timeout = 600.0,
    import_tree: ImportTree = False,
    target: Output = None,
    trace: TraceFile = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Count a command's file-system operations, per rank and per node; not for timing."""
    from dataclasses import asdict

    from dlcontainer.bench.report import import_trees
    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.image import open_trace
    from dlcontainer.lab.filesystem import counting
    from dlcontainer.lab.slowfs.cache_profiles import PROFILES
    from dlcontainer.lab.slowfs.server import StandIn
    from dlcontainer.system import report_files
    from dlcontainer.system.workspace import workspace

    if under is not None and not under.is_dir():
        raise UsageError(f"--under {under}: no such folder")
    if target is not None:
        report_files.require(target)
    console = output.Console(verbose=verbose, quiet=as_json)
    world = here()
    runner = console.runner(world.of_user, of_user=True)
    chosen = counting.choose(None if tool == "auto" else tool, under, runner)
    with workspace(world.scratch, runner, console.note) as work:
        task = counting.CountingTask(
            argv=tuple(command), ranks=ranks, under=under, work=work, timeout_s=timeout
        )
        shown = StandIn(source=under.absolute(), profile=PROFILES[profile]) if under else None
        counted = counting.count(task, chosen, runner, shown)
        tree = import_trees.traced(task, runner) if import_tree else ()
    body = asdict(counted.of(command, tree))
    if target is not None:
        report_files.write(f"{output.document('count', body)}\n", target)
    if trace is not None:
        open_trace.write(counted.trace(under), trace)
    if as_json:
        output.emit("count", body)
        return
    output.say(_table(counted))
    if target is not None:
        output.say(f"wrote {target}; now: dlcontainer report {target} -o report.html")


def _table(counted: "CountingResult") -> str:
    from dlcontainer.lab.filesystem.counting import SEES

    columns = [
        *((f"rank {n}", counts) for n, counts in enumerate(counted.ranks)),
        ("node", counted.node),
    ]
    names = sorted({name for _, counts in columns for name in counts.operations})
    rows: list[list[object]] = [
        [name, *(counts.operations.get(name, 0) for _, counts in columns)] for name in names
    ]
    rows.append(
        ["bytes read", *("-" if counts.bytes is None else counts.bytes for _, counts in columns)]
    )
    rows.append(["unique files", *(len(counts.files) for _, counts in columns)])
    rows.append([".pyc : .so", *(_kinds(counts) for _, counts in columns)])
    head = ["", *(name for name, _ in columns)]
    return output.table(rows, head=head) + f"\ncounted by {counted.tool}: {SEES[counted.tool]}"


def _kinds(counts: "Count") -> str:
    described = counts.described()
    return f"{described.pyc} : {described.so}"


def _plain(value: float) -> str:
    """Write a figure without an exponent; its key names its unit."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def probe_fs(
    folder: Folder,
    file: ReadFile = None,
    target: FactsFile = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Probe a file system from this node: latency, metadata rate, reads; a few seconds."""
    from dlcontainer.lab.filesystem import microbenchmark
    from dlcontainer.lab.storm import parameters
    from dlcontainer.system import report_files
    from dlcontainer.system.machine import mount_of

    report_files.require(target)
    probed = microbenchmark.probe(folder, file)
    kind = mount_of(folder).kind
    if target is not None:
        report_files.write(parameters.text(probed.speed, f"probed from one node, {kind}"), target)
    speed = probed.speed.model_dump(exclude_none=True)
    if as_json:
        body = {"kind": kind, "speed": speed, "saturated": probed.saturated}
        rates = [{"threads": threads, "operations_per_s": rate} for threads, rate in probed.rates]
        more = {"rates": rates, "cold_proved": probed.cold_proved, "notes": list(probed.notes)}
        output.emit("probe-fs", {**body, **more, "samples_ms": list(probed.samples_ms)})
        return
    output.say(output.table([[key, _plain(value)] for key, value in speed.items()]))
    for note in probed.notes:
        output.say(f"note: {note}")
