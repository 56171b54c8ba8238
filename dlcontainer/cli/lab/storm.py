"""`dlcontainer lab storm`: will this image, or this tree, storm the file system?"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from dlcontainer.cli.context import CliContext
    from dlcontainer.lab.storm.alternatives import AlternativeRow, StormCase
    from dlcontainer.lab.storm.loads import LoadMeasurement
    from dlcontainer.lab.storm.parameters import StormFacts
    from dlcontainer.lab.storm.storm_model import StormJob
    from dlcontainer.sites.site import Site

Subject = Annotated[
    Path | None,
    typer.Argument(
        metavar="[IMAGE|PREFIX]", help="Image (.sif), or prefix of a Python installation."
    ),
]
Nodes = Annotated[
    int, typer.Option("--nodes", metavar="N", min=1, help="Number of nodes that start at once.")
]
RanksPerNode = Annotated[
    int, typer.Option("--ranks-per-node", metavar="R", min=1, help="Ranks per node.")
]
FactsFile = Annotated[
    Path | None,
    typer.Option(
        "--fs",
        metavar="FACTS.yaml",
        help="File with the file system's speed, from `lab probe-fs -o`.",
    ),
]
PathOf = Annotated[
    str | None,
    typer.Option("--path", metavar="PATH", help="Path of the site's file system to predict for."),
]
Module = Annotated[
    str | None,
    typer.Option(
        "--module", metavar="NAME", help="Module that ranks import. Default: the image's first."
    ),
]
Cores = Annotated[
    int | None,
    typer.Option("--cores", metavar="C", min=1, help="Cores per node. Default: the site's."),
]
Loads = Annotated[
    Path | None,
    typer.Option("--loads", metavar="FILE.json", help="Predict from a file that --keep wrote."),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="FILE.json",
        help="Write this machine's measurements to a file, for --loads.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="STORM.json",
        help="Write the prediction to this file, for `report`.",
    ),
]
ProfileName = Annotated[
    Literal["lustre", "nfs", "gpfs"],
    typer.Option("--profile", help="File system whose client cache is imitated."),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prediction:
    """The rows that were predicted for a job, and of what."""

    case: "StormCase"
    job: "StormJob"
    rows: "list[AlternativeRow]"
    facts: "StormFacts"
    measured: "LoadMeasurement"


def storm(
    site: options.Site,
    nodes: Nodes,
    ranks: RanksPerNode,
    subject: Subject = None,
    facts_file: FactsFile = None,
    path: PathOf = None,
    module: Module = None,
    cores: Cores = None,
    loads: Loads = None,
    keep: Keep = None,
    profile: ProfileName = "lustre",
    target: Output = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Predict the time until all ranks have imported: from a tree, an image, or staged files."""
    import os
    from dataclasses import asdict

    from dlcontainer.cli.context import here
    from dlcontainer.errors import UsageError
    from dlcontainer.lab.storm import loads as load_file
    from dlcontainer.lab.storm import parameters, prediction_file
    from dlcontainer.lab.storm.alternatives import StormCase, rows
    from dlcontainer.lab.storm.storm_model import StormJob
    from dlcontainer.system import report_files

    if (subject is None) == (loads is None):
        raise UsageError("give either an image or a folder to measure, or --loads FILE.json")
    if subject is not None and not os.access(subject, os.R_OK):
        raise UsageError(f"{subject}: no such image or folder, or you may not read it")
    if subject is not None and subject.is_dir() and module is None:
        raise UsageError("a folder requires --module: the module that ranks import")
    report_files.require(target)
    report_files.require(keep, "--keep")
    world = here()
    settled = world.site(site).value
    facts = parameters.gather(facts_file, settled, path)
    console = output.Console(verbose=verbose, quiet=as_json)
    if loads is not None:
        measured = load_file.read(loads)
    else:
        assert subject is not None  # noqa: S101 - one of the two is there, see above
        settling = _Settling(
            subject=subject, module=module, profile=profile, site=settled, world=world
        )
        measured = _measured(settling, console)
    if keep is not None:
        load_file.write(measured, keep)
    staging = None if measured.image_mb is None else facts.staging(measured.image_mb)
    case = StormCase(loads=measured.loads, staging=staging, system=facts.system())
    of_node = cores or (settled.cpu.cores if settled.cpu else None) or world.host.cores
    job = StormJob(nodes=nodes, ranks=ranks, cores=of_node)
    prediction = _Prediction(
        case=case, job=job, rows=rows(case, job), facts=facts, measured=measured
    )
    written = prediction_file.of(
        case,
        job,
        prediction.rows,
        measured,
        facts.facts,
    )
    body = asdict(written)
    if target is not None:
        report_files.write(f"{output.document('storm', body)}\n", target)
    if as_json:
        output.emit("storm", body)
        return
    _print(prediction)
    if target is not None:
        output.say(f"wrote {target}; now: dlcontainer report {target} -o report.html")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settling:
    """What is measured, for which clients, and at which site."""

    subject: Path
    module: str | None
    profile: str
    site: "Site"
    world: "CliContext"


