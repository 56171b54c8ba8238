"""The head of a job script: the scheduler's lines, and what its reader is told."""

import textwrap
from dataclasses import dataclass

from dlcontainer.formats import job_end
from dlcontainer.formats.runtimes import RuntimeStart
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.launch.launch_plan import LaunchPlan
from dlcontainer.schedulers import SCHEDULERS, directives
from dlcontainer.sites import fabric_jobs, gpu_jobs
from dlcontainer.sites.site import Site

SCRIPT = "job.sh"
_WORDS = ("[COMMAND [WORD ...]]",)
_WIDTH = 96


def lines(site: Site, launch: str | None = None) -> tuple[str, ...]:
    """Return the lines that a scheduler reads, with the values that the site asks for."""
    scheduler = site.scheduler
    form = scheduler.forms.get(next(iter(scheduler.forms), "") if launch is None else launch)
    ranks = 1 if form is None or form.inside else form.ranks_per_node
    resources = scheduler.resources.model_dump(exclude_none=True)
    batch, environment = SCHEDULERS[scheduler.kind], scheduler.parallel_environment
    missing = tuple(line for line in batch.needed if line not in scheduler.directives)
    written = missing + scheduler.directives
    if environment is not None:
        slots = int(resources.pop("nodes", 1)) * environment.slots_per_node
        words = batch.parallel.format(name=environment.name, slots=slots)
        written += (f"{batch.directive} {words}",)
    return directives.settled(batch, written, resources, ranks) if form or resources else written


def submitted(site: Site, script: str = SCRIPT) -> str:
    """Return the command that submits the script, with the words that it takes."""
    return " ".join(SCHEDULERS[site.scheduler.kind].submit_argv(script, words=_WORDS))


@dataclass(frozen=True, kw_only=True, slots=True)
class JobChoices:
    """What can be chosen as a job is submitted, and how a user names its script."""

    usual: str
    forms: list[str]
    script: str
    shares: bool


def comments(plan: LaunchPlan, start: RuntimeStart, choices: JobChoices) -> list[str]:
    """Return what is submitted, and what can be chosen when it is."""
    site = plan.site
    mpi = surroundings.used_mpi(plan)
    collectives = fabric_jobs.said(site, uses_mpi=mpi is not None)
    comment_lines = [
        *([f"Collectives between nodes: {collectives}"] if collectives else []),
        f"{plan.recipe.name} {plan.recipe.version} at site {site.target} ({site.arch})",
        f"plan: sha256:{plan.digest}",
        f"Rendered by dlcontainer. To submit it: {submitted(site, choices.script)}",
    ]
    if lines(site) and choices.script != SCRIPT:
        submit = SCHEDULERS[site.scheduler.kind].submit
        comment_lines.append(f"Options of {submit} come before these lines: account, time, nodes.")
    elif lines(site):
        options = "--account, --partition, --time, --nodes"
        comment_lines.append(f"Edit the lines above, or render it with {options}.")
    if site.status == "decommissioned":
        comment_lines.append("The machine is decommissioned: rendered for the record.")
    comment_lines += _choices(site, choices)
    if start.prefix is None and start.image:
        comment_lines.append(start.hint)
    return comment_lines


def sources(plan: LaunchPlan) -> list[str]:
    """Return what to know of the site's jobs, where its facts are from, and what is not known."""
    site, mpi = plan.site, surroundings.used_mpi(plan)
    used = [
        site.scheduler,
        *site.scheduler.forms.values(),
        site.jobs,
        site.engine,
        site.collectives,
    ]
    named = [source for facts in used for source in facts.sources]
    ids = dict.fromkeys([*named, *(mpi.sources if mpi else ())])
    notes = [
        line
        for note in (*gpu_jobs.notes(site), *job_end.notes(site))
        for line in textwrap.wrap(f"note: {note}", _WIDTH, subsequent_indent="  ")
    ]
    return [*notes, *(f"source: {site.sources[source]}" for source in ids), *_not_promised(site)]


def _choices(site: Site, offered: JobChoices) -> list[str]:
    """Name what a variable chooses when the script is submitted."""
    batch, staging = SCHEDULERS[site.scheduler.kind], site.jobs.staging

    def chosen(variable: str) -> str:
        return " ".join(batch.submit_argv(offered.script, variable=variable))

    choices = []
    if len(offered.forms) > 1:
        form_choice = chosen("DLCONTAINER_FORM=NAME")
        names = ", ".join(offered.forms)
        choices.append(f"Ways to place ranks: {names}. Another than {offered.usual}: {form_choice}")
    if staging.to:
        choices.append(
            f"Without a copy of the image in {staging.to}: {chosen('DLCONTAINER_STAGE=0')}"
        )
    warning = job_end.warning(site)
    if warning is not None and warning.again:
        choices.append(f"Told of its limit, it begins again: {chosen('DLCONTAINER_REQUEUE=1')}")
    if offered.shares:
        choices.append(f"Without one mount for a node's ranks: {chosen('DLCONTAINER_KEEP=0')}")
    return choices


def _not_promised(site: Site) -> list[str]:
    """Name what the site file could not find out; it says itself what follows from each."""
    if not site.unknown:
        return []
    subjects = "; ".join(note.partition(": ")[0] for note in site.unknown)
    text = f"Not known, so not promised (why: dlcontainer site show {site.name}): {subjects}"
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
