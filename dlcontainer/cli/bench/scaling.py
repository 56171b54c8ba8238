"""`dlcontainer bench scaling`: both arms at each number of ranks, one paired session a point."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlcontainer.cli import options as common
from dlcontainer.cli import output
from dlcontainer.cli.bench import scaling_options
from dlcontainer.cli.bench.scaling_options import StudyOptions
from dlcontainer.errors import UsageError

if TYPE_CHECKING:
    from dlcontainer.bench.measure.bench_image import BenchImage
    from dlcontainer.bench.study.study_plan import OmittedPoint, PlannedPoints
    from dlcontainer.bench.study.study_points import StudySession
    from dlcontainer.bench.study.study_records import StudyPlan
    from dlcontainer.cli.bench.scaling_run import SessionResult, SettledStudy
    from dlcontainer.cli.context import CliContext
    from dlcontainer.sites.site import Site

# What a launch is started with otherwise than as usual belongs to the declaration.
_DECLARED = ("native", "margin", "threads", "timeout", "launcher", "form")


def _command(run: Callable[[StudyOptions], None]) -> Callable[..., None]:
    def scaling(**typed: Any) -> None:
        run(scaling_options.read(typed))

    parameters = list(scaling_options.parameters())
    scaling.__doc__ = "Measure an image at several numbers of ranks: native against container."
    scaling.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    scaling.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return scaling


def _run(options: StudyOptions) -> None:
    from dlcontainer.bench.study import study_folder
    from dlcontainer.cli.bench import scaling_run
    from dlcontainer.cli.context import here

    console = output.Console(verbose=options.verbose, quiet=options.as_json)
    world = here()
    study = settle(options, world)
    if not options.as_json:
        _say(study, console)
    if options.dry_run:
        if options.as_json:
            output.emit("bench-scaling-plan", _planned(study))
        return
    scaling_run.require_nodes(study, options, world, console)
    folder = options.folder.absolute()
    with study_folder.held(folder):
        study = replace(study, plan=study_folder.settle(folder, study.plan))
        results = scaling_run.run(study, options, world, console)
    _end(study, results, options)


def settle(options: StudyOptions, world: "CliContext") -> "SettledStudy":
    """Settle a study; nothing is written or started before it is known whole.

    Raises UsageError, and ChecksFailedError where the image holds nothing to measure.
    """
    from dlcontainer.bench.measure import bench_image
    from dlcontainer.bench.study import study_points
    from dlcontainer.bench.study.study_cost import NodeShape
    from dlcontainer.cli.bench.scaling_run import SettledStudy

    site = world.site(options.site).value
    image = bench_image.read(common.image_file(options.image), world.host.arch, site.owners)
    planned = _points(options, site)
    plan = _plan(options, site, image, planned)
    last = planned.points[-1].ranks
    for point in planned.points:
        _require_measurable(study_points.of_point(point, plan, is_last=point.ranks == last), image)
    plan, lacking = _extras(plan, image)
    return SettledStudy(
        plan=plan,
        sessions=study_points.sessions(plan),
        omitted=(*planned.omitted, *lacking),
        shape=NodeShape(
            devices=site.accelerator.per_node if site.accelerator else 0,
            cores=site.cpu.cores if site.cpu else world.host.cores,
        ),
        in_jobs=site.scheduler.kind != "none" and not options.one_allocation,
    )


def _points(options: StudyOptions, site: "Site") -> "PlannedPoints":
    from dlcontainer.bench.samples.schedule import DEFAULT_LOOKS
    from dlcontainer.bench.study import study_plan
    from dlcontainer.cli.bench import defaults, session_options

    session_options.check_pairs(options.pairs)
    ranks = study_plan.ranks(options.ranks)
    return study_plan.points(
        study_plan.StudyRequest(
            ranks=ranks,
            ranks_per_node=_per_node(options, site, ranks[-1]),
            batch=_batch(options, site),
            strategies=study_plan.strategies(options.parallel),
            scaling=options.scaling,
            looks=defaults.looks(options.pairs, options.looks) or DEFAULT_LOOKS,
            extras=() if options.no_extras else study_plan.EXTRAS,
        )
    )


def _per_node(options: StudyOptions, site: "Site", most: int) -> int:
    """Return the ranks of a full node: as typed, or as the site places them."""
    if options.per_node is not None:
        return options.per_node
    if site.scheduler.kind == "none":
        return most
    forms = site.scheduler.forms
    form = forms.get(options.form) if options.form else next(iter(forms.values()), None)
    if form is not None and not form.inside:
        return form.ranks_per_node
    return site.accelerator.per_node if site.accelerator else 1


def _batch(options: StudyOptions, site: "Site") -> int:
    """Return the batch as typed, or that of the network on the site's device; 0 for build()."""
    from dlcontainer.bench.probes.networks import choices

    if options.batch is not None:
        return options.batch
    if options.scaling == "strong" or options.values.get("script"):
        return 0
    device = str(options.values.get("device") or "auto")
    # A GPU's batch is that of any accelerator.
    is_cpu = device == "cpu" or (device == "auto" and site.accelerator is None)
    device = "cpu" if is_cpu else "cuda"
    network = str(options.values.get(choices.WORKLOAD.name) or choices.RESIDUAL)
    # What is no network is refused with the probe's own words.
    return choices.BATCHES.get(network, {}).get(device, 0)