def _measured(settling: _Settling, console: output.Console) -> "LoadMeasurement":
    from dlcontainer.lab.slowfs.cache_profiles import PROFILES
    from dlcontainer.lab.storm import measure
    from dlcontainer.system.workspace import workspace

    if settling.subject.is_file():
        return _of_image(settling, console)
    assert settling.module is not None  # noqa: S101 - asked for above
    environ = settling.world.environ
    runner = console.runner(environ)
    with workspace(settling.world.scratch, runner, console.note) as work:
        bench = measure.Bench(
            work=work, runner=runner, profile=PROFILES[settling.profile], say=console.step
        )
        tree = measure.of_prefix(settling.subject, settling.module, environ)
        image = measure.packed(tree, work, runner)
        if image is None:
            console.note("no mksquashfs or squashfuse here: images are not predicted")
        return measure.measure(
            bench, tree, image, f"{settling.subject.name}: import {settling.module}"
        )


def _of_image(settling: _Settling, console: output.Console) -> "LoadMeasurement":
    from dlcontainer.bench.measure import arms
    from dlcontainer.bench.measure import bench_image as subjects
    from dlcontainer.bench.measure.declaration import common
    from dlcontainer.bench.probes import import_
    from dlcontainer.cli.bench import bench_context
    from dlcontainer.lab.slowfs.cache_profiles import PROFILES
    from dlcontainer.lab.storm import measure

    world = settling.world
    subject = subjects.read(settling.subject.resolve(), world.host.arch)
    name = settling.module or subject.first_module
    # As `bench import` launches it: with what the site puts around its images.
    with bench_context.at_site(world, console, settling.site, None, subject) as context:
        work = arms.Workload(
            probe=import_.IMPORT,
            cell=import_.cell(name, threads=1),
            environment=common(subject.environment, 1, context),
        )
        tree = arms.unpacked(context, subject)
        file = arms.container(context, subject, import_.IMPORT)
        runs = [
            measure.Runnable(argv=launch.argv, environ=launch.environment, under=under)
            for launch, under in (
                (tree.launch(work), tree.image),
                (file.launch(work), file.image.parent),
            )
        ]
        bench = measure.Bench(
            work=context.work,
            runner=console.runner(world.environ),
            profile=PROFILES[settling.profile],
            say=console.step,
        )
        packed = measure.PackedImport(run=runs[1], file=file.image)
        return measure.measure(bench, runs[0], packed, f"{settling.subject.name}: import {name}")


def _print(prediction: _Prediction) -> None:
    from dlcontainer.lab.storm.alternatives import launches_to_pay, nodes_to_pay
    from dlcontainer.lab.storm.storm_model import SHORT_BY

    job, facts, measured = prediction.job, prediction.facts, prediction.measured
    output.say(
        f"{measured.subject}; {job.nodes} nodes, {job.ranks} ranks each, clients like "
        f"{measured.profile}'s"
    )
    head = (
        "from",
        "last rank ready",
        "processor",
        "metadata",
        "reads",
        "staging",
        "server",
        "full at",
    )
    output.say(output.table([_line(row) for row in prediction.rows], head=head))
    output.say(_told(measured))
    least, most = SHORT_BY
    output.say(
        f"in our tests imports took {least:.0%} to {most:.0%} longer than "
        "predicted; the figures above do not include this"
    )
    for route in ("image per node", "staged"):
        nodes = nodes_to_pay(prediction.case, job, route)
        if nodes is not None:
            output.say(f"{route}: faster than the tree from {nodes} nodes on")
    launches = launches_to_pay(prediction.rows)
    if launches is not None:
        output.say(f"staging pays off after {launches} launches of this size")
    output.say("the file system:")
    output.say(
        output.table([[f"  {fact.key}", f"{fact.value:g}", fact.source] for fact in facts.facts])
    )
    if facts.assumed:
        output.say(
            f"{len(facts.assumed)} of these values are assumed: this is a sketch, not a promise"
        )


def _told(measured: "LoadMeasurement") -> str:
    """Return what the processor time and the waits are of, and how busy the machine was."""
    node = measured.node
    runs = ", ".join(f"{route} {len(timing.runs)}" for route, timing in measured.timings.items())
    shared = "; others used the machine: shared caches and clocks affect the times"
    bounds = [route for route, timing in measured.timings.items() if timing.waits.is_bound]
    waits = f"; all reads of {' and '.join(bounds)} count as waited for" if bounds else ""
    return (
        f"processor time by rusage, of repeated warm imports ({runs}) at {node}"
        f"{shared if node.is_shared else ''}{waits}"
    )


def _line(row: "AlternativeRow") -> list[str]:
    import math

    met, staged = row.prediction, row.staging
    return [
        row.way,
        f"{row.seconds:.3g} s",
        f"{met.processor_s:.3g} s",
        f"{met.metadata_s:.3g} s",
        f"{met.read_s:.3g} s",
        f"{staged[1]:.3g} s ({staged[0]})" if staged else "-",
        f"{met.busy:.0%} busy",
        f"{row.saturates_at:.0f} nodes" if math.isfinite(row.saturates_at) else "never",
    ]
