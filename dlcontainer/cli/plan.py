"""`dlcontainer plan`: one recipe for one site, every value settled."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from dlcontainer.cli import options, output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dlcontainer.engines.capabilities import EngineCapabilities
    from dlcontainer.planning.plan import Plan
    from dlcontainer.recipes.steps import Step


def plan(
    site: options.OptionalSite = None,
    recipe: options.Recipe = None,
    node_type: options.NodeType = None,
    epoch: options.Epoch = None,
    variant: options.Variant = None,
    cpu: options.Cpu = False,
    every: options.All = False,
    settings: options.Set = None,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Show what a build would make: base, steps, digest; with -v the origin of each value."""
    from dlcontainer.cli.context import here
    from dlcontainer.planning.plan import base_python
    from dlcontainer.sites.site import SiteTarget

    if every:
        options.refuse_with_all(set=settings, node_type=node_type, epoch=epoch, variant=variant)
        from dlcontainer.cli import matrix

        matrix.plan_all(here(), recipe, site, cpu=cpu, as_json=as_json, every=verbose)
        return
    site = options.required_site(site, "plan", recipe)
    meant = SiteTarget(node_type=node_type, epoch=epoch)
    settled = here().plan(recipe, site, settings, meant, variant, cpu=cpu)
    if as_json:
        output.emit("plan", _body(settled))
        return
    trial = settled.trial
    rows = [
        ("image", settled.name),
        ("recipe", f"{settled.recipe.name} {settled.recipe.version}: {settled.recipe.summary}"),
        ("site", f"{settled.site.target} ({settled.site.arch}): {settled.site.summary}"),
        *_variant(settled, every=verbose),
        ("base", settled.recipe.base.title),
        ("python", f"{base_python(settled.recipe) or 'of the base'} in {settled.recipe.prefix}"),
        ("engine", _engine(settled.site.engine.kind, trial)),
        *([("between nodes", between)] if (between := _between_nodes(settled)) else []),
        *_job(settled),
        ("digest", f"sha256:{settled.digest}"),
    ]
    output.say(output.table(rows))
    output.title("\nsteps")
    steps = [(f"  {number}.", f"{step.name}: {_work(step)}") for number, step in _steps(settled)]
    output.say(output.table(steps))
    _say_notes(settled)
    if verbose:
        output.title("\nvalues, with where each comes from")
        values = [(f"  {k}", output.shown(v), origin) for k, v, origin in settled.origins]
        output.say(output.table(values))
        return
    rivals = len(settled.choice.passed_over) if settled.choice else 0
    variants = f", and why {rivals} other variants were not taken" if rivals else ""
    output.say(f"\n-v shows {len(settled.origins)} values, each with its origin{variants}")


def _steps(settled: "Plan") -> "Iterable[tuple[int, Step]]":
    return enumerate(settled.recipe.steps, start=1)


def _say_notes(settled: "Plan") -> None:
    from dlcontainer.planning.plan import UNKNOWN

    unknown = [f"{UNKNOWN}{line}" for line in settled.site.unknown]
    notes = [note for note in settled.notes if note not in unknown]
    for title, lines in (
        ("notes", notes),
        (f"not known at {settled.site.target}, so not promised", settled.site.unknown),
    ):
        if lines:
            output.title(f"\n{title}")
            output.listed(lines)


def _between_nodes(settled: "Plan") -> str | None:
    from dlcontainer.planning.launch import surroundings
    from dlcontainer.sites import fabric_jobs

    uses_mpi = surroundings.used_mpi(settled) is not None
    return fabric_jobs.said(settled.site, uses_mpi=uses_mpi)


def _job(settled: "Plan") -> list[tuple[str, str]]:
    from dlcontainer.formats import job_request

    settings = job_request.asked(settled)
    rows = [
        f"{setting.name} {setting.meant} ({setting.written}: {setting.where})"
        for setting in settings
    ]
    return list(zip(["job", *[""] * len(rows)], rows, strict=False))


def _variant(settled: "Plan", *, every: bool) -> list[tuple[str, str]]:
    choice = settled.choice
    if choice is None:
        return []
    rows = [("variant", f"{choice.name} ({choice.kind}), {choice.why}")]
    if every:
        rows += [("", f"not {name}: {why}") for name, why in choice.passed_over.items()]
    return rows


def _engine(kind: str, trial: "EngineCapabilities | None") -> str:
    if trial is None:
        return f"{kind}, not tried here: run `dlcontainer doctor`"
    return f"{trial.version}, builds in mode {trial.build_mode}, runs in mode {trial.run_mode}"


def _work(step: "Step") -> str:
    if step.os_packages:
        return "OS packages " + ", ".join(step.os_packages)
    if step.python_packages:
        return "Python packages " + ", ".join(step.python_packages.packages)
    if step.conda_packages:
        return "conda packages " + ", ".join(step.conda_packages.packages)
    if step.files:
        return "files " + ", ".join(step.files.values())
    if step.shell:
        return "shell snippet"
    return "environment " + ", ".join(step.environment)


def _body(settled: "Plan") -> dict[str, object]:
    from dlcontainer.formats import job_request
    from dlcontainer.planning import pins

    facts = settled.recipe.base.facts
    return {
        "name": settled.name,
        "digest": settled.digest,
        "variant": asdict(settled.choice) if settled.choice else None,
        "content": settled.content,
        "engine": {
            "kind": settled.site.engine.kind,
            "version": settled.trial.version if settled.trial else None,
            "build_mode": settled.trial.build_mode if settled.trial else None,
            "run_mode": settled.trial.run_mode if settled.trial else None,
        },
        "between_nodes": _between_nodes(settled),
        "job": [asdict(setting) for setting in job_request.asked(settled)],
        "system": facts.model_dump(mode="json") if facts else None,
        "pins": [asdict(pin) for pin in pins.of_plan(settled)],
        "origins": {key: str(origin) for key, _, origin in settled.origins},
        "notes": list(settled.notes),
    }
