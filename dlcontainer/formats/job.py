"""Plan -> job script: runs the image at the site as the centre documents it.

All documented ways to place ranks stand in the script, and a variable chooses one when the job is
submitted: where jobs are submitted there is often no dlcontainer to render another.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlcontainer import config
from dlcontainer.config.templating import Text, quote
from dlcontainer.errors import ConfigError
from dlcontainer.formats import host_variables, job_environment, runtimes
from dlcontainer.formats.job_environment import Surroundings
from dlcontainer.formats.runtimes import Start
from dlcontainer.image import layout
from dlcontainer.planning.plan import Plan
from dlcontainer.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from dlcontainer.sites.facts import Facts

TEMPLATE = "job/job.sh.j2"
NEED = "dlc_need "
_WIDTH = 96
_SCRIPT = "job.sh"
_WORDS = ("[COMMAND [WORD ...]]",)


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """One way to place ranks, as lines of the script that lay the launcher before the command."""

    name: Text
    summary: Text
    lines: tuple[Text, ...]


def values(plan: Plan, launch: str | None = None) -> Mapping[str, object]:
    """Compute what the template shows; `launch` names the form that is usual in this script.

    Raises ConfigError for a form that the site has not, and for what its runtime can't do.
    """
    scheduler = plan.site.scheduler
    batch = SCHEDULERS[scheduler.kind]
    usual = _usual(plan, launch)
    around = job_environment.of(plan)
    start = runtimes.start(plan, around)
    forms = _forms(plan, around, start)
    environment = _environment(around)
    inside = _inside(around, start)
    start_needs = _need([*around.flags, *around.binds], around.environment)
    lines = [*environment, *inside, *start_needs, *(line for form in forms for line in form.lines)]
    return {
        "directives": [Text(line) for line in scheduler.directives],
        "head": [Text(line) for line in _head(plan, start, usual)],
        "needs": any(line.startswith(NEED) for line in lines),
        "go": Text(batch.enter_folder),
        "start": start,
        "python": plan.python,
        "probe": Text(layout.PROBE),
        "modules": [command.split() for command in around.modules],
        "scripts": [host_variables.shell(script) for script in around.scripts],
        "environment": environment,
        "inside": inside,
        "start_needs": start_needs,
        "command": _laid([*(Text(quote(word)) for word in plan.site.jobs.prefix), *start.words]),
        "counts": bool(scheduler.forms),
        "nodes": Text(batch.node_count),
        "submit": f"run this in a job: {' '.join(batch.submit_argv(_SCRIPT, words=_WORDS))}",
        "forms": forms,
        "usual": Text(usual),
        "names": Text(", ".join(scheduler.forms)),
    }


def _usual(plan: Plan, launch: str | None) -> str:
    known = list(plan.site.scheduler.forms)
    if launch is None:
        return known[0] if known else ""
    if launch not in known:
        raise ConfigError(
            f"no form {launch!r} at site {plan.site.name}{config.suggest(launch, known)}",
            where="--form",
            next_step=f"one of: {', '.join(known)}" if known else "leave it out: the site has none",
        )
    return launch


def _head(plan: Plan, start: Start, usual: str) -> list[str]:
    site = plan.site
    batch = SCHEDULERS[site.scheduler.kind]
    submit = " ".join(batch.submit_argv(_SCRIPT, words=_WORDS))
    lines = [
        f"{plan.recipe.name} {plan.recipe.version} at site {site.target} ({site.arch})",
        f"plan: sha256:{plan.digest}",
        f"Rendered by dlcontainer. To submit it: {submit}",
    ]
    if site.scheduler.directives:
        lines.append("Account, queue and time above are yours to change.")
    if site.status == "decommissioned":
        lines.append("The machine is decommissioned: rendered for the record.")
    if len(site.scheduler.forms) > 1:
        names = ", ".join(site.scheduler.forms)
        chosen = " ".join(batch.submit_argv(_SCRIPT, variable="DLCONTAINER_FORM=NAME"))
        lines.append(f"Ways to place ranks: {names}. Another than {usual}: {chosen}")
    if start.prefix is None and start.image:
        lines.append(start.hint)
    used: list[Facts | None] = [site.scheduler, *site.scheduler.forms.values(), site.jobs]
    used += [site.engine, job_environment.used_mpi(plan)]
    ids = dict.fromkeys(source for facts in used if facts for source in facts.sources)
    lines += [f"source: {site.sources[source]}" for source in ids]
    lines += [f"not known: {what}" for what in site.unknown]
    return lines


def _environment(around: Surroundings) -> list[Text]:
    """Give the exports on the host, each variable that they use asked for before."""
    lines = []
    known: set[str] = set()
    for name, value in around.environment.items():
        lines += _need([value], known)
        lines.append(Text(f"export {name}={host_variables.shell(value)}"))
        known.add(name)
    return lines


def _inside(around: Surroundings, start: Start) -> list[Text]:
    """Give the lines that hand variables, and host libraries, to the runtime."""
    texts = [*around.inside.values(), *around.preload, *around.library_path, *around.libraries]
    lines = _need(texts, around.environment)
    if around.library_path and not start.on_launcher:
        entries = map(host_variables.shell, around.library_path)
        lines += [
            # An empty entry would mean the current folder.
            Text("dlc_path="),
            _wrapped("for dlc_entry in", entries, "; do"),
            Text('    [ -z "$dlc_entry" ] || dlc_path=${dlc_path:+$dlc_path:}$dlc_entry'),
            Text("done"),
        ]
    if start.prefix is None:
        return lines
    given = {name: host_variables.shell(value) for name, value in around.inside.items()}
    if around.preload:
        given["LD_PRELOAD"] = runtimes.joined(around.preload, ":")
    if around.library_path:
        given["LD_LIBRARY_PATH"] = Text('"$dlc_path"')
    if given:
        lines += [
            Text("# The runtime evaluates these as a shell does between double quotes."),
            Text(
                f'dlc_inside() {{ export "{start.prefix}ENV_$1=$(printf %s "$2" |'
                " LC_ALL=C sed 's/[\\\\$`]/\\\\&/g')\"; }"
            ),
        ]
        lines += [Text(f"dlc_inside {name} {value}") for name, value in given.items()]
    if around.libraries:
        libraries = runtimes.joined(around.libraries, ",")
        lines.append(Text(f"export {start.prefix}_CONTAINLIBS={libraries}"))
    return lines


def _need(texts: Iterable[str], known: Iterable[str]) -> list[Text]:
    names = [name for name in host_variables.variables(texts) if name not in set(known)]
    return [Text(NEED + " ".join(names))] if names else []


def _forms(plan: Plan, around: Surroundings, start: Start) -> list[Form]:
    scheduler = plan.site.scheduler
    if not scheduler.forms:
        lines = _need(scheduler.launcher, around.environment)
        lines += _laid([*map(host_variables.shell, scheduler.launcher), *start.on_launcher])
        return [Form(name=Text(""), summary=Text(""), lines=tuple(lines))]
    indent = 8 if len(scheduler.forms) > 1 else 0
    forms = []
    for name, form in scheduler.forms.items():
        ranks = form.ranks_per_node
        counts = {"ranks_per_node": str(ranks), "ranks": f"$((dlc_nodes * {ranks}))"}
        used = [name for name in counts if any(f"{{{name}}}" in word for word in form.launcher)]
        lines = [
            *_need(form.launcher, around.environment),
            *([Text(" ".join(f"dlc_{name}={counts[name]}" for name in used))] if used else []),
            *_laid([*map(host_variables.launch_word, form.launcher), *start.on_launcher], indent),
        ]
        forms.append(Form(name=Text(name), summary=Text(form.summary), lines=tuple(lines)))
    return forms


def _laid(words: list[Text], indent: int = 0) -> list[Text]:
    """Lay words before what is to run."""
    return [_wrapped("set --", words, ' "$@"', indent)] if words else []


def _wrapped(head: str, words: Iterable[Text], tail: str, indent: int = 0) -> Text:
    """Write a long command on several lines; words hold no line break."""
    lines = [head]
    for word in words:
        if indent + len(lines[-1]) + len(word) > _WIDTH:
            lines.append("   ")
        lines[-1] += f" {word}"
    glue = " \\\n" + " " * indent
    return Text(f"{glue.join(lines)}{tail}")