def _plan(
    options: StudyOptions, site: "Site", image: "BenchImage", planned: "PlannedPoints"
) -> "StudyPlan":
    from dlcontainer import __version__
    from dlcontainer.bench.measure import declaration
    from dlcontainer.bench.probes.networks import choices
    from dlcontainer.bench.study import study_plan, study_points
    from dlcontainer.bench.study.study_records import StudyPlan

    named = {choices.WORKLOAD.name: choices.RESIDUAL, choices.PRECISION.name: choices.PRECISIONS[0]}
    kept = {name: str(options.values.get(name) or usual) for name, usual in named.items()}
    typed = {name: value for name, value in options.values.items() if name not in named}
    typed |= {name: getattr(options, name) for name in _DECLARED}
    if options.native is not None:
        typed["native"] = str(options.native.absolute())
    workload = kept[choices.WORKLOAD.name]
    if (script := _script(options, image)) is not None:
        workload, typed["script_sha256"] = script
    if options.settings:
        typed["settings"] = " ".join(options.settings)
    most = max(-(-point.ranks // point.nodes) for point in planned.points)
    typed[study_points.RANKS_PER_NODE] = _per_node(options, site, most)
    return StudyPlan(
        site=options.site,
        image_sha256=image.sha256,
        recipe=image.recipe,
        workload=workload,
        precision=kept[choices.PRECISION.name],
        scaling=options.scaling,
        one_allocation=options.one_allocation,
        points=planned.points,
        extras=planned.extras,
        created=declaration.now(),
        version=__version__,
        options=study_plan.options_of(typed),
    )


def _script(options: StudyOptions, image: "BenchImage") -> tuple[str, str] | None:
    """Return the name and the SHA-256 of a user's own network; None without one.

    Raises UsageError where the study's folder lies in the script's: its sessions would change it.
    """
    from dlcontainer.bench.probes.networks import script
    from dlcontainer.bench.probes.probe import ParameterContext
    from dlcontainer.bench.probes.train import TRAIN

    words = options.values.get(script.SCRIPT.name)
    if not words:
        return None
    typed = {**{option.name: None for option in TRAIN.options}, **options.values}
    values = TRAIN.values(typed, ParameterContext(contents=image.contents, ranks=1))
    folder = Path(str(words).rpartition(":")[0]).resolve().parent
    if options.folder.resolve().is_relative_to(folder):
        raise UsageError(
            f"-o {options.folder}: it lies in the folder of {script.SCRIPT.flag} {words}",
            why="that folder is copied for both sides, and each session would change it",
            next_step="name a folder elsewhere: -o FOLDER",
        )
    return str(values[script.SCRIPT.name]), str(values[script.DIGEST])


def _extras(plan: "StudyPlan", image: "BenchImage") -> "tuple[StudyPlan, tuple[OmittedPoint, ...]]":
    """Leave out, by name, the extras that an image has nothing for: they are no points."""
    from dlcontainer.bench.study import study_points
    from dlcontainer.bench.study.study_plan import OmittedPoint
    from dlcontainer.errors import ChecksFailedError

    kept, lacking = [], []
    for extra in plan.extras:
        try:
            _require_measurable(study_points.of_extra(extra, plan), image)
        except (ChecksFailedError, UsageError) as error:
            why = f"{error.what} ({error.why})" if error.why else error.what
            lacking.append(OmittedPoint(ranks=extra.ranks, strategy=extra.kind, why=why))
        else:
            kept.append(extra)
    return replace(plan, extras=tuple(kept)), tuple(lacking)


def _require_measurable(session: "StudySession", image: "BenchImage") -> None:
    """Refuse, with the probe's own words, what no launch of a session could measure."""
    from dlcontainer.bench.probes import PROBES
    from dlcontainer.bench.probes.probe import ParameterContext

    probe = PROBES[session.probe]
    typed = {**{option.name: None for option in probe.options}, **session.values}
    probe.values(typed, ParameterContext(contents=image.contents, ranks=session.ranks))


def _planned(study: "SettledStudy") -> dict[str, object]:
    from dlcontainer.bench.study import study_cost

    def costs(cost: study_cost.StudyCost) -> dict[str, float]:
        return {
            "least_minutes": round(cost.least_s / 60, 1),
            "most_minutes": round(cost.most_s / 60, 1),
            "least_hours": round(cost.least_hours, 2),
            "most_hours": round(cost.most_hours, 2),
        }

    nodes_held = _held(study)
    total = study_cost.of_study(
        study.sessions, study.shape, one_allocation=study.plan.one_allocation
    )
    return {
        "sessions": [
            {
                "session": session.title,
                "ranks": session.ranks,
                "nodes": session.nodes,
                "looks": list(session.looks),
                **costs(study_cost.of_session(session, study.shape, nodes=nodes_held)),
            }
            for session in study.sessions
        ],
        **costs(total),
        "hours_of": study.shape.unit,
        "assumed_launch_s": study_cost.LAUNCH_S,
        "left_out": [
            {"ranks": omitted.ranks, "strategy": omitted.strategy, "why": omitted.why}
            for omitted in study.omitted
        ],
        "emulated": _emulated(study),
    }


def _held(study: "SettledStudy") -> int | None:
    """Return the nodes that are held all the time; None where each point has its own."""
    return max(session.nodes for session in study.sessions) if study.plan.one_allocation else None


def _emulated(study: "SettledStudy") -> list[str]:
    """Say for each session whose ranks have no core each that its compute is emulated."""
    from dlcontainer.bench.study import study_points

    if study.shape.devices:
        return []
    texts = (
        (session.title, study_points.emulated(session.ranks_per_node, study.shape.cores))
        for session in study.sessions
        # Messages compute nothing.
        if session.trains
    )
    return [f"{title}: {text}" for title, text in texts if text]


def _say(study: "SettledStudy", console: output.Console) -> None:
    """Print points, minutes and hours before anything starts."""
    from dlcontainer.bench.samples.vocabulary import counted
    from dlcontainer.bench.study import study_cost

    unit, nodes_held = study.shape.unit, _held(study)
    rows = []
    for session in study.sessions:
        cost = study_cost.of_session(session, study.shape, nodes=nodes_held)
        looks = ",".join(map(str, session.looks))
        rows.append((session.title, str(session.ranks), str(session.nodes), looks, *_cells(cost)))
    total = study_cost.of_study(
        study.sessions, study.shape, one_allocation=study.plan.one_allocation
    )
    rows.append(("all", "", "", "", *_cells(total)))
    output.say(output.table(rows, head=("point", "ranks", "nodes", "pairs", "min", f"{unit}-h")))
    output.paragraph(
        f"Assumed: {study_cost.LAUNCH_S:.0f} s a launch, {counted(study.shape.count, unit)} a "
        "node. The last point ends at the first of its looks that decides."
    )
    for omitted in study.omitted:
        console.note(f"left out: {omitted.strategy} at {omitted.ranks} ranks: {omitted.why}")
    for text in _emulated(study):
        console.note(text)


def _cells(cost: Any) -> tuple[str, str]:
    minutes = f"{cost.least_s / 60:.0f}-{cost.most_s / 60:.0f}"
    hours = f"{cost.least_hours:.1f}-{cost.most_hours:.1f}"
    if cost.least_s == cost.most_s:
        minutes, hours = minutes.partition("-")[0], hours.partition("-")[0]
    return minutes, hours


def _end(study: "SettledStudy", results: "Sequence[SessionResult]", options: StudyOptions) -> None:
    """Say what became of each session; raises ChecksFailedError where one failed."""
    from dlcontainer.errors import ChecksFailedError

    failed = [result for result in results if result.outcome == "failed"]
    if options.as_json:
        body = {"folder": str(options.folder), **_planned(study)}
        output.emit("bench-scaling", {**body, "results": [result.as_json() for result in results]})
        raise typer.Exit(ChecksFailedError.exit_code if failed else 0)
    rows = [
        (result.session, result.outcome, f"{result.seconds:.0f} s", result.in_short)
        for result in results
    ]
    output.say(output.table(rows, head=("point", "outcome", "time", "why")))
    if failed:
        raise ChecksFailedError(
            f"{len(failed)} of {len(results)} sessions failed",
            where=str(options.folder),
            why="; ".join(f"{result.session}: {result.why}" for result in failed),
            next_step="fix the cause, then run the same command again; complete sessions are kept",
        )
    output.copied(f"dlcontainer report {options.folder}", before="next: ")


scaling = _command(_run)
