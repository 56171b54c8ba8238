"""The head of a job script: the scheduler's lines, and what its reader is told."""

import textwrap

from dlcontainer.formats.runtimes import Start
from dlcontainer.planning.launch import surroundings
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS, directives
from dlcontainer.sites import gpu_jobs
from dlcontainer.sites.site import Site

_SCRIPT = "job.sh"
_WORDS = ("[COMMAND [WORD ...]]",)
_WIDTH = 96


def lines(site: Site, launch: str | None = None) -> tuple[str, ...]:
    """Give the lines that a scheduler reads, with the values that the site asks for."""
    scheduler = site.scheduler
    form = scheduler.forms.get(next(iter(scheduler.forms), "") if launch is None else launch)
    ranks = 1 if form is None or form.inside else form.ranks_per_node
    asked = scheduler.resources.model_dump(exclude_none=True)
    batch, environment = SCHEDULERS[scheduler.kind], scheduler.parallel_environment
    missing = tuple(line for line in batch.needed if line not in scheduler.directives)
    written = missing + scheduler.directives
    if environment is not None:
        slots = int(asked.pop("nodes", 1)) * environment.slots_per_node
        words = batch.parallel.format(name=environment.name, slots=slots)
        written += (f"{batch.directive} {words}",)
    return directives.settled(batch, written, asked, ranks) if form or asked else written


def submitted(site: Site) -> str:
    """Give the command that submits the script, with the words that it takes."""
    return " ".join(SCHEDULERS[site.scheduler.kind].submit_argv(_SCRIPT, words=_WORDS))


def comments(plan: Plan, start: Start, usual: str, forms: list[str], *, shares: bool) -> list[str]:
    """Say where the script comes from, and what can be chosen when it is submitted."""
    site = plan.site
    said = [
        f"{plan.recipe.name} {plan.recipe.version} at site {site.target} ({site.arch})",
        f"plan: sha256:{plan.digest}",
        f"Rendered by dlcontainer. To submit it: {submitted(site)}",
    ]
    if lines(site):
        said.append("Account, partition, time and nodes above are yours to change, here or when it")
        said.append("is rendered: --account, --partition, --time, --nodes.")
    if site.status == "decommissioned":
        said.append("The machine is decommissioned: rendered for the record.")
    said += _choices(site, usual, forms, shares=shares)
    for note in gpu_jobs.notes(site):
        said += textwrap.wrap(f"note: {note}", _WIDTH, subsequent_indent="  ")
    if start.prefix is None and start.image:
        said.append(start.hint)
    used = [site.scheduler, *site.scheduler.forms.values(), site.jobs, site.engine]
    mpi = surroundings.used_mpi(plan)
    named = [source for facts in used for source in facts.sources]
    ids = dict.fromkeys([*named, *(mpi.sources if mpi else ())])
    said += [f"source: {site.sources[source]}" for source in ids]
    return said + _not_promised(site)


def _choices(site: Site, usual: str, forms: list[str], *, shares: bool) -> list[str]:
    """Name what a variable chooses when the script is submitted."""
    batch, staging = SCHEDULERS[site.scheduler.kind], site.jobs.staging

    def chosen(variable: str) -> str:
        return " ".join(batch.submit_argv(_SCRIPT, variable=variable))

    said = []
    if len(forms) > 1:
        other = chosen("DLCONTAINER_FORM=NAME")
        said.append(f"Ways to place ranks: {', '.join(forms)}. Another than {usual}: {other}")
    if staging.to:
        said.append(f"Without a copy of the image in {staging.to}: {chosen('DLCONTAINER_STAGE=0')}")
    if shares:
        said.append(f"Without one mount for a node's ranks: {chosen('DLCONTAINER_KEEP=0')}")
    return said


def _not_promised(site: Site) -> list[str]:
    """Name what the site file could not find out; it says itself what follows from each."""
    if not site.unknown:
        return []
    subjects = "; ".join(note.partition(": ")[0] for note in site.unknown)
    text = f"Not known, so not promised (why: dlcontainer site show {site.name}): {subjects}"
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
